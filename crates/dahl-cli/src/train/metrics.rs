//! Metrics of each epoch as CSV.

use crate::open;
use anyhow::Result;
use dahl::file;
use dahl::train::Epoch;
use dahl_runtime::file::Growing;
use std::path::{Path, PathBuf};

/// The columns, named as in the JSON lines.
const HEADER: &str = "epoch,loss,accuracy,test_loss,test_accuracy,images_per_s,seconds,peak_bytes";

/// The longest file that a run goes on with: more than half a million epochs.
const MAX_BYTES: u64 = 64 << 20;

/// A file that gets a line per epoch. It takes the place of an older one with the first line, so that a run
/// that never gets so far takes nothing away.
pub struct Metrics {
    path: PathBuf,
    file: Option<Growing>,
    /// Lines that are not in the file yet.
    pending: String,
}

impl Metrics {
    /// Gets ready to write a file. A run that goes on in `epoch` keeps the lines of the epochs before, which
    /// may have been written by the run that it goes on from.
    pub fn create(path: &Path, epoch: usize) -> Result<Metrics> {
        open::writable(path)?;
        let mut pending = format!("{HEADER}\n");
        // What is no file, such as a pipe, has no lines from before.
        if epoch > 1 && path.is_file() {
            let old = file::read_text(path, MAX_BYTES)?;
            let is_before = |line: &&str| {
                line.split(',').next().and_then(|n| n.parse().ok()).is_some_and(|n: usize| n < epoch)
            };
            // A last line without an end was cut off.
            let whole = &old[..old.rfind('\n').map_or(0, |end| end + 1)];
            pending.extend(whole.lines().filter(is_before).map(|line| format!("{line}\n")));
        }
        Ok(Metrics { path: path.to_path_buf(), file: None, pending })
    }

    /// Adds the line of an epoch, and those that could not be written before.
    pub fn add(&mut self, epoch: &Epoch) -> Result<()> {
        self.pending += &line(epoch);
        let written = match &mut self.file {
            Some(file) => file.add(self.pending.as_bytes()),
            None => Growing::begin(&self.path, self.pending.as_bytes()).map(|file| self.file = Some(file)),
        };
        written.map_err(|error| file::unwritable(&self.path, error))?;
        self.pending.clear();
        Ok(())
    }
}

fn line(epoch: &Epoch) -> String {
    format!(
        "{},{},{},{},{},{},{},{}\n",
        epoch.epoch,
        epoch.loss,
        epoch.accuracy,
        epoch.test_loss,
        epoch.test_accuracy,
        epoch.images_per_s,
        epoch.seconds,
        epoch.peak_bytes
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_run_that_goes_on_keeps_the_epochs_before_it() {
        let path = std::env::temp_dir().join(format!("dahl-metrics-{}.csv", std::process::id()));
        fs::write(&path, format!("{HEADER}\n1,0.5,0,0,0,0,0,0\n2,0.4,0,0,0,0,0,0\n3,0.3")).unwrap();
        let old = fs::read(&path).unwrap();
        let pending = |epoch| Metrics::create(&path, epoch).unwrap().pending;
        assert_eq!(pending(3), format!("{HEADER}\n1,0.5,0,0,0,0,0,0\n2,0.4,0,0,0,0,0,0\n"));
        assert_eq!(pending(2).lines().count(), 2);
        assert_eq!(pending(1), format!("{HEADER}\n"));
        // As long as there is nothing to say, everything is as it was.
        assert_eq!(fs::read(&path).unwrap(), old);
        fs::remove_file(&path).unwrap();
        assert!(Metrics::create(Path::new("no/such/folder/metrics.csv"), 1).is_err());
    }
}
