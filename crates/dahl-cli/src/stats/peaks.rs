//! The measured peaks to compare with: those of a machine file.

use crate::machine::measured;
use anyhow::{Context, Result};
use dahl_runtime::date;
use dahl_runtime::machine::{Hardware, MachineFile, Peaks};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Peaks and where they are from.
pub struct Found {
    measured: Option<(PathBuf, u64, Peaks)>,
    /// What is wrong with the file that was kept.
    complaint: Option<String>,
    nominal: Peaks,
}

/// The peaks of a machine file, or of the one that was kept for this machine, for each of this many workers.
pub fn find(path: Option<&Path>, n_workers: usize) -> Result<Found> {
    let peaks = |path: PathBuf, file: MachineFile| {
        let measured = file.measured?;
        Some((path, measured.date, measured.peaks(n_workers)))
    };
    let nominal = Peaks::nominal();
    if let Some(path) = path {
        let found = peaks(path.to_path_buf(), MachineFile::load(path)?);
        let found = found.with_context(|| {
            format!("{} holds nothing measured: make one by dahl machine --measure -o FILE", path.display())
        })?;
        return Ok(Found { measured: Some(found), complaint: None, nominal });
    }
    // What is kept is a help and no argument: a trace is described without it.
    Ok(match measured::kept(&Hardware::detect()) {
        Ok(kept) => {
            let measured = kept.and_then(|(path, file)| peaks(path, file));
            Found { measured, complaint: None, nominal }
        }
        Err(error) => Found { measured: None, complaint: Some(format!("{error:#}")), nominal },
    })
}

impl Found {
    /// What was measured.
    pub fn known(&self) -> Option<&Peaks> {
        self.measured.as_ref().map(|(_, _, peaks)| peaks)
    }

    /// What was measured, or round numbers.
    pub fn known_or_nominal(&self) -> &Peaks {
        self.known().unwrap_or(&self.nominal)
    }

    pub fn words(&self) -> String {
        match (&self.measured, &self.complaint) {
            (Some((_, date, peaks)), _) => {
                let giga = |rate: f64| format!("{:.1}", rate / 1e9);
                let levels = peaks.levels.iter();
                let levels: Vec<String> =
                    levels.map(|level| format!("{} {}", level.name, giga(level.bytes_per_second))).collect();
                format!(
                    "peaks of one of these workers, measured {}: f32 {} GFLOP/s, f64 {} GFLOP/s; {} GB/s",
                    date::time(*date),
                    giga(peaks.flops_f32),
                    giga(peaks.flops_f64),
                    levels.join(", ")
                )
            }
            (None, Some(complaint)) => format!("fraction of peak: {complaint}"),
            (None, None) => {
                "fraction of peak: nothing was measured on this machine yet; do so by dahl machine --measure"
                    .into()
            }
        }
    }

    pub fn json(&self) -> Value {
        let Some((path, date, peaks)) = &self.measured else { return Value::Null };
        let levels = peaks.levels.iter();
        json!({
            "machine_file": path,
            "date": date::time(*date),
            "flops_per_second": { "f32": peaks.flops_f32, "f64": peaks.flops_f64 },
            "bytes_per_second":
                levels.map(|level| json!({ "place": level.name, "rate": level.bytes_per_second })).collect::<Vec<_>>(),
        })
    }
}
