//! A hash that is the same on every platform and in every version: FNV-1a with 128 bits.
//!
//! It tells plans and graphs apart; it does not protect against anybody who wants two of them to look alike.

use super::file::escaped;
use crate::graph::{BufferKind, Graph, Lowered, Role};
use std::fmt::{self, Write};
use std::str::FromStr;

const BASIS: u128 = 0x6c62272e_07bb0142_62b82175_6295c58d;
const PRIME: u128 = 0x00000000_01000000_00000000_0000013b;

/// The hash of a text, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The hash of what `text` shows.
    pub fn of(text: impl fmt::Display) -> Self {
        let mut hash = Fingerprint(BASIS);
        // Taking in text cannot fail.
        let _ = write!(hash, "{text}");
        hash
    }

    /// The hash of some bytes.
    pub fn of_bytes(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut hash = Fingerprint(BASIS);
        bytes.into_iter().for_each(|byte| hash.add(byte));
        hash
    }

    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
    }

    /// The hash of a recorded graph: everything about it that a plan depends on.
    pub fn of_graph(graph: &Graph) -> Self {
        Fingerprint::of(Recorded(graph))
    }
}

impl Fingerprint {
    /// The hash of a lowered graph: its buffers, its tasks and what they touch, from which everything else follows.
    pub fn of_lowered(lowered: &Lowered) -> Self {
        let mut hash = Fingerprint(BASIS);
        let mut add = |number: usize| hash.0 = (hash.0 ^ number as u128).wrapping_mul(PRIME);
        add(lowered.depth());
        add(lowered.buffers().len());
        for buffer in lowered.buffers() {
            add(buffer.bytes);
            // A plan keeps no room for state, one place for what is temporary, and one per version for rings.
            match buffer.kind {
                BufferKind::Temporary => add(0),
                BufferKind::Ring => add(1),
                BufferKind::State(id) => [2, id.0].into_iter().for_each(&mut add),
            }
        }
        for task in lowered.tasks() {
            add(task.accesses.len());
            for access in &task.accesses {
                let mode = usize::from(access.reads) + 2 * usize::from(access.writes);
                [access.buffer, access.range.start, access.range.end, mode].into_iter().for_each(&mut add);
            }
            task.places.iter().for_each(|place| add(place.buffer.wrapping_shl(32) ^ place.offset));
        }
        hash
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.add(byte));
        Ok(())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_hash = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash { u128::from_str_radix(text, 16).map(Fingerprint).map_err(|_| ()) } else { Err(()) }
    }
}

/// A recorded graph, written out.
struct Recorded<'a>(&'a Graph);

impl fmt::Display for Recorded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "depth {}", self.0.depth())?;
        for array in self.0.arrays() {
            let (name, role) = (escaped(&array.name), role(array.role));
            writeln!(f, "array {name} {}{} {role}", array.dtype, array.shape)?;
        }
        for task in self.0.tasks() {
            writeln!(f, "task {} {} {}", escaped(task.codelet.name), escaped(task.codelet.line), task.dtype)?;
            for var in &task.args {
                writeln!(f, "arg {} {} {}{}", var.array, var.offset, var.dtype, var.shape)?;
            }
            task.ints.iter().try_for_each(|int| writeln!(f, "int {int}"))?;
            // Bits, because numbers that differ must not look alike.
            task.scalars.iter().try_for_each(|scalar| writeln!(f, "scalar {:016x}", scalar.to_bits()))?;
        }
        Ok(())
    }
}

/// What an array is for, in a word.
pub(super) fn role(role: Role) -> String {
    match role {
        Role::Temporary => "temporary".into(),
        Role::Port => "port".into(),
        Role::Output => "output".into(),
        Role::State(id) => format!("state:{}", id.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_their_published_hashes() {
        assert_eq!(Fingerprint::of("").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Fingerprint::of("a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Fingerprint::of("foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn a_hash_is_read_as_it_is_shown() {
        let hash = Fingerprint::of("foobar");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for wrong in ["", "1", "+43e1662793c64bf6f0d3597ba446f18", "343e1662793c64bf6f0d3597ba446f180"] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
