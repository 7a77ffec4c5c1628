//! Schedulers: who takes which ready task, where a plan leaves that open.
//!
//! A dynamic run keeps count of what each task still waits for; when nothing is left, the task is *ready* and
//! given to a [`Scheduler`], which hands it to a worker that asks. Schedulers know nothing of kernels, memory
//! or time, and results do not depend on them: bits come from the cut alone.
//!
//! Two steps may be under way at once. A scheduler keeps their tasks apart by the step's *turn*, its lowest
//! bit, and prefers the older step, so that steps end in order.

mod eager;
mod priority;
mod ready;
mod steal;

pub use eager::Eager;
pub use priority::priorities;
pub use ready::ReadySet;
pub use steal::Steal;

use crate::graph::TaskId;
use std::fmt;

/// Where ready tasks wait for a worker. All methods may be called by any number of threads at once.
pub trait Scheduler: Send + Sync {
    /// A task has become ready. `by` is the worker whose work made it so, which has its inputs in its cache;
    /// none for the first tasks of a step.
    fn push(&self, task: TaskId, turn: usize, by: Option<usize>);

    /// A task for `worker`, and its turn; those of the turn `older` first.
    fn pop(&self, worker: usize, older: usize) -> Option<(TaskId, usize)>;

    /// Whether [`Scheduler::pop`] would find something.
    fn has_ready(&self, worker: usize) -> bool;
}

/// The schedulers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// One set of ready tasks for all workers, the most urgent first.
    #[default]
    Eager,
    /// Every worker has its own, and takes from others when it has nothing.
    Steal,
}

impl SchedulerKind {
    /// All of them.
    pub const ALL: [SchedulerKind; 2] = [SchedulerKind::Eager, SchedulerKind::Steal];
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchedulerKind::Eager => "eager",
            SchedulerKind::Steal => "steal",
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
