//! Where measurements and choices stay between runs: two files per machine.
//!
//! Changes are merged into a file (`kept.rs`): under a lock it is read, and a new one takes the place of the
//! old one when all of it is written. The lock is the operating system's, on a file of its own that stays
//! empty, so a process that is killed leaves no lock behind; readers need none. So any number of runs may add
//! at once and nothing is lost, and whoever reads sees all of an old file or all of a new one.
//!
//! **Never wrong numbers silently.** A file that is not what was once written (`format.rs`) is moved aside
//! when somebody writes, to a name that ends in `.damaged`, and begun anew; the caller gets a sentence about
//! it. A file of another version, or of another machine (which somebody must have put there: the name has the
//! machine's hash), is not used, and never overwritten.
//!
//! **Choices** (how a graph is cut, found by calibration) decide about bits, and measurements do not. So they
//! have a file of their own that only [`Store::choose`] and [`Store::forget`] write: whatever happens to
//! measurements, the same command gives the same bits tomorrow. Reading a damaged one leaves it where it is,
//! so that every run says that its results will be others.
//!
//! Debug and release builds, instruction sets and hardware have files of their own, and another version of a
//! kernel is another key. Runs that are dated in the future count as the oldest. The file of measurements is
//! kept to 2 MB and is not synced to the disk, so that adding to it at the end of a run takes milliseconds.

mod choices;
mod format;
mod identity;
mod kept;
mod measurements;

pub use format::VERSION as FORMAT_VERSION;
pub use identity::Identity;

use super::{Date, Models};
use crate::error::Result;
use crate::shown;
use kept::{Kept, Kind};
use measurements::keep_newest;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Keys that a file holds at most; of more, those that were measured longest ago are dropped.
pub const MAX_KEYS: usize = 2048;
/// Conditions of a key, likewise.
pub const MAX_CONDITIONS: usize = 8;
/// Bytes of lines about measurements, likewise: about fourteen thousand runs. Every run of the program reads
/// and writes them all.
pub const MAX_TEXT: usize = 2 << 20;
/// Choices, likewise, but not silently.
pub const MAX_CHOICES: usize = 1024;

const MEASUREMENTS: Kind = Kind {
    name: "measurements",
    magic: "dahl-measurements",
    is_precious: false,
    loss: "measuring begins anew",
};

const CHOICES: Kind = Kind {
    name: "choices",
    magic: "dahl-choices",
    is_precious: true,
    loss: "the calibrated cuts in it cannot be used, and results will have other bits than with them: calibrate again, or \
           forget them",
};

/// How something is to be done, decided once. What the text means is the business of whoever chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// What was chosen.
    pub text: String,
    /// When.
    pub date: Date,
    /// Anything that people should know about it.
    pub note: String,
}

/// Something about a file that people should know, although the program can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what was or should be done, as a sentence.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown::path(&self.path), self.message)
    }
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded<T> {
    /// What is known; nothing if the file cannot be used.
    pub known: T,
    /// What was wrong, if anything was.
    pub warnings: Vec<Warning>,
}

/// The measurements and choices of one machine, in a folder.
#[derive(Clone, Debug)]
pub struct Store {
    measurements: Kept,
    choices: Kept,
}

impl Store {
    /// The store of a machine in a folder, which is created when something is written.
    pub fn at(folder: impl AsRef<Path>, identity: Identity) -> Store {
        let kept = |kind| Kept::new(kind, folder.as_ref(), &identity);
        Store { measurements: kept(&MEASUREMENTS), choices: kept(&CHOICES) }
    }

    /// The file of measurements.
    pub fn path(&self) -> &Path {
        self.measurements.path()
    }

    /// The file of choices.
    pub fn choices_path(&self) -> &Path {
        self.choices.path()
    }

    /// Reads all measurements. Runs that are dated a day later than `now`, or more, count as the oldest.
    pub fn models(&self, now: Date) -> Loaded<Models> {
        let ((known, n_late), mut warnings) = self.measurements.load(|body| measurements::read(body, now));
        warnings.extend(late(n_late).map(|message| Warning { path: self.path().to_path_buf(), message }));
        Loaded { known, warnings }
    }

    /// Reads all choices, by what they were made for. The file is small: whoever needs one of them takes it
    /// from here.
    pub fn choices(&self) -> Loaded<BTreeMap<String, Choice>> {
        let (known, warnings) = self.choices.load(choices::read);
        Loaded { known, warnings }
    }

    /// Adds measurements to the file. What could not be written is an error with a sentence that names the
    /// file; the file is what it was then. Measurements are worth no more than a warning: training goes on
    /// without them.
    pub fn add(&self, models: &Models, now: Date) -> Result<Vec<Warning>> {
        self.measurements.update(|body, text| {
            let n_late = measurements::merge(body, models, now, text)?;
            Ok(late(n_late).into_iter().collect())
        })
    }

    /// Decides something, once and for all runs after this.
    pub fn choose(&self, key: &str, choice: Choice) -> Result<Vec<Warning>> {
        self.choices.update(|body, text| {
            let mut choices = choices::read(body)?;
            let dropped = insert(&mut choices, key, choice.clone());
            choices::write(&choices, text);
            Ok(dropped)
        })
    }

    /// Takes a decision back.
    pub fn forget(&self, key: &str) -> Result<Vec<Warning>> {
        self.choices.update(|body, text| {
            let mut choices = choices::read(body)?;
            choices.remove(key);
            choices::write(&choices, text);
            Ok(Vec::new())
        })
    }
}

/// Adds a choice, and says which others there is no room for any more.
fn insert(choices: &mut BTreeMap<String, Choice>, key: &str, choice: Choice) -> Vec<String> {
    choices.insert(key.to_string(), choice);
    let dropped = keep_newest(choices, MAX_CHOICES, |choice| choice.date);
    let message = |key| {
        format!(
            "it holds {MAX_CHOICES} choices at most: the oldest, for {key}, was dropped, and results of that have other bits \
             from now on"
        )
    };
    dropped.into_iter().map(message).collect()
}

/// A sentence about runs that are dated in the future.
fn late(n: usize) -> Option<String> {
    (n > 0).then(|| format!("runs that are dated in the future ({n}) count as the oldest; check the clock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_choice_is_dropped_silently() {
        let mut choices = BTreeMap::new();
        let dated = |date| Choice { date: Date(date), ..Choice::default() };
        for i in 0..MAX_CHOICES as u64 {
            assert_eq!(insert(&mut choices, &format!("graph {i}"), dated(100 + i)), Vec::<String>::new());
        }
        let said = insert(&mut choices, "one more", dated(50_000));
        assert!(said.len() == 1 && said[0].contains("the oldest, for graph 0, was dropped"), "{said:?}");
        assert_eq!(choices.len(), MAX_CHOICES);
        assert!(choices.contains_key("one more") && !choices.contains_key("graph 0"));
    }
}
