//! Where measurements stay between runs: one file per machine.
//!
//! [`Store::add`] merges into the file: under a lock it reads, merges, and writes a new file that takes the place of the old one when
//! all of it is on the disk. The lock is the operating system's, on a file of its own that stays empty, so a process that is killed leaves no lock
//! behind; readers need none. So any number of runs may add at once and nothing is lost, and whoever reads sees all
//! of an old file or all of a new one.
//!
//! **Never wrong numbers silently.** A file that is not what was once written (`format.rs`) is moved aside, to a name that ends in
//! `.damaged`, and the store begins anew; the caller gets a sentence about it. A file of another version, or of another machine (which somebody
//! must have put there: the name has the machine's hash), is not used, and never overwritten.
//!
//! **Choices** (how a graph is cut, found by calibration) are kept beside the measurements. Measurements never change them; only
//! [`Store::choose`] does: the same command gives the same bits tomorrow.

mod format;
mod identity;

pub use format::VERSION as FORMAT_VERSION;
pub use identity::Identity;

use super::Models;
use super::history::History;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use format::Refusal;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Keys that a file holds at most; of more, those that were measured longest ago are dropped.
pub const MAX_KEYS: usize = 2048;
/// Conditions of a key, likewise.
pub const MAX_CONDITIONS: usize = 8;
/// Choices, likewise.
pub const MAX_CHOICES: usize = 1024;
/// No file that dahl writes is larger.
const MAX_BYTES: u64 = 256 << 20;
/// Others write for milliseconds; whoever holds the lock for longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// How something is to be done, decided once. What the text means is the business of whoever chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// What was chosen.
    pub text: String,
    /// When, in seconds since 1970.
    pub date: u64,
    /// Anything that people should know about it.
    pub note: String,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Contents {
    models: Models,
    choices: BTreeMap<String, Choice>,
}

/// Something about the file that people should know, although the program can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what was or should be done, as a sentence.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

/// What a store knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The measurements.
    pub models: Models,
    /// The choices by what they were made for.
    pub choices: BTreeMap<String, Choice>,
    /// What was wrong, if anything was.
    pub warnings: Vec<Warning>,
}

/// The measurements of one machine, in a folder.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    identity: Identity,
}

impl Store {
    /// The store of a machine in a folder, which is created when something is written.
    pub fn at(folder: impl AsRef<Path>, identity: Identity) -> Store {
        let hash = identity.fingerprint().to_string();
        Store { path: folder.as_ref().join(format!("performance-{}.txt", &hash[..16])), identity }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads everything. Nothing that could be wrong with the file is an error: without it, one knows less.
    pub fn load(&self) -> Loaded {
        let mut warnings = Vec::new();
        let contents = match self.read() {
            Ok(contents) => contents,
            Err(Unread::Refused(Refusal::Damaged(why))) => {
                // Another process may just be at it; looking again under the lock tells.
                let again = self.lock().and_then(|_lock| self.read_or_set_aside(&mut warnings));
                again.unwrap_or_else(|error| {
                    let message =
                        format!("it is damaged: {why}; it is not used, and stays: {}", error.message());
                    warnings.push(self.warning(message));
                    Contents::default()
                })
            }
            Err(unread) => {
                warnings.push(self.warning(unread.sentence()));
                Contents::default()
            }
        };
        Loaded { models: contents.models, choices: contents.choices, warnings }
    }

    /// Adds measurements to the file. What could not be written is an error with a sentence that names the file; the file is
    /// what it was then. Measurements are worth no more than a warning: training goes on without them.
    pub fn add(&self, models: &Models) -> Result<Vec<Warning>> {
        self.update(|contents| contents.models.merge(models))
    }

    /// Decides something, once and for all runs after this.
    pub fn choose(&self, key: &str, choice: Choice) -> Result<Vec<Warning>> {
        self.update(|contents| {
            contents.choices.insert(key.to_string(), choice);
        })
    }

    /// Takes a decision back.
    pub fn forget(&self, key: &str) -> Result<Vec<Warning>> {
        self.update(|contents| {
            contents.choices.remove(key);
        })
    }

    fn update(&self, change: impl FnOnce(&mut Contents)) -> Result<Vec<Warning>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| {
            Error::new(ErrorKind::Io, format!("{}: {}", folder.display(), file::uncreatable(&error)))
        })?;
        let mut warnings = Vec::new();
        let _lock = self.lock()?;
        file::remove_stale(folder);
        let before = self.read_or_set_aside(&mut warnings)?;
        let mut contents = before.clone();
        change(&mut contents);
        contents.trim();
        if contents != before {
            let text = format::write(&contents, &self.identity);
            file::write(&self.path, |out| out.write_all(text.as_bytes()))
                .map_err(|error| self.error(file::unwritable(&error)))?;
        }
        Ok(warnings)
    }

    /// What the file holds. A damaged one is moved aside; any other that cannot be used is an error. The caller has the lock.
    fn read_or_set_aside(&self, warnings: &mut Vec<Warning>) -> Result<Contents> {
        match self.read() {
            Ok(contents) => Ok(contents),
            Err(Unread::Refused(Refusal::Damaged(why))) => {
                let aside = self.aside();
                fs::rename(&self.path, &aside).map_err(|error| {
                    self.error(format!("it is damaged: {why}; it cannot be moved aside ({error})"))
                })?;
                let message = format!(
                    "it is damaged: {why}; it was moved to {}, and measuring begins anew",
                    aside.display()
                );
                warnings.push(self.warning(message));
                Ok(Contents::default())
            }
            Err(unread) => Err(self.error(unread.sentence())),
        }
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

    fn read(&self) -> std::result::Result<Contents, Unread> {
        let mut bytes = Vec::new();
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
            opened => opened.map_err(Unread::Io)?,
        };
        let metadata = file.metadata().map_err(Unread::Io)?;
        if !metadata.is_file() {
            return Err(Unread::NoFile);
        }
        if metadata.len() > MAX_BYTES {
            let why = "it is larger than any that dahl writes".to_string();
            return Err(Unread::Refused(Refusal::Damaged(why)));
        }
        file.read_to_end(&mut bytes).map_err(Unread::Io)?;
        format::read(&bytes, &self.identity).map_err(Unread::Refused)
    }

    /// Keeps other writers away until it is dropped.
    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("lock");
        let unlockable = |error: &io::Error| {
            Error::new(ErrorKind::Io, format!("{}: {}", path.display(), file::unwritable(error)))
        };
        // Never removed: whoever locked a removed file and whoever locked a new one would both think they were alone.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| unlockable(&error))?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(self.error(format!(
                        "another process has kept it locked for {} seconds; nothing was written: end that process, or try again",
                        PATIENCE.as_secs()
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(unlockable(&error)),
            }
        }
    }

    fn warning(&self, message: String) -> Warning {
        Warning { path: self.path.clone(), message }
    }

    fn error(&self, message: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Io, format!("{}: {message}", self.path.display()))
    }
}

/// Damaged files that are kept.
const MAX_DAMAGED: u32 = 9;

/// Why nothing could be read.
enum Unread {
    Io(io::Error),
    NoFile,
    Refused(Refusal),
}

impl Unread {
    fn sentence(&self) -> String {
        match self {
            Unread::Io(error) => {
                format!("it cannot be read ({error}), so nothing is known; check its permissions")
            }
            Unread::NoFile => "expected a file, but this is something else; remove it".to_string(),
            Unread::Refused(Refusal::Damaged(why)) => format!("it is damaged: {why}"),
            Unread::Refused(Refusal::Version(version)) => format!(
                "it has format version {version}, and this dahl reads version {FORMAT_VERSION}: it is neither used nor \
                 changed; use the dahl that wrote it, or name another folder"
            ),
            Unread::Refused(Refusal::Machine(machine)) => format!(
                "it was measured on another machine ({machine}): it is neither used nor changed; remove it, or name another \
                 folder"
            ),
        }
    }
}

impl Contents {
    /// Drops what was measured or chosen longest ago, beyond what a file may hold.
    fn trim(&mut self) {
        let entries = &mut self.models.entries;
        keep_newest(entries, MAX_KEYS, |entry| entry.newest());
        entries
            .values_mut()
            .for_each(|entry| keep_newest(&mut entry.histories, MAX_CONDITIONS, History::newest));
        keep_newest(&mut self.choices, MAX_CHOICES, |choice| choice.date);
    }
}

fn keep_newest<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, limit: usize, date: impl Fn(&V) -> u64) {
    if map.len() <= limit {
        return;
    }
    let mut dated: Vec<(u64, K)> = map.iter().map(|(key, value)| (date(value), key.clone())).collect();
    dated.sort();
    for (_, key) in &dated[..dated.len() - limit] {
        map.remove(key);
    }
}
