//! `dahl stats --by layer`: what the layers of a network cost.

use super::table::rate;
use crate::output::{align, thousands};
use dahl_trace::stats::ScopeRow;
use serde_json::{Value, json};

/// The table in words, and what there is to say about it.
pub fn words(rows: &[ScopeRow]) -> String {
    let has_peaks = rows.iter().any(|row| row.peak.is_some());
    let header = ["layer", "unit", "count", "ms", "share", "GFLOP/s", "GB/s"];
    let mut cells = vec![header.map(str::to_string).to_vec()];
    if has_peaks {
        cells[0].push("of peak".into());
    }
    cells[0].push("codelets".into());
    for row in rows {
        let name = if row.scopes.is_empty() { "-".to_string() } else { row.name() };
        let mut line = vec![
            name,
            row.unit.clone(),
            thousands(row.n as u64),
            format!("{:.2}", 1e3 * row.seconds),
            format!("{:.2} %", 100.0 * row.share),
            rate(row.flops_per_second),
            rate(row.bytes_per_second),
        ];
        line.extend(row.peak.map(|peak| format!("{:.1} %", 100.0 * peak)));
        line.push(listed(&row.codelets));
        cells.push(line);
    }
    // Columns of numbers are aligned on the right; texts of equal length are on the left, too.
    let length = |line: &Vec<String>| line.last().map_or(0, |text| text.chars().count());
    let longest = cells.iter().map(length).max().unwrap_or(0);
    for text in cells.iter_mut().filter_map(|line| line.last_mut()) {
        *text = format!("{text:<longest$}");
    }
    let mut text = align(&cells, 2);
    if rows.iter().all(|row| row.scopes.is_empty()) {
        text.push_str("no task names its layer: save the trace again, by dahl train of this version\n");
    }
    text
}

/// Codelets of which not more are listed.
const MOST_CODELETS: usize = 5;

fn listed(codelets: &[String]) -> String {
    match codelets.len().checked_sub(MOST_CODELETS) {
        None | Some(0) => codelets.join(", "),
        Some(n) => format!("{} and {n} more", codelets[..MOST_CODELETS].join(", ")),
    }
}

/// A row as a JSON object.
pub fn json(row: &ScopeRow) -> Value {
    json!({
        "layers": row.scopes,
        "unit": row.unit,
        "codelets": row.codelets,
        "count": row.n,
        "seconds": row.seconds,
        "share": row.share,
        "flops_per_second": row.flops_per_second,
        "bytes_per_second": row.bytes_per_second,
        "peak_fraction": row.peak,
    })
}
