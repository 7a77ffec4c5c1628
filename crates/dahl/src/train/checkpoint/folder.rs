//! A folder of checkpoints: one file per step, named after it, the last two kept.
//!
//! [`prune`] reads the checkpoint before the newest again before it removes older ones: a damaged file does
//! not count as one of the two. Steps later than the one just saved are left alone; they belong to a run that
//! went further. The newest is the one with the highest step, so whoever begins again in such a folder must
//! decide about them.

use super::format;
use crate::error::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const PREFIX: &str = "step-";
const ENDING: &str = ".safetensors";

/// The name of the file of a step.
pub(super) fn name(step: u64) -> String {
    format!("{PREFIX}{step:012}{ENDING}")
}

/// The step that a file is named after.
fn step(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?;
    // What is spelt in another way is not ours.
    digits.parse().ok().filter(|&step| self::name(step) == name)
}

/// The steps whose files are in a folder, in rising order.
pub(super) fn steps(folder: &Path) -> Result<Vec<u64>> {
    let unreadable = |error: std::io::Error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "check the path",
            ErrorKind::NotADirectory => "this is a file: name the folder that it is in",
            _ => "check its permissions and its disk",
        };
        let message = format!("expected a folder with checkpoints, but reading it failed; {advice}");
        Error::data(folder, message).because_of(error)
    };
    let mut steps = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        steps.extend(step(&entry.map_err(unreadable)?.file_name().to_string_lossy()));
    }
    steps.sort_unstable();
    Ok(steps)
}

/// Removes what is older than the newest intact checkpoint before `newest`. That one is read again before
/// anything is removed, because from then on it is the only one to go back to.
///
/// The run is saved already, so that nothing that goes wrong here is worth an error: it is tried again next
/// time.
pub(super) fn prune(folder: &Path, newest: u64) {
    let Ok(steps) = steps(folder) else { return };
    let mut before = steps.into_iter().rev().filter(|&step| step < newest);
    // What is damaged does not count as one of the two. It is removed once there are two newer ones.
    before.by_ref().find(|&step| format::is_intact(&folder.join(name(step))));
    for step in before {
        let _ = fs::remove_file(folder.join(name(step)));
    }
}
