//! What tasks cost, for schedulers: as measured, and roughly where nothing was measured.

use super::key::{Condition, Key};
use super::models::{Basis, Models};
use crate::graph::{Lowered, TaskId};
use crate::machine::{KindId, Machine, MemoryId};
use crate::schedule::{CostModel, RoughCosts};
use std::collections::HashMap;

/// The costs of one graph's tasks by [`Models`]. What they could only guess is taken from the speed of its
/// kind of units, as [`RoughCosts`] does.
#[derive(Clone, Debug)]
pub struct ModelCosts {
    /// For each kind, the seconds of each task.
    seconds: Vec<Vec<f64>>,
    rough: RoughCosts,
}

impl ModelCosts {
    /// The costs on the units of this machine, whose tasks find their data in memory, not in caches.
    pub fn new(models: &Models, lowered: &Lowered, machine: &Machine) -> Self {
        let rough = RoughCosts::new(lowered, machine);
        let condition = Condition { is_cold: true, workers: machine.units.len() as u32 };
        let mut known: HashMap<Key, Option<f64>> = HashMap::new();
        let mut of = |kind: KindId, id: usize| {
            let task = &lowered.tasks()[id];
            let key = Key::of_task(task, &machine.kinds[kind].name);
            let estimate = |key: &Key| {
                let estimate = models.estimate(key, condition, task.flops, task.bytes());
                (estimate.basis != Basis::Guess).then_some(estimate.seconds)
            };
            let known = *known.entry(key).or_insert_with_key(estimate);
            known.unwrap_or_else(|| rough.task_seconds(id as TaskId, kind))
        };
        let n_tasks = lowered.tasks().len();
        let of_kind = |kind: KindId| (0..n_tasks).map(|id| of(kind, id)).collect();
        let seconds = (0..machine.kinds.len()).map(of_kind).collect();
        ModelCosts { seconds, rough }
    }
}

impl CostModel for ModelCosts {
    fn task_seconds(&self, task: TaskId, kind: KindId) -> f64 {
        self.seconds[kind][task as usize]
    }

    fn copy_seconds(&self, bytes: usize, from: MemoryId, to: MemoryId) -> f64 {
        self.rough.copy_seconds(bytes, from, to)
    }
}
