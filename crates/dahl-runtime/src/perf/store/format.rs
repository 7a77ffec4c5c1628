//! What both files of a store have in common: the first lines, which say what it is, and the last, which
//! tells whether all of it is there.
//!
//! Files are lines of words; a word that is a text has `%` and two digits for every byte that is not a
//! visible character, and is a single `%` if it is empty.
//!
//! ```text
//! MAGIC VERSION
//! machine IDENTITY
//! ...
//! end CHECKSUM
//! ```
//!
//! The checksum is that of everything before the last line, so a file that was cut off or changed anywhere is
//! noticed. The first line stays as it is in all versions; only the number changes.

use super::Identity;
use crate::words::{Words, escaped};
use std::fmt::Write;

/// Rises when older programs could no longer read what is written, or would misunderstand it.
pub const VERSION: u64 = 1;

/// Why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is not what was once written.
    Damaged(String),
    /// It is of another version.
    Version(u64),
    /// It was measured elsewhere.
    Machine(String),
}

/// The first lines of a file.
pub(super) fn begun(magic: &str, identity: &Identity) -> String {
    format!("{magic} {VERSION}\nmachine {}\n", escaped(&identity.to_string()))
}

/// Adds the last line.
pub(super) fn end(text: &mut String) {
    let checksum = checksum(text.as_bytes());
    // Writing into a string cannot fail.
    let _ = writeln!(text, "end {checksum:032x}");
}

/// The lines between the first and the last ones, if all is as it was written.
pub(super) fn body<'a>(magic: &str, identity: &Identity, bytes: &'a [u8]) -> Result<&'a str, Refusal> {
    let damaged = |why: &str| Refusal::Damaged(why.to_string());
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first = std::str::from_utf8(first).unwrap_or_default();
    let version = first.strip_prefix(magic).and_then(|rest| rest.strip_prefix(' '));
    let version =
        version.ok_or_else(|| damaged(&format!("it does not begin as one of dahl's, with {magic}")))?;
    match version.parse::<u64>() {
        Ok(VERSION) if version == VERSION.to_string() => {}
        Ok(other) if other != VERSION && version == other.to_string() => return Err(Refusal::Version(other)),
        _ => return Err(damaged("its version is no number")),
    }
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
    let (before, end) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once('\n'))
        .ok_or_else(|| damaged("it ends early"))?;
    let before = &text[..before.len() + 1];
    let found = end.strip_prefix("end ").ok_or_else(|| damaged("it ends early: the last line is missing"))?;
    // A fuzzer would never get behind it.
    if found != format!("{:032x}", checksum(before.as_bytes())) && !cfg!(fuzzing) {
        return Err(damaged("its checksum is wrong: something in it was changed or lost"));
    }
    let rest = before[first.len() + 1..].strip_prefix("machine ").and_then(|rest| rest.split_once('\n'));
    let (machine, body) = rest.ok_or_else(|| damaged("it does not say of which machine it is"))?;
    let machine = Words::of(machine).text("a machine").map_err(Refusal::Damaged)?;
    if machine == identity.to_string() { Ok(body) } else { Err(Refusal::Machine(machine)) }
}

/// A checksum that takes eight bytes at a time, since files are summed up at the end of every run. Each step
/// can be undone, so any change within eight bytes is noticed for certain, and any other but for one in 2^64.
fn checksum(bytes: &[u8]) -> u128 {
    /// The odd numbers next to 2^64 over the golden ratio and over the square root of two.
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xb504_f333_f9de_6485];
    let mut sums = [bytes.len() as u64, !(bytes.len() as u64)];
    let mut add = |half: usize, word: u64| {
        sums[half] = (sums[half].rotate_left(23) ^ word).wrapping_mul(FACTORS[half]);
    };
    let mut pairs = bytes.chunks_exact(16);
    for pair in &mut pairs {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| pair[at + i]));
        add(0, word(0));
        add(1, word(8));
    }
    pairs.remainder().iter().enumerate().for_each(|(i, byte)| add(i % 2, u64::from(*byte)));
    // Each half depends on both, and small differences spread.
    for _ in 0..4 {
        let (a, b) = (sums[0], sums[1]);
        sums[0] = (a ^ b.rotate_left(32)).wrapping_mul(FACTORS[0]);
        sums[1] = (b ^ sums[0].rotate_left(29)).wrapping_mul(FACTORS[1]);
    }
    u128::from(sums[0]) << 64 | u128::from(sums[1])
}
