//! What tasks and copies cost, for schedulers that ask.

use crate::graph::{Lowered, TaskId};
use crate::machine::{HOST, KindId, Machine, MemoryId};

/// What tasks and copies of one graph cost on one machine. The same question always has the same answer.
pub trait CostModel: Send + Sync {
    /// Seconds that a task takes on units of a kind, if its data are there.
    fn task_seconds(&self, task: TaskId, kind: KindId) -> f64;

    /// Joules that it takes there beside what an idle unit takes, where that is known.
    fn task_joules(&self, _task: TaskId, _kind: KindId) -> Option<f64> {
        None
    }

    /// Seconds that a copy of so many bytes from one memory to another takes.
    fn copy_seconds(&self, bytes: usize, from: MemoryId, to: MemoryId) -> f64;
}

/// Rough costs: what kinds and links say of themselves, without any measurement.
#[derive(Clone, Debug)]
pub struct RoughCosts {
    /// For each kind, the seconds of each task.
    seconds: Vec<Vec<f64>>,
    machine: Machine,
}

impl RoughCosts {
    /// The costs of this graph's tasks.
    pub fn new(lowered: &Lowered, machine: &Machine) -> Self {
        let of = |kind: &crate::machine::Kind| {
            lowered.tasks().iter().map(|task| task.seconds(&kind.speed)).collect()
        };
        RoughCosts { seconds: machine.kinds.iter().map(of).collect(), machine: machine.clone() }
    }
}

impl CostModel for RoughCosts {
    fn task_seconds(&self, task: TaskId, kind: KindId) -> f64 {
        self.seconds[kind][task as usize]
    }

    fn copy_seconds(&self, bytes: usize, from: MemoryId, to: MemoryId) -> f64 {
        copy_seconds(&self.machine, bytes, from, to)
    }
}

/// Seconds of a copy over the link between two memories; where there is none, over the host's memory.
pub(crate) fn copy_seconds(machine: &Machine, bytes: usize, from: MemoryId, to: MemoryId) -> f64 {
    let over = |from, to| machine.link(from, to).map_or(0.0, |link| link.seconds(bytes));
    match machine.link(from, to) {
        Some(link) => link.seconds(bytes),
        None if from == to => 0.0,
        None => over(from, HOST) + over(HOST, to),
    }
}
