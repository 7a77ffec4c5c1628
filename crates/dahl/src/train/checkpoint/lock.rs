//! One run at a time in a folder of checkpoints.

use crate::error::{Error, Result};
use crate::file;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// What is locked in a folder.
const NAME: &str = ".dahl-lock";

/// A folder into which no other run saves for as long as this is kept.
///
/// The file `.dahl-lock` in the folder is locked. It is empty and stays there; what counts is the lock, which
/// the system takes away from a process that has ended, however it did. File systems without locks have none:
/// there everybody gets one.
///
/// ```
/// use dahl::train::FolderLock;
/// # let folder = std::env::temp_dir().join(format!("dahl-doc-lock-{}", std::process::id()));
/// let lock = FolderLock::take(&folder)?;
/// let refused = FolderLock::take(&folder).unwrap_err();
/// assert!(refused.to_string().contains("another run saves into this folder"));
/// drop(lock);
/// FolderLock::take(&folder)?;
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), dahl::Error>(())
/// ```
#[derive(Debug)]
pub struct FolderLock {
    folder: PathBuf,
    _file: File,
}

impl FolderLock {
    /// Locks a folder, which is created if need be. Fails where another run has it, and where nothing can be
    /// written into it.
    pub fn take(folder: impl AsRef<Path>) -> Result<FolderLock> {
        let folder = folder.as_ref().to_path_buf();
        file::create_folder(&folder)?;
        let path = folder.join(NAME);
        let unwritable = |error| file::unwritable(&path, error);
        let lock = dahl_runtime::file::open_lock(&path).map_err(unwritable)?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            let message =
                "another run saves into this folder: wait until it has ended, or name another folder";
            return Err(Error::data(&folder, message));
        }
        // The file may be older than what forbids to write here now.
        dahl_runtime::file::writable(&path).map_err(unwritable)?;
        Ok(FolderLock { folder, _file: lock })
    }

    /// The folder that is locked.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
