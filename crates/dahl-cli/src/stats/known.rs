//! What all runs on this machine have measured: the performance models.

use crate::measurements::Measurements;
use crate::output::count;
use dahl_runtime::date::day;
use dahl_runtime::perf::{Condition, Entry, History, Key};
use serde_json::{Value, json};
use std::fmt::Write;

/// A row: one task under one condition.
struct Row<'a> {
    key: &'a Key,
    entry: &'a Entry,
    condition: Condition,
    history: &'a History,
}

/// Everything that is known, in the order of keys.
fn rows(measured: &Measurements) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (key, entry) in measured.models().entries() {
        let of = |(&condition, history)| Row { key, entry, condition, history };
        rows.extend(entry.histories.iter().map(of).filter(|row| row.history.seconds().is_some()));
    }
    rows
}

impl Row<'_> {
    fn seconds(&self) -> f64 {
        self.history.seconds().unwrap_or(f64::NAN)
    }

    fn warmth(&self) -> &'static str {
        if self.condition.is_cold { "cold" } else { "warm" }
    }

    fn giga(&self, amount: f64) -> f64 {
        1e-9 * amount / self.seconds()
    }
}

/// A table of all that is known, and where it is kept.
pub fn words(measured: &Measurements) -> String {
    let rows = rows(measured);
    let place = match measured.path() {
        Some(path) => path.display().to_string(),
        None => return "nothing can be kept: set DAHL_CACHE to a folder".to_string(),
    };
    if rows.is_empty() {
        return format!("nothing was measured yet; dahl train and dahl calibrate do, and keep it in {place}");
    }
    let of = |row: &Row<'_>| {
        let Key { implementation, algorithm, dtype, .. } = row.key;
        let slash = if algorithm.is_empty() { "" } else { "/" };
        format!("{implementation}{slash}{algorithm} {dtype}")
    };
    let width = |text: &dyn Fn(&Row<'_>) -> String| rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (name, by) = (width(&|row| row.key.codelet.clone()).max(7), width(&of).max(14));
    let mut text = format!(
        "{:<name$}  {:<by$}  {:<4}  {:>7}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}  shapes\n",
        "codelet", "implementation", "data", "workers", "count", "us", "deviation", "GFLOP/s", "GB/s"
    );
    for row in &rows {
        let _ = writeln!(
            text,
            "{:<name$}  {:<by$}  {:<4}  {:>7}  {:>9}  {:>9.2}  {:>7.1} %  {:>7.1}  {:>7.1}  {}",
            row.key.codelet,
            of(row),
            row.warmth(),
            row.condition.workers,
            row.history.n(),
            1e6 * row.seconds(),
            100.0 * row.history.deviation() / row.seconds(),
            row.giga(row.entry.flops),
            row.giga(row.entry.bytes as f64),
            row.key.footprint,
        );
    }
    let newest = rows.iter().map(|row| row.history.newest()).max().unwrap_or_default();
    let known = count(rows.len(), "row");
    let _ = write!(text, "\n{known}, the newest of {}, in {place}", day(newest.seconds()));
    for (key, choice) in measured.choices() {
        let _ = write!(
            text,
            "\nchosen on {}: {} ({key}): {}",
            day(choice.date.seconds()),
            choice.text,
            choice.note
        );
    }
    text
}

/// The same as one JSON object.
pub fn json(measured: &Measurements) -> Value {
    let row = |row: &Row<'_>| {
        json!({
            "codelet": row.key.codelet, "implementation": row.key.implementation, "algorithm": row.key.algorithm, "version": row.key.version,
            "unit": row.key.unit, "dtype": row.key.dtype, "footprint": row.key.footprint, "cold": row.condition.is_cold,
            "workers": row.condition.workers, "count": row.history.n(), "runs": row.history.runs().len(),
            "seconds": row.seconds(), "deviation_seconds": row.history.deviation(),
            "flops": row.entry.flops, "bytes": row.entry.bytes, "newest": row.history.newest().seconds(),
        })
    };
    let choice = |(key, choice): (&String, &dahl_runtime::perf::Choice)| json!({ "for": key, "cut": choice.text, "date": choice.date.seconds(), "note": choice.note });
    json!({
        "file": measured.path(),
        "models": rows(measured).iter().map(row).collect::<Vec<_>>(),
        "choices": measured.choices().map(choice).collect::<Vec<_>>(),
    })
}
