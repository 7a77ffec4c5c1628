//! Files that are read whole, and files that are written whole or not at all.
//!
//! How that is done is in [`dahl_runtime::file`]; here errors name the file.

use crate::error::{Error, Result};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use dahl_runtime::file::Unreadable;

pub use dahl_runtime::file::remove_stale;

/// Writes the file at `path` by `fill`: afterwards it holds all that `fill` wrote and is on the disk, or
/// there was an error and it is what it was before. What is no ordinary file, such as a pipe, is written
/// directly.
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
    dahl_runtime::file::write(path, fill).map_err(|error| unwritable(path, error))
}

/// Creates a folder, and those that it is in, unless it is there.
pub fn create_folder(folder: impl AsRef<Path>) -> Result<()> {
    let folder = folder.as_ref();
    fs::create_dir_all(folder).map_err(|error| {
        let why = dahl_runtime::file::uncreatable(&error).to_string();
        Error::data(folder, why).because_of(error)
    })
}

/// Reads all of a regular file, unless it has more than `limit` bytes. Nothing else is opened: not a folder,
/// and nothing that may have no end or keep its reader waiting, as devices and pipes do.
pub fn read(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    dahl_runtime::file::read(path, limit).map_err(|error| unreadable(path, error))
}

/// Likewise, a text.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    let path = path.as_ref();
    dahl_runtime::file::read_text(path, limit).map_err(|error| unreadable(path, error))
}

/// The error for a file or folder that could not be read.
pub(crate) fn unreadable(path: &Path, error: impl Into<Unreadable>) -> Error {
    let error = error.into();
    let named = Error::data(path, error.to_string());
    match error {
        Unreadable::System(cause) => named.because_of(cause),
        _ => named,
    }
}

/// The error for a file that could not be written: why, and what to do.
pub fn unwritable(path: &Path, error: io::Error) -> Error {
    let why = dahl_runtime::file::unwritable(&error).to_string();
    Error::data(path, why).because_of(error)
}
