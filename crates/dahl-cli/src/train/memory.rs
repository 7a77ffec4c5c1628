//! `--memory-report`: the memory that a step needs, planned before it runs, as a picture and in numbers.

use crate::output::{bytes, count};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Planned;
use serde_json::{Value, json};
use std::fmt::Write;

/// Columns and rows of the picture.
const WIDTH: usize = 64;
const HEIGHT: usize = 8;

/// The report in words.
pub fn words(planned: &Planned, machine: &Machine) -> String {
    let (profile, memory) = (planned.memory_profile(), planned.plan.memory());
    let in_use: Vec<usize> = profile.in_use.iter().map(|&(_, bytes)| bytes).collect();
    let mut text = format!("memory during a step of {}, in planned order\n", count(in_use.len(), "task"));
    let (top, bottom) = (bytes(memory.bytes as u64), bytes(0));
    let rows = plot(&in_use, memory.bytes, WIDTH, HEIGHT);
    for (i, row) in rows.iter().enumerate() {
        let (label, mark) = if i == 0 { (top.as_str(), '┤') } else { ("", '│') };
        let _ = writeln!(text, "{label:>10} {mark}{row}{}", if i == 0 { "  MEM_MAX" } else { "" });
    }
    let _ = writeln!(text, "{bottom:>10} ┴{}", "─".repeat(rows.first().map_or(0, |row| row.chars().count())));

    let size = |n: usize| format!("{:>10}", bytes(n as u64));
    let unshared = bytes(memory.bytes_unshared as u64);
    let _ = writeln!(
        text,
        "{} MEM_MAX, planned before the run; {unshared} if no two buffers shared memory",
        size(memory.bytes)
    );
    let peak = profile.in_use.iter().find(|&&(_, bytes)| bytes == profile.peak());
    let during = peak.map_or(String::new(), |&(task, _)| {
        let task = &planned.lowered.tasks()[task as usize];
        format!(", during {}", name(task.codelet, task.tile))
    });
    let _ = writeln!(text, "{} in use at most{during}", size(profile.peak()));
    let depth = planned.lowered.depth();
    let _ = writeln!(
        text,
        "{} of it for ports and outputs of up to {} under way",
        size(profile.ring_bytes),
        count(depth, "step")
    );
    let _ = writeln!(text, "{} beside it for weights, optimiser and data", size(memory.state_bytes));
    for (id, all, limit) in memories(planned, machine) {
        let units = machine.units.iter().filter(|unit| unit.memory == id).count();
        let limit = limit.map_or(String::new(), |limit| format!(", of {} allowed", bytes(limit as u64)));
        let _ = writeln!(text, "{} in all in memory {id}{limit}, for {}", size(all), count(units, "worker"));
    }
    text.truncate(text.trim_end().len());
    text
}

/// The report as a JSON object.
pub fn to_json(planned: &Planned, machine: &Machine) -> Value {
    let (profile, memory) = (planned.memory_profile(), planned.plan.memory());
    let memories = memories(planned, machine)
        .map(|(id, all, limit)| json!({ "memory": id, "bytes": all, "limit_bytes": limit }));
    json!({
        "memory": {
            "mem_max_bytes": memory.bytes,
            "mem_unshared_bytes": memory.bytes_unshared,
            "in_use_peak_bytes": profile.peak(),
            "ring_bytes": profile.ring_bytes,
            "state_bytes": memory.state_bytes,
            "memories": memories.collect::<Vec<_>>(),
            "in_use_bytes": profile.in_use.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>(),
        }
    })
}

/// Each memory, what is needed of it in all, and its limit. All of them use the same offsets.
fn memories(planned: &Planned, machine: &Machine) -> impl Iterator<Item = (usize, usize, Option<usize>)> {
    let memory = planned.plan.memory();
    let all = memory.bytes + memory.state_bytes;
    let limits = machine.limits.clone();
    (0..machine.n_memories).map(move |id| (id, all, limits.get(id).copied().flatten()))
}

fn name(codelet: &str, (tile, n_tiles): (usize, usize)) -> String {
    if n_tiles > 1 { format!("{codelet} {} of {n_tiles}", tile + 1) } else { codelet.to_string() }
}

/// Rows of block characters, from the top; a column shows the largest of its values.
fn plot(values: &[usize], max: usize, width: usize, height: usize) -> Vec<String> {
    let n_columns = values.len().min(width);
    let column = |i: usize| {
        let range = i * values.len() / n_columns..(i + 1) * values.len() / n_columns;
        let value = values[range].iter().max().copied().unwrap_or(0);
        // In eighths of a row; something is never shown as nothing.
        let eighths = (value as u128 * 8 * height as u128).div_ceil(max.max(1) as u128) as usize;
        eighths.min(8 * height)
    };
    let columns: Vec<usize> = (0..n_columns).map(column).collect();
    let block = |eighths: usize| [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.min(8)];
    (0..height)
        .rev()
        .map(|row| columns.iter().map(|&eighths| block(eighths.saturating_sub(8 * row))).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_high_as_their_largest_value() {
        assert_eq!(plot(&[0, 1, 4, 8], 8, 10, 1), [" ▁▄█"]);
        assert_eq!(plot(&[16, 8, 12, 1], 16, 10, 2), ["█ ▄ ", "███▁"]);
        // Two values to a column.
        assert_eq!(plot(&[1, 8, 4, 2], 8, 2, 1), ["█▄"]);
    }

    #[test]
    fn odd_plots_do_no_harm() {
        assert_eq!(plot(&[], 8, 10, 2), ["", ""]);
        assert_eq!(plot(&[0, 0], 0, 10, 1), ["  "]);
        // More than the maximum cannot be, and is cut off.
        assert_eq!(plot(&[9], 8, 10, 1), ["█"]);
        assert_eq!(plot(&[usize::MAX], usize::MAX, 1, 1), ["█"]);
        assert_eq!(plot(&[1; 7], 1, 3, 1), ["███"]);
    }
}
