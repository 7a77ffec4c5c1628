//! Metrics of each epoch as CSV.

use anyhow::Result;
use dahl::file;
use dahl::train::Epoch;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The columns, named as in the JSON lines.
const HEADER: &str = "epoch,loss,accuracy,test_loss,test_accuracy,images_per_s,seconds,peak_bytes";

/// A file that gets a line per epoch.
pub struct Metrics {
    file: File,
    path: PathBuf,
}

impl Metrics {
    /// Begins a file. A run that goes on in `epoch` keeps the lines of the epochs before, which may have been written by the
    /// run that it goes on from.
    pub fn create(path: &Path, epoch: usize) -> Result<Metrics> {
        let mut text = format!("{HEADER}\n");
        if let Some(old) = fs::read_to_string(path).ok().filter(|_| epoch > 1) {
            let is_before = |line: &&str| {
                line.split(',').next().and_then(|n| n.parse().ok()).is_some_and(|n: usize| n < epoch)
            };
            // A last line without an end was cut off.
            let whole = &old[..old.rfind('\n').map_or(0, |end| end + 1)];
            text.extend(whole.lines().filter(is_before).map(|line| format!("{line}\n")));
        }
        let created = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
        let file = created.map_err(|error| file::unwritable(path, &error))?;
        Ok(Metrics { file, path: path.to_path_buf() })
    }

    /// Adds the line of an epoch.
    pub fn add(&mut self, epoch: &Epoch) -> Result<()> {
        let written = self.file.write_all(line(epoch).as_bytes());
        Ok(written.map_err(|error| file::unwritable(&self.path, &error))?)
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

    #[test]
    fn a_run_that_goes_on_keeps_the_epochs_before_it() {
        let path = std::env::temp_dir().join(format!("dahl-metrics-{}.csv", std::process::id()));
        fs::write(&path, format!("{HEADER}\n1,0.5,0,0,0,0,0,0\n2,0.4,0,0,0,0,0,0\n3,0.3")).unwrap();
        Metrics::create(&path, 3).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{HEADER}\n1,0.5,0,0,0,0,0,0\n2,0.4,0,0,0,0,0,0\n")
        );
        Metrics::create(&path, 2).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        Metrics::create(&path, 1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}\n"));
        fs::remove_file(&path).unwrap();
        assert!(Metrics::create(Path::new("no/such/folder/metrics.csv"), 1).is_err());
    }
}
