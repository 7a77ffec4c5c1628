//! Just enough of the zip format for npz files: members that are stored or deflated, also with 64-bit sizes.
//!
//! The directory at the end of the archive is what counts. Nothing in it is believed: places must lie in the file and not overlap,
//! and what is inflated must have the length and the checksum that the directory says.

use crate::memory;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::io::{self, Read};

/// The most bytes that all members of an archive may have together. A small file can be inflated to a thousand times its size.
const MAX_INFLATED_BYTES: u64 = 1 << 33;

const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const END_64: &[u8] = b"PK\x06\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;

/// What a 32-bit field says if the number is in a 64-bit field elsewhere.
const ELSEWHERE: u64 = 0xffff_ffff;

/// A file in an archive.
pub(super) struct Member<'a> {
    /// Its name, with folders.
    pub name: String,
    start: usize,
    packed: &'a [u8],
    is_deflated: bool,
    bytes: u64,
    checksum: u32,
}

fn damaged(what: &str) -> String {
    format!("the zip archive is damaged or cut off: {what}")
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64, String> {
    let end = at.checked_add(N).ok_or_else(|| damaged("a place that cannot be"))?;
    let field = bytes.get(at..end).ok_or_else(|| damaged("it ends within its directory"))?;
    Ok(field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn place(number: u64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| damaged("a place beyond its end"))
}

/// The files in an archive, in the order of its directory.
pub(super) fn members(archive: &[u8]) -> Result<Vec<Member<'_>>, String> {
    if !archive.starts_with(b"PK") {
        let n = archive.len().min(4);
        return Err(match archive {
            [] => "expected a zip archive of arrays (npz), but the file is empty".into(),
            _ => format!(
                "expected a zip archive of arrays (npz), but the file begins with {:02x?}",
                &archive[..n]
            ),
        });
    }
    let (n_entries, directory) = directory(archive)?;
    let mut members = Vec::new();
    let mut at = directory;
    for _ in 0..n_entries {
        let (member, next) = entry(archive, at)?;
        // A folder has a name that ends in a slash, and no contents.
        if !member.name.ends_with('/') {
            members.push(member);
        }
        at = next;
    }
    let mut places: Vec<(usize, usize)> =
        members.iter().map(|member| (member.start, member.packed.len())).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[1].0 - pair[0].0 < LOCAL_BYTES + pair[0].1) {
        return Err(damaged("two of its members overlap"));
    }
    let all = members.iter().try_fold(0u64, |all, member| all.checked_add(member.bytes));
    if all.is_none_or(|bytes| bytes > MAX_INFLATED_BYTES) {
        return Err(format!(
            "its members are larger than {MAX_INFLATED_BYTES} bytes together, which is refused"
        ));
    }
    Ok(members)
}

/// How many entries the directory has, and where it begins.
fn directory(archive: &[u8]) -> Result<(u64, usize), String> {
    // A comment of up to 65535 bytes may follow the end of the directory.
    let first = archive.len().saturating_sub(END_BYTES + 0xffff);
    let last = archive.len().saturating_sub(END_BYTES);
    let end = (first..=last).rev().find(|&at| archive[at..].starts_with(END));
    let end = end.ok_or_else(|| damaged("there is no end of its directory"))?;
    let (n_entries, start) = (number::<2>(archive, end + 10)?, number::<4>(archive, end + 16)?);
    let locator = end.checked_sub(20).filter(|&at| archive[at..].starts_with(LOCATOR_64));
    let Some(locator) = locator.filter(|_| n_entries == 0xffff || start == ELSEWHERE) else {
        return Ok((n_entries, place(start)?));
    };
    let end = place(number::<8>(archive, locator + 8)?)?;
    if !archive.get(end..).is_some_and(|rest| rest.starts_with(END_64)) {
        return Err(damaged("there is no end of its 64-bit directory"));
    }
    Ok((number::<8>(archive, end + 32)?, place(number::<8>(archive, end + 48)?)?))
}

/// The member that the directory describes at `at`, and where the next one is described.
fn entry(archive: &[u8], at: usize) -> Result<(Member<'_>, usize), String> {
    if !archive.get(at..).is_some_and(|rest| rest.starts_with(ENTRY)) {
        return Err(damaged("an entry of its directory is missing"));
    }
    let flags = number::<2>(archive, at + 8)?;
    let method = number::<2>(archive, at + 10)?;
    let checksum = number::<4>(archive, at + 16)? as u32;
    let mut packed = number::<4>(archive, at + 20)?;
    let mut bytes = number::<4>(archive, at + 24)?;
    let [name, extra, comment] =
        [number::<2>(archive, at + 28)?, number::<2>(archive, at + 30)?, number::<2>(archive, at + 32)?]
            .map(|length| length as usize);
    let mut start = number::<4>(archive, at + 42)?;
    let name_at = at + ENTRY_BYTES;
    let extra_at = name_at + name;
    let next = extra_at + extra + comment;
    if next > archive.len() {
        return Err(damaged("it ends within its directory"));
    }
    let name = String::from_utf8_lossy(&archive[name_at..extra_at]).into_owned();
    widen(&archive[extra_at..extra_at + extra], [&mut bytes, &mut packed, &mut start])?;

    if flags & 1 != 0 {
        return Err(format!("'{name}' is encrypted, which is not supported"));
    }
    if method != 0 && method != 8 {
        return Err(format!(
            "'{name}' is compressed by method {method}; only stored and deflated members are supported"
        ));
    }
    let start = place(start)?;
    if !archive.get(start..).is_some_and(|rest| rest.starts_with(LOCAL)) {
        return Err(damaged(&format!("'{name}' is not where it should be")));
    }
    let skipped = number::<2>(archive, start + 26)? + number::<2>(archive, start + 28)?;
    let from = start + LOCAL_BYTES + skipped as usize;
    let to = place(packed)?.checked_add(from);
    let packed = to.and_then(|to| archive.get(from..to));
    let packed = packed.ok_or_else(|| damaged(&format!("it ends within '{name}'")))?;
    Ok((Member { name, start, packed, is_deflated: method == 8, bytes, checksum }, next))
}

/// Takes the numbers that did not fit 32 bits from the extra field that holds them, in this order.
fn widen(mut extra: &[u8], numbers: [&mut u64; 3]) -> Result<(), String> {
    while extra.len() >= 4 {
        let (kind, length) = (number::<2>(extra, 0)?, number::<2>(extra, 2)? as usize);
        let end = (4 + length).min(extra.len());
        if kind == 1 {
            let mut at = 4;
            for wide in numbers.into_iter().filter(|number| **number == ELSEWHERE) {
                *wide = number::<8>(&extra[..end], at)?;
                at += 8;
            }
            return Ok(());
        }
        extra = &extra[end..];
    }
    Ok(())
}

impl<'a> Member<'a> {
    /// Its contents, checked.
    pub(super) fn contents(&self) -> Result<Cow<'a, [u8]>, String> {
        let name = &self.name;
        let contents: Cow<'a, [u8]> = if self.is_deflated {
            let mut bytes = Vec::new();
            // One byte more than expected shows that there are more; memory grows with what comes.
            let mut source = DeflateDecoder::new(self.packed).take(self.bytes.saturating_add(1));
            source.read_to_end(&mut bytes).map_err(|error| match error.kind() {
                io::ErrorKind::OutOfMemory => memory::shortage(self.bytes, "tensors"),
                _ => damaged(&format!("'{name}' cannot be inflated ({error})")),
            })?;
            bytes.into()
        } else {
            self.packed.into()
        };
        if contents.len() as u64 != self.bytes {
            let came = if contents.len() as u64 > self.bytes { "more" } else { "fewer" };
            return Err(damaged(&format!(
                "'{name}' has {came} bytes than the {} it should have",
                self.bytes
            )));
        }
        let mut crc = Crc::new();
        crc.update(&contents);
        if crc.sum() != self.checksum {
            return Err(damaged(&format!("the checksum of '{name}' is wrong")));
        }
        Ok(contents)
    }
}
