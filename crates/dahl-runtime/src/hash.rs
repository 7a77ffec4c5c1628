//! A hash that is the same on every platform and in every version: FNV-1a with 128 bits.
//!
//! It tells plans, graphs and machines apart; it does not protect against anybody who wants two of them to
//! look alike.

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
        let mut hash = Fingerprint::start();
        // Taking in text cannot fail.
        let _ = write!(hash, "{text}");
        hash
    }

    /// The hash of some bytes.
    pub fn of_bytes(bytes: impl IntoIterator<Item = u8>) -> Self {
        let mut hash = Fingerprint::start();
        bytes.into_iter().for_each(|byte| hash.add(byte.into()));
        hash
    }

    /// The hash of nothing yet, to be continued by [`Fingerprint::add`].
    pub(crate) fn start() -> Self {
        Fingerprint(BASIS)
    }

    /// Takes in a byte, or a larger number at once.
    pub(crate) fn add(&mut self, value: usize) {
        self.0 = (self.0 ^ value as u128).wrapping_mul(PRIME);
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.add(byte.into()));
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
