//! What all runs on this machine have measured: the performance models.

use crate::measurements::Measurements;
use crate::output::{align, count, thousands};
use dahl_runtime::date::day;
use dahl_runtime::perf::{Condition, Entry, History, Key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

    /// Who computed it.
    fn by(&self) -> String {
        format!("{} {}", self.key.code(), self.key.dtype)
    }

    fn warmth(&self) -> &'static str {
        if self.condition.is_cold { "cold" } else { "warm" }
    }

    fn giga(&self, amount: f64) -> f64 {
        1e-9 * amount / self.seconds()
    }
}

/// What was measured, as a table of all of it or of the codelets that took most of the time, and where it is
/// kept.
pub fn words(measured: &Measurements, is_all: bool) -> String {
    let rows = rows(measured);
    let place = match measured.path() {
        Some(path) => path.display().to_string(),
        None => return "nothing can be kept: set DAHL_CACHE to a folder".to_string(),
    };
    if rows.is_empty() {
        return format!("nothing was measured yet; dahl train and dahl calibrate do, and keep it in {place}");
    }
    let mut text = if is_all { table(&rows) } else { summary(&rows) };
    let newest = rows.iter().map(|row| row.history.newest()).max().unwrap_or_default();
    let known = count(rows.len(), "row");
    let _ = write!(text, "\n{known}, the newest of {}, in {place}", day(newest.seconds()));
    if !is_all {
        text.push_str("; dahl stats --all shows them");
    }
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

/// Codelets that the summary shows.
const SHOWN: usize = 20;

/// A codelet by one implementation, in all shapes and circumstances.
#[derive(Default)]
struct Total {
    n_rows: usize,
    n: u64,
    seconds: f64,
    flops: f64,
    bytes: f64,
}

/// The codelets that took most of the time.
fn summary(rows: &[Row<'_>]) -> String {
    let mut totals: BTreeMap<(&str, String), Total> = BTreeMap::new();
    for row in rows {
        let total = totals.entry((&row.key.codelet, row.by())).or_default();
        let n = row.history.n() as f64;
        total.n_rows += 1;
        total.n += row.history.n();
        total.seconds += n * row.seconds();
        total.flops += n * row.entry.flops;
        total.bytes += n * row.entry.bytes as f64;
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    let share = |of: &[(_, Total)]| of.iter().map(|(_, total): &(_, Total)| total.seconds).sum::<f64>();
    let all = share(&totals);
    let percent = |seconds: f64| format!("{:.1} %", 100.0 * seconds / all);
    let header = ["codelet", "implementation", "of the time", "count", "mean µs", "GFLOP/s", "GB/s", "rows"];
    let mut cells = vec![header.map(String::from).to_vec()];
    for ((codelet, by), total) in totals.iter().take(SHOWN) {
        cells.push(vec![
            codelet.to_string(),
            by.clone(),
            percent(total.seconds),
            thousands(total.n),
            format!("{:.2}", 1e6 * total.seconds / total.n as f64),
            format!("{:.1}", 1e-9 * total.flops / total.seconds),
            format!("{:.1}", 1e-9 * total.bytes / total.seconds),
            total.n_rows.to_string(),
        ]);
    }
    let mut text = align(&cells, 2);
    if totals.len() > SHOWN {
        let rest = &totals[SHOWN..];
        let _ = writeln!(text, "and {} more, with {} of the time", rest.len(), percent(share(rest)));
    }
    text
}

/// A row for everything that is known.
fn table(rows: &[Row<'_>]) -> String {
    let width = |text: &dyn Fn(&Row<'_>) -> String| rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (name, by) = (width(&|row| row.key.codelet.clone()).max(7), width(&|row| row.by()).max(14));
    let mut text = format!(
        "{:<name$}  {:<by$}  {:<4}  {:>7}  {:>9}  {:>9}  {:>9}  {:>7}  {:>7}  shapes\n",
        "codelet", "implementation", "data", "workers", "count", "us", "deviation", "GFLOP/s", "GB/s"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<name$}  {:<by$}  {:<4}  {:>7}  {:>9}  {:>9.2}  {:>7.1} %  {:>7.1}  {:>7.1}  {}",
            row.key.codelet,
            row.by(),
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
    text
}

/// All of it as one JSON object.
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
