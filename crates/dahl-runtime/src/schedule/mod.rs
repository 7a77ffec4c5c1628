//! Schedulers: who takes which ready task, where a plan leaves that open.
//!
//! A dynamic run keeps count of what each task still waits for; when nothing is left, the task is *ready* and
//! given to a [`Scheduler`], which hands it to a worker that asks and whose unit runs its code ([`Classes`]).
//! Schedulers know nothing of kernels, memory or time, and results do not depend on them: bits come from the
//! cut alone.
//!
//! Several steps may be under way at once ([`steps_under_way`]). A scheduler keeps their tasks apart by the
//! step's *turn*, which is its number modulo [`n_turns`], and prefers older steps, so that steps end in
//! order.

mod classes;
mod eager;
mod priority;
mod ready;
mod steal;

pub use classes::Classes;
pub use eager::Eager;
pub use priority::priorities;
pub use ready::ReadySet;
pub use steal::Steal;

use crate::graph::{Edge, TaskId};
use std::fmt;

/// Where ready tasks wait for a worker. All methods may be called by any number of threads at once.
pub trait Scheduler: Send + Sync {
    /// A task has become ready. `by` is the worker whose work made it so, which has its inputs in its cache;
    /// none for the first tasks of a step.
    fn push(&self, task: TaskId, turn: usize, by: Option<usize>);

    /// A task for `worker`, and its turn; those of the turn `oldest` first, and those of the turn before it,
    /// which is that of the youngest step, last.
    fn pop(&self, worker: usize, oldest: usize) -> Option<(TaskId, usize)>;

    /// Whether [`Scheduler::pop`] would find something.
    fn has_ready(&self, worker: usize) -> bool;

    /// Whether a worker may execute a task: [`Scheduler::pop`] hands it no others.
    fn may_run(&self, worker: usize, task: TaskId) -> bool;
}

/// Steps that are under way at a time, at most, where the order is open: one more than edges reach back,
/// because steps further ahead would mostly wait. Two at least, for what hangs together by rings alone.
pub fn steps_under_way(edges: &[Edge]) -> usize {
    1 + longest_distance(edges).max(1)
}

/// Steps that the longest edge reaches back.
pub(crate) fn longest_distance(edges: &[Edge]) -> usize {
    edges.iter().map(|edge| edge.distance as usize).max().unwrap_or(0)
}

/// Turns of so many steps under way: the next power of two, so that turns are bits of a step's number.
pub fn n_turns(steps_under_way: usize) -> usize {
    steps_under_way.next_power_of_two()
}

/// All turns, that of the oldest step first.
fn turns(oldest: usize, n_turns: usize) -> impl Iterator<Item = usize> {
    (oldest..n_turns).chain(0..oldest)
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
