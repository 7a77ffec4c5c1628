//! One file of a store: read whole, changed under a lock, replaced whole.
//!
//! A file that is not what was once written (`format.rs`) is moved aside, to a name that ends in `.damaged`,
//! and begun anew; the caller gets a sentence about it. One of another version or machine is not used, and
//! never overwritten.

use super::format::{self, Refusal, VERSION};
use super::{Identity, Warning};
use crate::error::{Error, ErrorKind, Result};
use crate::file::{self, Unreadable};
use crate::shown;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a file is for.
#[derive(Debug)]
pub(super) struct Kind {
    /// What its name begins with.
    pub name: &'static str,
    /// What its first line begins with.
    pub magic: &'static str,
    /// Whether results depend on it. Then a crash must not lose it, and whoever reads a damaged one leaves it
    /// where it is, so that everybody hears of it until somebody writes it anew.
    pub is_precious: bool,
    /// What it means that it cannot be used, and what to do.
    pub loss: &'static str,
}

/// A file of one machine.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    kind: &'static Kind,
    path: PathBuf,
    identity: Identity,
}

/// No file that dahl writes is larger.
const MAX_BYTES: u64 = 64 << 20;
/// Others write for milliseconds; whoever holds the lock for longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// Damaged files that are kept.
const MAX_DAMAGED: u32 = 9;

impl Kept {
    pub fn new(kind: &'static Kind, folder: &Path, identity: &Identity) -> Kept {
        let hash = identity.fingerprint().to_string();
        let path = folder.join(format!("{}-{}.txt", kind.name, &hash[..16]));
        Kept { kind, path, identity: identity.clone() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; what is not there is empty. Nothing that could be wrong with it is an error: without
    /// it, one knows less.
    pub fn load<T: Default>(&self, read: impl Fn(&str) -> Parsed<T>) -> (T, Vec<Warning>) {
        let loaded = match self.read(&read) {
            Err(Unread::Refused(Refusal::Damaged(why))) if !self.kind.is_precious => {
                self.load_again(&read, &why)
            }
            Err(unread) => Err(format!("{}; {}", unread.sentence(), self.kind.loss)),
            Ok(contents) => Ok((contents, Vec::new())),
        };
        loaded.unwrap_or_else(|message| (T::default(), vec![self.warning(message)]))
    }

    /// Moves a damaged file aside, unless another process has done so meanwhile, which one knows when one has
    /// the lock.
    fn load_again<T: Default>(
        &self,
        read: impl Fn(&str) -> Parsed<T>,
        why: &str,
    ) -> std::result::Result<(T, Vec<Warning>), String> {
        let stays = |cause: String| format!("it is damaged: {why}; it is not used, and stays: {cause}");
        let _lock = self.lock().map_err(|warning| stays(warning.to_string()))?;
        match self.read(&read) {
            Ok(contents) => Ok((contents, Vec::new())),
            Err(Unread::Refused(Refusal::Damaged(why))) => {
                let aside = self.set_aside(&why).map_err(|warning| warning.message)?;
                Ok((T::default(), vec![aside]))
            }
            Err(unread) => Err(unread.sentence()),
        }
    }

    /// Changes the file: `change` gets the lines and adds the new ones to a text. Returns what people should
    /// know. On an error the file is what it was before.
    pub fn update(&self, change: impl Fn(&str, &mut String) -> Parsed<Vec<String>>) -> Result<Vec<Warning>> {
        let error = |warning: Warning| Error::new(ErrorKind::Io, warning.to_string());
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|cause| {
            let message = file::uncreatable(&cause).to_string();
            error(Warning { path: folder.to_path_buf(), message }).because_of(cause)
        })?;
        let _lock = self.lock().map_err(error)?;
        file::remove_stale(folder);
        let changed = |body: &str| {
            let mut text = format::begun(self.kind.magic, &self.identity);
            let messages = change(body, &mut text)?;
            format::end(&mut text);
            Ok((text, messages))
        };
        let mut warnings = Vec::new();
        let attempt = self.bytes().and_then(|before| {
            let (text, messages) = self.parse(before.as_deref(), changed)?;
            let is_same = before.map_or(self.is_empty(&text), |before| before == text.as_bytes());
            Ok((text, messages, is_same))
        });
        let (text, messages, is_same) = match attempt {
            Ok(changed) => changed,
            Err(Unread::Refused(Refusal::Damaged(why))) => {
                warnings.push(self.set_aside(&why).map_err(error)?);
                let (text, messages) = changed("").map_err(|why| error(self.warning(why)))?;
                (text, messages, false)
            }
            Err(unread) => return Err(error(self.warning(unread.sentence()))),
        };
        if !is_same {
            let fill = |out: &mut dyn Write| out.write_all(text.as_bytes());
            let written = match self.kind.is_precious {
                true => file::write(&self.path, fill),
                // One that a crash left half-written is noticed.
                false => file::write_soon(&self.path, fill),
            };
            written.map_err(|cause| {
                let message = file::unwritable(&cause).to_string();
                error(self.warning(message)).because_of(cause)
            })?;
        }
        warnings.extend(messages.into_iter().map(|message| self.warning(message)));
        Ok(warnings)
    }

    fn read<T>(&self, read: impl Fn(&str) -> Parsed<T>) -> std::result::Result<T, Unread> {
        self.parse(self.bytes()?.as_deref(), read)
    }

    fn parse<T>(
        &self,
        bytes: Option<&[u8]>,
        read: impl Fn(&str) -> Parsed<T>,
    ) -> std::result::Result<T, Unread> {
        let body = bytes.map(|bytes| format::body(self.kind.magic, &self.identity, bytes));
        let body = body.transpose().map_err(Unread::Refused)?.unwrap_or_default();
        read(body).map_err(|why| Unread::Refused(Refusal::Damaged(why)))
    }

    /// Whether a text is that of a file in which nothing is, which need not be there.
    fn is_empty(&self, text: &str) -> bool {
        let mut empty = format::begun(self.kind.magic, &self.identity);
        format::end(&mut empty);
        text == empty
    }

    /// All bytes, or nothing if there is no file.
    fn bytes(&self) -> std::result::Result<Option<Vec<u8>>, Unread> {
        match file::read(&self.path, MAX_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_absent() => Ok(None),
            Err(Unreadable::NoFile(_)) => Err(Unread::NoFile),
            Err(Unreadable::TooLong { .. }) => {
                let why = "it is larger than any that dahl writes".to_string();
                Err(Unread::Refused(Refusal::Damaged(why)))
            }
            Err(error) => Err(Unread::Failed(error)),
        }
    }

    /// Moves a damaged file aside and says so; the caller has the lock.
    fn set_aside(&self, why: &str) -> std::result::Result<Warning, Warning> {
        let aside = self.aside();
        let stays =
            |cause| format!("it is damaged: {why}; it is not used, and cannot be moved aside ({cause})");
        fs::rename(&self.path, &aside).map_err(|cause| self.warning(stays(cause)))?;
        let aside = shown::path(&aside);
        Ok(self.warning(format!("it is damaged: {why}; it was moved to {aside}; {}", self.kind.loss)))
    }

    /// A name for a damaged file: the first that is free, or else the last.
    fn aside(&self) -> PathBuf {
        let name = |number: u32| {
            let suffix = if number == 1 { String::new() } else { format!("-{number}") };
            let mut name = self.path.clone().into_os_string();
            name.push(format!("{suffix}.damaged"));
            PathBuf::from(name)
        };
        (1..MAX_DAMAGED).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(MAX_DAMAGED))
    }

    /// Keeps other writers away until it is dropped.
    fn lock(&self) -> std::result::Result<File, Warning> {
        let path = self.path.with_extension("lock");
        let unlockable = |error: &io::Error| {
            let message = format!("{:#}", file::unwritable(error));
            Warning { path: path.clone(), message }
        };
        let file = file::open_lock(&path).map_err(|error| unlockable(&error))?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!(
                        "another process has kept it locked for {} seconds; nothing was written: end that process, or try again",
                        PATIENCE.as_secs()
                    );
                    return Err(Warning { path: path.clone(), message });
                }
                Err(TryLockError::Error(error)) => return Err(unlockable(&error)),
            }
        }
    }

    fn warning(&self, message: String) -> Warning {
        Warning { path: self.path.clone(), message }
    }
}

/// What lines say, or what is wrong with them.
pub(super) type Parsed<T> = std::result::Result<T, String>;

/// Why nothing could be read.
enum Unread {
    Failed(Unreadable),
    NoFile,
    Refused(Refusal),
}

impl Unread {
    fn sentence(&self) -> String {
        match self {
            Unread::Failed(error) => format!("{error:#}"),
            Unread::NoFile => "expected a file, but this is something else; remove it".to_string(),
            Unread::Refused(Refusal::Damaged(why)) => format!("it is damaged: {why}"),
            Unread::Refused(Refusal::Version(version)) => format!(
                "it has format version {version}, and this dahl reads version {VERSION}: it is neither used nor \
                 changed; use the dahl that wrote it, or name another folder"
            ),
            Unread::Refused(Refusal::Machine(machine)) => format!(
                "it was measured on another machine ({machine}): it is neither used nor changed; remove it, or name another \
                 folder"
            ),
        }
    }
}
