//! Files that are read whole, and files that are written whole or not at all.
//!
//! How that is done is in [`dahl_runtime::file`]; here errors name the file.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

pub use dahl_runtime::file::remove_stale;

/// Writes the file at `path` by `fill`: afterwards it holds all that `fill` wrote and is on the disk, or there was an
/// error and it is what it was before. What is no ordinary file, such as a pipe, is written directly.
///
/// ```
/// let path = std::env::temp_dir().join(format!("dahl-doc-{}", std::process::id()));
/// dahl::file::write(&path, |out| writeln!(out, "all or nothing"))?;
/// assert_eq!(std::fs::read_to_string(&path).unwrap(), "all or nothing\n");
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), dahl::Error>(())
/// ```
pub fn write(path: impl AsRef<Path>, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let path = path.as_ref();
    dahl_runtime::file::write(path, fill).map_err(|error| unwritable(path, &error))
}

/// Creates a folder, and those that it is in, unless it is there.
pub fn create_folder(folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    fs::create_dir_all(folder).map_err(|error| Error::data(folder, dahl_runtime::file::uncreatable(&error)))
}

/// Reads all of a file. Pipes are read too, but nothing that may have no end.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let unreadable = |error: io::Error| unreadable(path, &error);
    let mut file = File::open(path).map_err(unreadable)?;
    let kind = file.metadata().map_err(unreadable)?.file_type();
    if kind.is_dir() {
        return Err(Error::data(path, "expected a file, but this is a folder; name a file in it"));
    }
    if !kind.is_file() && !is_pipe(kind) {
        return Err(Error::data(path, "expected a file, but this is a device; name a file"));
    }
    let mut bytes = Vec::new();
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let len = usize::try_from(len).map_err(|_| unreadable(ErrorKind::OutOfMemory.into()))?;
    bytes.try_reserve_exact(len).map_err(|_| unreadable(ErrorKind::OutOfMemory.into()))?;
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(unix)]
fn is_pipe(kind: fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: fs::FileType) -> bool {
    false
}

/// The error for a file or folder that could not be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::NotFound => "check the path",
        ErrorKind::NotADirectory => "a part of the path is a file and not a folder: check the path",
        ErrorKind::IsADirectory => "this is a folder: name a file in it",
        ErrorKind::PermissionDenied => "check its permissions",
        ErrorKind::OutOfMemory => "it is larger than the memory",
        _ => "check the file and its disk",
    };
    Error::data(path, format!("expected a readable file, but reading it failed ({error}); {advice}"))
}

/// The error for a file that could not be written: why, and what to do.
pub fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::data(path, dahl_runtime::file::unwritable(error))
}
