//! The members of a zip archive that npz files have: stored or deflated.
//!
//! What the bytes of the format mean is the work of the crate `rawzip`. What it says is not believed: here
//! members must not overlap, and what is inflated must have the length and the checksum that the directory
//! says.

use crate::memory;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, ErrorKind, ZipArchive, ZipFileHeaderRecord, ZipSliceArchive};
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// The most bytes that all members of an archive may have together. A small file can be inflated to a
/// thousand times its size.
const MAX_INFLATED_BYTES: u64 = 1 << 33;

/// A file in an archive.
pub(super) struct Member<'a> {
    /// Its name, with folders.
    pub name: String,
    /// Where it lies in the archive, with what is written before it.
    place: Range<u64>,
    packed: &'a [u8],
    is_deflated: bool,
    bytes: u64,
    checksum: u32,
}

fn damaged(what: &str) -> String {
    format!("the zip archive is damaged or cut off: {what}")
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
    let directory = ZipArchive::from_slice(archive).map_err(|error| match error.kind() {
        ErrorKind::MissingEndOfCentralDirectory => damaged("there is no end of its directory"),
        _ => damaged("its directory does not lie in it"),
    })?;
    let mut members = Vec::new();
    let mut n_entries = 0;
    for entry in directory.entries() {
        let entry = entry.map_err(|_| damaged("an entry of its directory is missing"))?;
        n_entries += 1;
        // A folder has no contents.
        if !entry.is_dir() {
            members.push(member(archive, &directory, &entry)?);
        }
    }
    if n_entries != directory.entries_hint() {
        return Err(damaged("its directory has more or fewer entries than it should have"));
    }
    let mut places: Vec<&Range<u64>> = members.iter().map(|member| &member.place).collect();
    places.sort_unstable_by_key(|place| place.start);
    if places.windows(2).any(|pair| pair[1].start < pair[0].end) {
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

/// The member that an entry of the directory describes.
fn member<'a>(
    archive: &'a [u8],
    directory: &ZipSliceArchive<&'a [u8]>,
    entry: &ZipFileHeaderRecord<'_>,
) -> Result<Member<'a>, String> {
    let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
    if entry.flags().is_encrypted() {
        return Err(format!("'{name}' is encrypted, which is not supported"));
    }
    let is_deflated = match entry.compression_method() {
        CompressionMethod::STORE => false,
        CompressionMethod::DEFLATE => true,
        other => {
            let method = other.as_u16();
            return Err(format!(
                "'{name}' is compressed by method {method}; only stored and deflated members are supported"
            ));
        }
    };
    let local = directory.get_entry(entry.wayfinder()).map_err(|error| match error.kind() {
        ErrorKind::Eof => damaged(&format!("it ends within '{name}'")),
        _ => damaged(&format!("'{name}' is not where it should be")),
    })?;
    let (from, to) = local.compressed_data_range();
    // The crate has looked that they lie in the archive; bytes of memory are counted in a usize.
    let packed = &archive[from as usize..to as usize];
    let place = entry.local_header_offset()..to;
    let (bytes, checksum) = (entry.uncompressed_size_hint(), entry.crc32());
    Ok(Member { name, place, packed, is_deflated, bytes, checksum })
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
