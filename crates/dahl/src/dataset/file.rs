//! Reading files of data, compressed or not.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use dahl_runtime::file::Input;
use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};
pub(super) use crate::file::unreadable;

/// The first bytes of every gzip file.
pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The most bytes that one file may have, packed or not. How many it is unpacked to has limits of its own.
const MAX_FILE_BYTES: u64 = 1 << 34;

/// The name of the folder, also where it is given as `.` or ends in `..`.
pub(super) fn name(dir: &Path) -> String {
    let full = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    full.file_name().map_or_else(|| "data".to_owned(), |last| last.to_string_lossy().into_owned())
}

/// The file `stem`, plain or compressed, in `dir`.
pub(super) fn find(dir: &Path, stem: &str) -> Result<PathBuf> {
    present(dir, stem).ok_or_else(|| {
        Error::data(
            dir,
            format!(
                "expected a file {stem} or {stem}.gz in this folder, but neither is there; add \
                     the missing file or check the path"
            ),
        )
    })
}

/// The file `stem`, plain or compressed, if it is in `dir`.
pub(super) fn present(dir: &Path, stem: &str) -> Option<PathBuf> {
    let plain = dir.join(stem);
    let compressed = dir.join(format!("{stem}.gz"));
    [plain, compressed].into_iter().find(|path| path.is_file())
}

/// The bytes of a file, inflated if it is compressed.
///
/// The first bytes decide about that and not the ending, because browsers and archive tools
/// like to inflate a file and keep its name, or the other way round.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>> {
    let input = Input::open(path, MAX_FILE_BYTES).map_err(|error| unreadable(path, error))?;
    let mut input = BufReader::with_capacity(1 << 16, input);
    let start = input.fill_buf().map_err(|error| unreadable(path, error))?;
    Ok(match start.starts_with(&GZIP_MAGIC) {
        true => Box::new(MultiGzDecoder::new(input)),
        false => Box::new(input),
    })
}

/// Appends up to `n_bytes` from `source` to `bytes`; fewer arrive only where the data end.
///
/// A compressed file that is cut off ends in an error of the decoder, which counts as an end: what
/// is missing is then told in the file's own terms. Other errors of the decoder mean damage.
pub(super) fn fill(path: &Path, source: &mut impl Read, bytes: &mut Vec<u8>, n_bytes: usize) -> Result<()> {
    match source.take(n_bytes as u64).read_to_end(bytes) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(damaged(path, error)),
        _ => Ok(()),
    }
}

/// The error for data that cannot be read or inflated to their end.
pub(super) fn damaged(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return Error::data(
            path,
            "not enough memory for what is in this file: end other programs, or take other data",
        );
    }
    let message =
        "expected data that are intact to their end, but reading failed; the file is damaged: fetch it again";
    Error::data(path, message).because_of(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_not_told_as_damage() {
        let told = |kind: io::ErrorKind| damaged(Path::new("x.gz"), kind.into()).to_string();
        assert!(told(io::ErrorKind::InvalidData).contains("the file is damaged"));
        let message = told(io::ErrorKind::OutOfMemory);
        assert!(message.starts_with("x.gz: not enough memory") && !message.contains("damaged"), "{message}");
    }
}
