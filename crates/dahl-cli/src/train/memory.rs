//! `--memory-report`: the memory that a step needs, planned before it runs, as a picture and in numbers; and
//! after the run what it took of each arena and each memory, beside what was planned.

use crate::output::{bytes, count};
use dahl::train::ArenaUse;
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::Planned;
use serde_json::{Value, json};
use std::fmt::Write;

/// Columns and rows of the picture.
const WIDTH: usize = 64;
const HEIGHT: usize = 8;

/// The report in words.
pub fn words(planned: &Planned, machine: &Machine) -> String {
    let (profile, memory) = (planned.memory_profile(HOST), planned.plan.memory(HOST));
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
    if memory.scratch_bytes > 0 {
        let each = bytes(memory.unit_scratch_bytes as u64);
        let all = size(memory.scratch_bytes);
        let _ = writeln!(text, "{all} of it as scratch of kernels, {each} for each worker");
    }
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
    let (profile, memory) = (planned.memory_profile(HOST), planned.plan.memory(HOST));
    let memories = memories(planned, machine)
        .map(|(id, all, limit)| json!({ "memory": id, "bytes": all, "limit_bytes": limit }));
    json!({
        "memory": {
            "mem_max_bytes": memory.bytes,
            "mem_unshared_bytes": memory.bytes_unshared,
            "in_use_peak_bytes": profile.peak(),
            "ring_bytes": profile.ring_bytes,
            "scratch_bytes": memory.scratch_bytes,
            "state_bytes": memory.state_bytes,
            "memories": memories.collect::<Vec<_>>(),
            "in_use_bytes": profile.in_use.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>(),
        }
    })
}

/// Columns of the bars.
const BAR: usize = 24;

/// What was planned and what was taken, in words. `peak` is the most that the process had, as far as the
/// system tells.
pub fn used_words(used: &[ArenaUse], peak: usize) -> String {
    let most = used.iter().map(|arena| arena.planned_bytes).max().unwrap_or(0);
    let names: Vec<String> = used
        .iter()
        .map(|arena| match arena.memory {
            0 => arena.name.clone(),
            other => format!("{}, memory {other}", arena.name),
        })
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(20);
    let mut text = format!("{:<width$} {:>10} {:>10}\n", "memory at the end", "planned", "used");
    let mut line = |name: &str, planned: usize, resident: Option<usize>, bar: String| {
        let resident = resident.map_or_else(|| "untold".to_string(), |n| bytes(n as u64));
        let line = format!("{name:<width$} {:>10} {resident:>10}  {bar}", bytes(planned as u64));
        text.push_str(line.trim_end());
        text.push('\n');
    };
    for (arena, name) in used.iter().zip(&names) {
        let resident = arena.resident_bytes.unwrap_or(0);
        line(name, arena.planned_bytes, arena.resident_bytes, bar(resident, arena.planned_bytes, most));
    }
    for (memory, planned, resident) in per_memory(used) {
        line(&format!("memory {memory} in all"), planned, resident, String::new());
    }
    if peak > 0 {
        let _ = writeln!(text, "{:<width$} {:>10} {:>10}", "this process at most", "", bytes(peak as u64));
    }
    text.truncate(text.trim_end().len());
    text
}

/// What was planned and what was taken, as a JSON object.
pub fn used_json(used: &[ArenaUse], peak: usize) -> Value {
    let arena = |it: &ArenaUse| {
        json!({
            "name": it.name, "memory": it.memory, "planned_bytes": it.planned_bytes,
            "used_bytes": it.resident_bytes,
        })
    };
    let memory = |(memory, planned, resident): (usize, usize, Option<usize>)| json!({ "memory": memory, "planned_bytes": planned, "used_bytes": resident });
    json!({
        "memory_used": {
            "arenas": used.iter().map(arena).collect::<Vec<_>>(),
            "memories": per_memory(used).into_iter().map(memory).collect::<Vec<_>>(),
            "process_peak_bytes": Some(peak).filter(|&peak| peak > 0),
        }
    })
}

/// Each memory with what was planned and taken of it.
fn per_memory(used: &[ArenaUse]) -> Vec<(usize, usize, Option<usize>)> {
    let n_memories = used.iter().map(|arena| arena.memory + 1).max().unwrap_or(0);
    let sum = |memory| {
        let arenas = || used.iter().filter(move |arena| arena.memory == memory);
        let planned = arenas().map(|arena| arena.planned_bytes).sum();
        (memory, planned, arenas().map(|arena| arena.resident_bytes).sum())
    };
    (0..n_memories).map(sum).collect()
}

/// A bar as long as what was planned, filled as far as it was used.
fn bar(used: usize, planned: usize, most: usize) -> String {
    let columns = |bytes: usize| (bytes as u128 * BAR as u128).div_ceil(most.max(1) as u128) as usize;
    let planned = columns(planned).min(BAR);
    let used = columns(used).min(planned);
    "█".repeat(used) + &"░".repeat(planned - used)
}

/// Each memory, what is needed of it in all, and its limit.
fn memories(planned: &Planned, machine: &Machine) -> impl Iterator<Item = (usize, usize, Option<usize>)> {
    let of = machine.memories.iter().zip(planned.plan.memories()).enumerate();
    of.map(|(id, (memory, plan))| (id, plan.bytes + plan.state_bytes, memory.limit_bytes))
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
    fn what_was_used_stands_beside_what_was_planned() {
        let arena = |name: &str, memory, planned_bytes, resident_bytes| ArenaUse {
            name: name.into(),
            memory,
            planned_bytes,
            resident_bytes,
        };
        let used = [
            arena("weights", 0, 4096, Some(4096)),
            arena("temporaries", 0, 2048, Some(1024)),
            arena("temporaries", 1, 1 << 12, None),
        ];
        let expected = "\
memory at the end        planned       used
weights                    4 KiB      4 KiB  ████████████████████████
temporaries                2 KiB      1 KiB  ██████░░░░░░
temporaries, memory 1      4 KiB     untold  ░░░░░░░░░░░░░░░░░░░░░░░░
memory 0 in all            6 KiB      5 KiB
memory 1 in all            4 KiB     untold
this process at most                  1 MiB";
        assert_eq!(used_words(&used, 1 << 20), expected);
        let json = used_json(&used, 0);
        assert_eq!(json["memory_used"]["memories"][0]["used_bytes"], 5120);
        assert!(json["memory_used"]["memories"][1]["used_bytes"].is_null());
        assert!(json["memory_used"]["process_peak_bytes"].is_null());
        // Nothing, and more than was planned.
        assert_eq!(bar(0, 0, 0), "");
        assert_eq!(bar(9, 3, 3), "█".repeat(BAR));
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
