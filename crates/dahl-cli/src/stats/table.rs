//! The table of `dahl stats`: aligned columns, or JSON.

use super::layers;
use crate::output::{align, count, thousands};
use dahl_runtime::trace::Trace;
use dahl_trace::Statistics;
use dahl_trace::stats::{Row, ScopeRow};
use serde_json::{Value, json};

/// What the rows of the table are.
pub enum Rows {
    OfCodelets(Vec<Row>),
    OfLayers(Vec<ScopeRow>),
}

/// The table in words, with what is to be said above and below it.
pub fn words(trace: &Trace, statistics: &Statistics<'_>, rows: &Rows) -> String {
    let usage = trace.usage();
    let mut text = format!(
        "{} of {} on {}",
        count(statistics.n_executions(), "execution"),
        count(trace.scene.tasks.len(), "task"),
        count(trace.workers.len(), "worker")
    );
    if usage.n_steps > 0 {
        let milliseconds = 1e3 * usage.median_step_seconds;
        text.push_str(&format!(", {} of {milliseconds:.3} ms in the median", count(usage.n_steps, "step")));
    }
    text.push('\n');
    if trace.total_dropped() > 0 {
        text.push_str(&format!("{} older ones were dropped\n", thousands(trace.total_dropped())));
    }
    text.push('\n');
    if statistics.n_executions() == 0 {
        return text + "there is nothing in it\n";
    }
    text.push_str(&match rows {
        Rows::OfCodelets(rows) => codelets(rows),
        Rows::OfLayers(rows) => layers::words(rows),
    });
    let all = statistics.kernel_seconds() + statistics.idle_seconds();
    let outside = if all > 0.0 { 100.0 * statistics.idle_seconds() / all } else { 0.0 };
    text.push_str(&format!("outside of kernels, within steps: {outside:.2} %\n"));
    text.push_str(&format!(
        "waiting for images, or whatever else steps are fed: {:.2} %\n",
        100.0 * usage.stall
    ));
    text
}

/// The rows of codelets.
fn codelets(rows: &[Row]) -> String {
    let has_details = rows.iter().any(|row| !row.detail.is_empty());
    let has_peaks = rows.iter().any(|row| row.peak.is_some());
    let mut cells = vec![vec!["codelet".to_string(), "implementation".into(), "unit".into()]];
    if has_details {
        cells[0].push("by".into());
    }
    cells[0].extend(
        ["count", "mean µs", "median µs", "deviation", "share", "GFLOP/s", "GB/s"].map(str::to_string),
    );
    if has_peaks {
        cells[0].push("of peak".into());
    }
    for row in rows {
        let mut line = vec![row.codelet.clone(), row.implementation.clone(), row.unit.clone()];
        if has_details {
            line.push(row.detail.clone());
        }
        line.extend([
            thousands(row.n as u64),
            format!("{:.2}", 1e6 * row.mean),
            format!("{:.2}", 1e6 * row.median),
            format!("{:.1} %", 100.0 * row.deviation / row.median),
            format!("{:.2} %", 100.0 * row.share),
            rate(row.flops_per_second),
            rate(row.bytes_per_second),
        ]);
        line.extend(row.peak.map(|peak| format!("{:.1} %", 100.0 * peak)));
        cells.push(line);
    }
    align(&cells, if has_details { 4 } else { 3 })
}

/// Billions per second, if there are any.
pub fn rate(per_second: f64) -> String {
    if per_second > 0.0 { format!("{:.2}", per_second / 1e9) } else { "-".to_string() }
}

/// The table as a JSON object.
pub fn json(trace: &Trace, statistics: &Statistics<'_>, rows: &Rows) -> Value {
    let usage = trace.usage();
    let row = |row: &Row| {
        json!({
            "codelet": row.codelet,
            "implementation": row.implementation,
            "unit": row.unit,
            "by": row.detail,
            "count": row.n,
            "seconds": row.seconds,
            "mean_seconds": row.mean,
            "median_seconds": row.median,
            "deviation_seconds": row.deviation,
            "share": row.share,
            "flops_per_second": row.flops_per_second,
            "bytes_per_second": row.bytes_per_second,
            "peak_fraction": row.peak,
        })
    };
    let rows = match rows {
        Rows::OfCodelets(rows) => rows.iter().map(row).collect::<Vec<_>>(),
        Rows::OfLayers(rows) => rows.iter().map(layers::json).collect(),
    };
    json!({
        "executions": statistics.n_executions(),
        "tasks": trace.scene.tasks.len(),
        "workers": trace.workers.len(),
        "dropped": trace.total_dropped(),
        "steps": usage.n_steps,
        "median_step_seconds": usage.median_step_seconds,
        "kernel_seconds": statistics.kernel_seconds(),
        "idle_seconds": statistics.idle_seconds(),
        "stall": usage.stall,
        "rows": rows,
    })
}
