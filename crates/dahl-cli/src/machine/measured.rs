//! Measuring, keeping what was measured, and saying it.

use crate::output::{bytes, warn};
use anyhow::{Context, Result};
use dahl::measure::{Effort, machine};
use dahl::op::simd::Isa;
use dahl_runtime::date;
use dahl_runtime::env::cache_folder;
use dahl_runtime::machine::{Bandwidth, Hardware, MachineFile, MeasuredRates, Rate, Stream};
use dahl_runtime::perf::Identity;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;

/// Where the machine file of this machine is kept, if there is a folder for such things.
pub fn kept_path(hardware: &Hardware) -> Option<PathBuf> {
    let hash = Identity::new(hardware, &Isa::current().to_string()).fingerprint().to_string();
    cache_folder().map(|folder| folder.join(format!("machine-{}.txt", &hash[..16])))
}

/// The machine file that was kept, if there is one; what is wrong with it is an error.
pub fn kept(hardware: &Hardware) -> Result<Option<(PathBuf, MachineFile)>> {
    match kept_path(hardware).filter(|path| path.exists()) {
        None => Ok(None),
        Some(path) => {
            let file = MachineFile::load(&path).context(
                "what was measured here cannot be used, so measure again by dahl machine --measure",
            )?;
            Ok(Some((path, file)))
        }
    }
}

/// What was measured here before. What is wrong with the file is told on standard error, and then nothing is
/// known.
pub fn known(hardware: &Hardware) -> Option<MeasuredRates> {
    let kept = kept(hardware).unwrap_or_else(|error| {
        warn(format_args!("{error:#}"));
        None
    });
    kept.and_then(|(_, file)| file.measured)
}

/// Keeps a machine file for `dahl stats` to find, and says where.
pub fn keep(file: &MachineFile) -> Result<Option<PathBuf>> {
    let Some(path) = kept_path(&file.hardware) else { return Ok(None) };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
    file.save(&path)?;
    Ok(Some(path))
}

/// Measures this machine, with a progress bar on a terminal.
pub fn measure(hardware: &Hardware, is_quiet: bool) -> Result<MeasuredRates> {
    let is_hidden = is_quiet || !stderr().is_terminal();
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}");
    let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
    let measured = machine(hardware, Effort::default(), |done, all, what| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(what.to_string());
    });
    bar.finish_and_clear();
    measured.context("the machine could not be measured")
}

/// Lines with what each is about.
pub fn words(measured: &MeasuredRates) -> Vec<(&'static str, String)> {
    let giga = |rate: &Rate, unit: &str| {
        format!(
            "{:>8.1} {unit} on one core, {:>8.1} on all {}",
            rate.one / 1e9,
            rate.all / 1e9,
            measured.n_cores
        )
    };
    let mut lines = vec![
        ("measured", date::time(measured.date)),
        ("flops", format!("f32 {}", giga(&measured.flops_f32, "GFLOP/s"))),
        ("", format!("f64 {}", giga(&measured.flops_f64, "GFLOP/s"))),
    ];
    for Bandwidth { level, rates } in &measured.bandwidths {
        for (stream, rate) in Stream::ALL.into_iter().zip(rates) {
            let is_first = lines.len() == 3;
            let size = match stream {
                Stream::Read => format!("  ({} per core)", bytes(level.bytes)),
                _ => String::new(),
            };
            let name = format!("{:<6} {:<5}", level.name, stream.name());
            let line = format!("{name} {}{size}", giga(rate, "GB/s"));
            lines.push((if is_first { "bandwidth" } else { "" }, line));
        }
    }
    if let Some(seconds) = measured.task_seconds {
        lines.push((
            "tasks",
            format!("{:.0} ns each beside their kernels, replayed on one core", 1e9 * seconds),
        ));
    }
    if cfg!(debug_assertions) {
        lines.push((
            "",
            "by a dahl that was built without optimisation: these numbers say little".to_string(),
        ));
    }
    lines
}

pub fn json(measured: &MeasuredRates) -> Value {
    let rate = |rate: &Rate| json!({ "one": rate.one, "all": rate.all });
    let bandwidth = |it: &Bandwidth| {
        let mut json = json!({
            "place": it.level.name, "capacity_bytes": it.level.capacity, "own": it.level.is_own,
            "sharing": it.level.n_sharing, "bytes": it.level.bytes,
        });
        for (stream, found) in Stream::ALL.into_iter().zip(&it.rates) {
            json[stream.name()] = rate(found);
        }
        json
    };
    json!({
        "date": date::time(measured.date),
        "cores": measured.n_cores,
        "flops_per_second": { "f32": rate(&measured.flops_f32), "f64": rate(&measured.flops_f64) },
        "bytes_per_second": measured.bandwidths.iter().map(bandwidth).collect::<Vec<_>>(),
        "task_seconds": measured.task_seconds,
    })
}
