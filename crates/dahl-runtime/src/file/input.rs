//! Files that are read: the one way in.
//!
//! A name that somebody gives may stand for anything: a folder, a pipe that nobody writes to, a device
//! without an end. Here only regular files are opened, none of them waits, and each has a size that was
//! looked at and a limit that it is read to. What is written to the file after it was opened is not read.

use super::{Failure, waitless};
use crate::error::Error;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::{error, fmt};

/// Files of the system (`/proc`) say that they are empty and are not. So many bytes are looked for in what
/// says so.
const UNSIZED_BYTES: u64 = 16 << 20;

/// A regular file that was opened to be read.
#[derive(Debug)]
pub struct Input {
    source: io::Take<File>,
    n_bytes: u64,
}

impl Input {
    /// Opens the file at `path`, unless it has more than `limit` bytes.
    pub fn open(path: &Path, limit: u64) -> Result<Input, Unreadable> {
        // Opening can be an act by itself, as for a tape. So one looks before, and then at what was really
        // opened.
        check(&fs::metadata(path)?)?;
        let file = waitless::open(path, OpenOptions::new().read(true))?;
        let metadata = file.metadata()?;
        check(&metadata)?;
        let n_bytes = metadata.len();
        if n_bytes > limit {
            return Err(Unreadable::TooLong { n_bytes, limit });
        }
        let end = if n_bytes == 0 { limit.min(UNSIZED_BYTES) } else { n_bytes };
        Ok(Input { source: file.take(end), n_bytes })
    }

    /// The size of the file when it was opened.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// All bytes of the file.
    fn read_all(mut self) -> Result<Vec<u8>, Unreadable> {
        let no_memory = || Unreadable::NoMemory { n_bytes: self.n_bytes };
        let mut bytes = Vec::new();
        let n_bytes = usize::try_from(self.n_bytes).map_err(|_| no_memory())?;
        bytes.try_reserve_exact(n_bytes).map_err(|_| no_memory())?;
        self.source.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.source.read(bytes)
    }
}

/// Reads the file at `path`, unless it has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Unreadable> {
    Input::open(path, limit)?.read_all()
}

/// Reads the text in the file at `path`, unless it has more than `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Unreadable> {
    String::from_utf8(read(path, limit)?).map_err(|_| Unreadable::NoText)
}

/// Refuses everything but regular files.
fn check(metadata: &Metadata) -> Result<(), Unreadable> {
    match metadata.is_file() {
        true => Ok(()),
        false => Err(Unreadable::NoFile(kind(metadata))),
    }
}

/// What something is called that is no regular file.
fn kind(metadata: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if metadata.file_type().is_fifo() {
            return "a pipe";
        }
        if metadata.file_type().is_socket() {
            return "a socket";
        }
    }
    if metadata.is_dir() { FOLDER } else { "a device" }
}

const FOLDER: &str = "a folder";

/// Why a file could not be read: a sentence without its subject, with what to do. What the system said is its
/// source, and in the sentence with `{:#}`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// The system says why.
    System(io::Error),
    /// It is no regular file, but this.
    NoFile(&'static str),
    /// It is larger than anything that is read in its place.
    TooLong {
        /// Its size.
        n_bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// There is not enough memory for it.
    NoMemory {
        /// Its size.
        n_bytes: u64,
    },
    /// It was expected to be text, and is not.
    NoText,
}

impl Unreadable {
    /// The error of whoever needed the file; `what` says for what.
    pub fn into_error(self, what: impl fmt::Display) -> Error {
        let error = Error::new(crate::error::ErrorKind::Io, format!("{what}: {self}"));
        match self {
            Unreadable::System(cause) => error.because_of(cause),
            _ => error,
        }
    }

    /// Whether there is nothing at the path.
    pub fn is_absent(&self) -> bool {
        matches!(self, Unreadable::System(error) if error.kind() == ErrorKind::NotFound)
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Unreadable::System(error)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::System(error) => {
                let advice = match error.kind() {
                    ErrorKind::NotFound => "check the path",
                    ErrorKind::NotADirectory => {
                        "a part of the path is a file and not a folder: check the path"
                    }
                    ErrorKind::PermissionDenied => "check its permissions",
                    ErrorKind::OutOfMemory => "there is not enough memory for it",
                    _ => "check the file and its disk",
                };
                Failure { what: "expected a readable file, but reading it failed", error, advice }.fmt(f)
            }
            Unreadable::NoFile(FOLDER) => {
                f.write_str("expected a file, but this is a folder; name a file in it")
            }
            Unreadable::NoFile(kind) => write!(f, "expected a file, but this is {kind}; name a file"),
            Unreadable::TooLong { n_bytes, limit } => {
                write!(f, "expected a file of at most {limit} bytes, but it has {n_bytes}; check the path")
            }
            Unreadable::NoMemory { n_bytes } => {
                write!(
                    f,
                    "not enough memory for the {n_bytes} bytes of this file: end other programs, or take a smaller file"
                )
            }
            Unreadable::NoText => {
                f.write_str("expected text in UTF-8, but it has other bytes; check the path")
            }
        }
    }
}

impl error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Unreadable::System(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::file::Growing;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::process::Command;

    /// A folder that goes with the test, and a pipe in it that nobody reads or writes.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("dahl-input-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            assert!(Command::new("mkfifo").arg(path.join("pipe")).status().unwrap().success());
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_regular_files_are_read_and_none_waits() {
        let folder = Folder::new("kinds");
        let link = folder.0.join("link");
        symlink("/dev/zero", &link).unwrap();
        for (path, part) in [
            (folder.0.join("pipe"), "this is a pipe"),
            (PathBuf::from("/dev/zero"), "this is a device"),
            (link, "this is a device"),
            (folder.0.clone(), "this is a folder"),
            (folder.0.join("none"), "check the path"),
        ] {
            let message = read(&path, 1000).unwrap_err().to_string();
            assert!(message.contains(part), "{}: {message}", path.display());
        }
        // Nor is a pipe written that nobody reads.
        let error = Growing::begin(&folder.0.join("pipe"), b"text").unwrap_err();
        assert!(crate::file::unwritable(&error).to_string().contains("nobody reads"), "{error}");
    }

    #[test]
    fn a_file_is_read_to_its_size_and_up_to_the_limit() {
        let folder = Folder::new("sizes");
        let path = folder.0.join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "text");
        let message = read(&path, 3).unwrap_err().to_string();
        assert!(message.contains("at most 3 bytes, but it has 4"), "{message}");
        fs::write(&path, [0xff]).unwrap();
        assert!(matches!(read_text(&path, 4), Err(Unreadable::NoText)));
        assert!(read(&folder.0.join("none"), 4).unwrap_err().is_absent());
        // Larger than any memory, and takes no room on the disk.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        let n_bytes = Input::open(&path, u64::MAX).unwrap().n_bytes();
        assert_eq!(n_bytes, 1 << 42);
        assert!(matches!(read(&path, 1 << 20), Err(Unreadable::TooLong { .. })));
    }

    #[test]
    fn what_is_appended_while_a_file_is_read_is_left_out() {
        let folder = Folder::new("growing");
        let path = folder.0.join("file");
        fs::write(&path, "before").unwrap();
        let input = Input::open(&path, 100).unwrap();
        fs::write(&path, "before and after").unwrap();
        assert_eq!(input.read_all().unwrap(), b"before");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn files_of_the_system_are_read_although_they_say_that_they_are_empty() {
        assert!(read_text(Path::new("/proc/self/status"), 1 << 20).unwrap().contains("VmRSS"));
        assert_eq!(read(Path::new("/proc/self/status"), 5).unwrap().len(), 5);
    }

    #[test]
    fn a_pipe_with_a_reader_is_written_as_a_whole() {
        let folder = Folder::new("written");
        let pipe = folder.0.join("pipe");
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap().len())
        };
        // More than a pipe holds, so that writing has to wait.
        let text = vec![b'x'; 1 << 20];
        let written = loop {
            match crate::file::write(&pipe, |out| out.write_all(&text)) {
                // The reader has not opened it yet.
                Err(error) if crate::file::unwritable(&error).to_string().contains("nobody reads") => {
                    std::thread::yield_now();
                }
                written => break written,
            }
        };
        written.unwrap();
        assert_eq!(reader.join().unwrap(), text.len());
    }
}
