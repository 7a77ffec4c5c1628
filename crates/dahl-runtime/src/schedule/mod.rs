//! Schedulers: who takes which ready task, where a plan leaves that open.
//!
//! A dynamic run keeps count of what each task still waits for; when nothing is left, the task is *ready* and
//! given to a [`Scheduler`], which hands it to a worker that asks and may execute it ([`Allowed`]).
//! Schedulers know nothing of kernels, memory or time, and results do not depend on them: bits come from the
//! cut alone. They hear of what happens, and may ask what tasks and copies cost ([`CostModel`]) and where
//! data lie ([`Whereabouts`]); so the same one decides for threads and on a virtual clock. A [`Policy`] names
//! a scheduler and makes it.
//!
//! Several steps may be under way at once ([`steps_under_way`]). A scheduler keeps their tasks apart by the
//! step's *turn*, which is its number modulo [`n_turns`], and prefers older steps, so that steps end in
//! order.
//!
//! A scheduler of another crate, which gives out tasks in the order in which they became ready:
//!
//! ```
//! use dahl_runtime::graph::TaskId;
//! use dahl_runtime::schedule::{Policy, Scheduler, Whereabouts};
//! use std::collections::VecDeque;
//! use std::sync::Mutex;
//!
//! #[derive(Default)]
//! struct Fifo(Mutex<VecDeque<(TaskId, usize)>>);
//!
//! impl Scheduler for Fifo {
//!     fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
//!         self.0.lock().unwrap().push_back((task, turn));
//!     }
//!     fn take(&self, _worker: usize, _oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
//!         self.0.lock().unwrap().pop_front()
//!     }
//! }
//!
//! // For `Plan::open`.
//! let policy = Policy::new("fifo", |_setting| Box::new(Fifo::default()));
//! assert_eq!(policy.name(), "fifo");
//! ```

mod allowed;
mod cost;
mod eager;
mod policy;
mod priority;
mod ready;
mod steal;

pub use allowed::Allowed;
pub(crate) use cost::copy_seconds;
pub use cost::{CostModel, RoughCosts};
pub use eager::Eager;
pub(crate) use policy::Appointed;
pub use policy::{Policy, SchedulerKind, Setting};
pub use priority::priorities;
pub use ready::ReadySet;
pub use steal::Steal;

use crate::graph::{Edge, TaskId};
use crate::machine::MemoryId;

/// Where ready tasks wait for a worker. All methods may be called by any number of threads at once, and must
/// not block for long: workers wait meanwhile.
///
/// A scheduler is told of each task when it becomes ready, and returns it once, to a worker that may execute
/// it ([`Setting::allowed`]). One that returns a task twice, before it is ready or to a worker that may not
/// execute it ends the run with an error; so does one that has ready tasks and refuses every worker while
/// nothing is running, and one that panics.
pub trait Scheduler: Send + Sync {
    /// A task has become ready. `by` is the worker whose work made it so, which has its inputs in its cache;
    /// none for the first tasks of a step.
    fn ready(&self, task: TaskId, turn: usize, by: Option<usize>, data: &dyn Whereabouts);

    /// A task for `worker`, and its turn; as a rule those of the turn `oldest` first, and those of the turn
    /// before it, which is that of the youngest step, last. A worker that was refused may not be asked
    /// again before something has become ready or, if the scheduler [listens](Scheduler::listens), ended.
    fn take(&self, worker: usize, oldest: usize, data: &dyn Whereabouts) -> Option<(TaskId, usize)>;

    /// Whether [`Scheduler::take`] may find something, asked before a worker falls asleep. Yes is always
    /// right.
    fn has_ready(&self, _worker: usize) -> bool {
        true
    }

    /// A worker begins a task.
    fn started(&self, _task: TaskId, _turn: usize, _worker: usize) {}

    /// A task has ended; what it made ready is told afterwards.
    fn ended(&self, _task: TaskId, _turn: usize, _worker: usize) {}

    /// Whether it wants to hear of starts and ends. Asked once.
    fn listens(&self) -> bool {
        true
    }

    /// Whether a worker may go on with a task that it has made ready, without asking: its data are in the
    /// worker's cache, and asking takes time. Of such a task the scheduler hears its start and its end only.
    /// Asked once.
    fn lets_go_on(&self) -> bool {
        false
    }
}

/// Where the data of tasks lie, while a run is under way.
pub trait Whereabouts {
    /// Calls `each` with every piece of data that a ready task reads and that is not in a memory: a memory
    /// that has it, and its bytes.
    fn missing(&self, task: TaskId, turn: usize, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize));

    /// Seconds that copying what a ready task lacks in a memory takes.
    fn copy_seconds(&self, task: TaskId, turn: usize, memory: MemoryId, costs: &dyn CostModel) -> f64 {
        let mut seconds = 0.0;
        self.missing(task, turn, memory, &mut |from, bytes| {
            seconds += costs.copy_seconds(bytes, from, memory);
        });
        seconds
    }
}

/// Nothing is missing anywhere: there is one memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everywhere;

impl Whereabouts for Everywhere {
    fn missing(&self, _: TaskId, _: usize, _: MemoryId, _: &mut dyn FnMut(MemoryId, usize)) {}
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
