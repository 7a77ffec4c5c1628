//! Files: how they are opened and read ([`Input`], [`read`]), and how they are written whole or not at all,
//! and why they could not be.
//!
//! Every file that this program reads or writes is opened here. A name may stand for a device or a pipe, and
//! none of those may keep a program waiting or fill its memory.
//!
//! [`write()`] is how everything that must survive a crash is written: into a temporary file of the same
//! folder, which takes the place of the old file only when all of it is on the disk. At any moment the name
//! stands for all of the old contents or all of the new ones.
//!
//! A temporary file is locked while it is written. So [`remove_stale`] can tell what a dead process left
//! behind from what another one is writing just now, on any system and without knowing about processes.
//!
//! What grows line by line ([`Growing`]) is begun by [`write()`] too, and a line that does not fit is taken
//! back.

mod input;
mod waitless;

pub use input::{Input, Unreadable, read, read_text};

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of temporary files end in; they also begin with a dot.
const ENDING: &str = ".dahl-tmp";

/// Writes the file at `path` by `fill`: afterwards it holds all that `fill` wrote and is on the disk, or
/// there was an error and it is what it was before. What is no ordinary file, such as a pipe, is written
/// directly.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    replace(path, fill, true)
}

/// Likewise, but without waiting for the disk, which may take longer than all the rest: if the system itself
/// fails soon after, the file may be empty or cut off. For what is checked when it is read and can be done
/// without.
pub fn write_soon(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    replace(path, fill, false)
}

/// Whether [`write()`] could write this file, as far as that can be known without doing it. Nothing is left
/// behind. What is no ordinary file is not looked at: whoever reads a pipe would take that for its end.
pub fn writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(before) if before.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(before) if !before.is_file() => Ok(()),
        Ok(_) => Temporary::beside(&replaceable(path)?).map(drop),
        Err(_) => Temporary::beside(path).map(drop),
    }
}

/// The file that is replaced when the existing `path` is written: a link stays a link, and what it points to
/// is replaced. Fails where that may not be written, though its folder may: whoever protects a file wants to
/// keep it.
fn replaceable(path: &Path) -> io::Result<PathBuf> {
    let target = fs::canonicalize(path)?;
    waitless::open(&target, OpenOptions::new().write(true))?;
    Ok(target)
}

/// A file that grows while a program runs. What was added stays, whatever happens to what is added later.
#[derive(Debug)]
pub struct Growing {
    file: File,
    is_ordinary: bool,
}

impl Growing {
    /// Begins the file at `path` with `text`, written whole or not at all as by [`write()`].
    pub fn begin(path: &Path, text: &[u8]) -> io::Result<Growing> {
        let is_ordinary = fs::metadata(path).map_or(true, |before| before.is_file());
        if is_ordinary {
            write(path, |out| out.write_all(text))?;
            let file = waitless::open(path, OpenOptions::new().append(true))?;
            return Ok(Growing { file, is_ordinary });
        }
        let mut file = waitless::open(path, OpenOptions::new().write(true))?;
        file.write_all(text)?;
        Ok(Growing { file, is_ordinary })
    }

    /// Adds all of `text`, or nothing and says why.
    pub fn add(&mut self, text: &[u8]) -> io::Result<()> {
        let before = if self.is_ordinary { Some(self.file.metadata()?.len()) } else { None };
        let written = self.file.write_all(text);
        if let (Err(_), Some(len)) = (&written, before) {
            // A part of a line would be taken for all of it.
            let _ = self.file.set_len(len);
        }
        written
    }
}

/// Opens a file in which the system tells something that changes, to be read again and again.
pub(crate) fn open_system(path: &Path) -> io::Result<File> {
    waitless::open(path, OpenOptions::new().read(true))
}

/// Opens a file that is there to be locked, and makes it if there is none. It is never removed: whoever
/// locked a removed file and whoever locked a new one would both think they were alone.
pub fn open_lock(path: &Path) -> io::Result<File> {
    // A link to nowhere is not followed, and a pipe is not waited for.
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            waitless::open(path, OpenOptions::new().write(true))
        }
        opened => opened,
    }
}

fn replace(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    is_synced: bool,
) -> io::Result<()> {
    let before = fs::metadata(path).ok();
    if let Some(before) = &before
        && !before.is_file()
    {
        let mut out = BufWriter::new(waitless::open(path, OpenOptions::new().write(true))?);
        fill(&mut out)?;
        return out.flush();
    }
    let target = if before.is_some() { replaceable(path)? } else { path.to_path_buf() };
    let temporary = Temporary::beside(&target)?;
    if let Some(before) = before {
        temporary.file.set_permissions(before.permissions())?;
    }
    let mut out = BufWriter::with_capacity(1 << 16, &temporary.file);
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    if is_synced {
        temporary.file.sync_all()?;
    }
    fs::rename(&temporary.path, &target)?;
    temporary.keep();
    if is_synced { sync_folder(folder_of(&target)) } else { Ok(()) }
}

/// A file that is removed again unless it is kept.
struct Temporary {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl Temporary {
    /// A new, locked file in the folder of `target`.
    fn beside(target: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let Some(name) = target.file_name() else { return Err(ErrorKind::InvalidFilename.into()) };
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let mut temporary = OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}-{number}{ENDING}", std::process::id()));
            let path = folder_of(target).join(temporary);
            let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Where there are no locks, nobody gets one, so that nobody takes the file for stale.
            let _ = file.lock();
            // Between creation and lock the file may have been taken for stale and removed.
            if path.exists() {
                return Ok(Temporary { path, file, is_kept: false });
            }
        }
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the temporary files that writers of dead processes left in a folder.
pub fn remove_stale(folder: impl AsRef<Path>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_temporary = name.starts_with('.') && name.ends_with(ENDING);
        if !is_temporary || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // Where there are no locks, it stays. Removed while locked: a writer that waits for the lock then
        // sees that its file is gone.
        if let Ok(file) = waitless::open(&entry.path(), OpenOptions::new().read(true))
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A new name is on the disk when its folder is.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems have nothing to do for a folder and say so.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// What is wrong with a file that could not be written, and what to do, as a sentence without its subject.
/// What the system said is in it with `{:#}`; with `{}` it is left to the source of an error.
pub fn unwritable(error: &io::Error) -> impl fmt::Display + '_ {
    let advice = match error.kind() {
        ErrorKind::StorageFull => "make room on the disk or name another place",
        ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "the limit for files is reached: name another place"
        }
        ErrorKind::PermissionDenied => {
            "check the permissions of the file and its folder, or name another place"
        }
        ErrorKind::ReadOnlyFilesystem => "nothing can be written there: name another place",
        ErrorKind::NotFound => "its folder does not exist: create it or check the path",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::NotADirectory => "a part of the path is a file and not a folder: check the path",
        ErrorKind::InvalidFilename => "check the path",
        _ if waitless::has_no_reader(error) => {
            "nobody reads from this pipe: start its reader first, or name a file"
        }
        _ => "check the path and its disk",
    };
    Failure { what: "cannot be written", error, advice }
}

/// What is wrong with a folder that could not be created, likewise.
pub fn uncreatable(error: &io::Error) -> impl fmt::Display + '_ {
    let advice = match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => "a file is in its place: name another folder",
        ErrorKind::PermissionDenied => "check the permissions or name another folder",
        ErrorKind::StorageFull => "make room on the disk or name another folder",
        _ => "name another folder",
    };
    Failure { what: "the folder cannot be created", error, advice }
}

/// What could not be done, why, and what to do.
struct Failure<'a> {
    what: &'static str,
    error: &'a io::Error,
    advice: &'static str,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { what, error, advice } = self;
        match f.alternate() {
            true => write!(f, "{what} ({error}); {advice}"),
            false => write!(f, "{what}; {advice}"),
        }
    }
}
