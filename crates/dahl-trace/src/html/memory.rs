//! Memory in use against what was planned.

use super::json::{list, object, quoted};
use dahl_runtime::machine::{Machine, Memory};
use dahl_runtime::plan::{MemoryPlan, Planned};

/// Tasks that are shown by themselves; where there are more, the most of several neighbours is.
const MAX_TASKS: usize = 4_000;

/// The memory of a step, task by task.
#[derive(Clone, Debug, Default)]
pub struct MemoryUse {
    /// Which memory.
    pub name: String,
    /// What was planned before the run, beside state: MEM_MAX.
    pub planned_bytes: usize,
    /// How many of these bytes kernels need while they run.
    pub scratch_bytes: usize,
    /// What would have been planned if no two buffers shared memory.
    pub unshared_bytes: usize,
    /// What lies beside that from the first step to the last: weights and data.
    pub state_bytes: usize,
    /// What is allowed in all.
    pub limit_bytes: Option<usize>,
    /// The tasks in planned order, with the bytes that are in use during each.
    pub in_use: Vec<(String, usize)>,
}

impl MemoryUse {
    /// The memories of a machine in a step.
    pub fn of_plan(planned: &Planned, machine: &Machine) -> Vec<MemoryUse> {
        let name_of = |task: usize| {
            let task = &planned.lowered.tasks()[task];
            match task.tile {
                (_, 0 | 1) => task.codelet.to_string(),
                (tile, n) => format!("{} {} of {n}", task.codelet, tile + 1),
            }
        };
        let of_memory = |(id, (memory, plan)): (usize, (&Memory, &MemoryPlan))| {
            let in_use = planned.memory_profile(id).in_use;
            MemoryUse {
                name: memory.name.clone(),
                planned_bytes: plan.bytes,
                scratch_bytes: plan.scratch_bytes,
                unshared_bytes: plan.bytes_unshared,
                state_bytes: plan.state_bytes,
                limit_bytes: memory.limit_bytes,
                in_use: in_use.into_iter().map(|(task, bytes)| (name_of(task as usize), bytes)).collect(),
            }
        };
        machine.memories.iter().zip(planned.plan.memories()).enumerate().map(of_memory).collect()
    }

    pub(super) fn to_json(&self) -> String {
        let n_together = self.in_use.len().div_ceil(MAX_TASKS).max(1);
        let highest = |tasks: &[(String, usize)]| tasks.iter().max_by_key(|(_, bytes)| *bytes).cloned();
        let shown: Vec<(String, usize)> = self.in_use.chunks(n_together).filter_map(highest).collect();
        object(&[
            ("name", quoted(&self.name)),
            ("planned", self.planned_bytes.to_string()),
            ("scratch", self.scratch_bytes.to_string()),
            ("unshared", self.unshared_bytes.to_string()),
            ("state", self.state_bytes.to_string()),
            ("limit", self.limit_bytes.map_or("null".into(), |limit| limit.to_string())),
            ("tasks", self.in_use.len().to_string()),
            ("together", n_together.to_string()),
            ("names", list(shown.iter().map(|(name, _)| quoted(name)))),
            ("bytes", list(shown.iter().map(|(_, bytes)| bytes))),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tasks_the_highest_stay() {
        let bytes = |i: usize| if i == 7777 { 1_000_000 } else { i % 10 };
        let in_use: Vec<(String, usize)> = (0..10_001).map(|i| (format!("task {i}"), bytes(i))).collect();
        let memory = MemoryUse { in_use, ..MemoryUse::default() };
        let json = memory.to_json();
        assert!(json.contains("\"task 7777\"") && json.contains(",1000000,"), "the peak is missing");
        assert!(json.contains("\"tasks\":10001,\"together\":3,"));
        assert_eq!(json.matches("\"task ").count(), 10_001_usize.div_ceil(3));
    }

    #[test]
    fn no_tasks_are_no_reason_to_fail() {
        let json = MemoryUse { name: "<".into(), limit_bytes: Some(3), ..MemoryUse::default() }.to_json();
        assert!(json.contains("\"limit\":3") && json.ends_with("\"names\":[],\"bytes\":[]}"), "{json}");
    }
}
