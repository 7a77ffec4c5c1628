//! Opening without waiting: a pipe is opened at once or not at all.

#![cfg_attr(unix, expect(unsafe_code, reason = "calls the C library"))]

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file. A pipe that is to be written and that nobody reads is an error; otherwise one would wait for
/// its reader for ever. Once it is open, reading and writing wait as usual.
#[cfg(unix)]
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let handle = file.as_raw_fd();
    // SAFETY: both calls read and change the flags of a handle that is open, and touch no memory.
    let changed = unsafe {
        let flags = libc::fcntl(handle, libc::F_GETFL);
        flags >= 0 && libc::fcntl(handle, libc::F_SETFL, flags & !libc::O_NONBLOCK) >= 0
    };
    if changed { Ok(file) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(unix))]
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.open(path)
}

/// Whether opening failed because a pipe is to be written that nobody reads.
pub(super) fn has_no_reader(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        error.raw_os_error() == Some(libc::ENXIO)
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
