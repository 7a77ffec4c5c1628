//! How far steps have come, and who may run what next: the rules of replay, floating tasks, open orders and
//! copies on demand, without threads and without clocks.
//!
//! A [`Progress`] is asked by workers ([`Progress::poll`]) and answers by having a [`Driver`] execute what
//! the worker may execute. What time it is, it does not know: the workers may be threads that ask as fast as
//! they can, or virtual ones that ask when a virtual clock says so. The driver executes a node at once
//! ([`Outcome::Done`]) or begins it ([`Outcome::Later`]) and says afterwards that it has ended
//! ([`Progress::complete`]).
//!
//! Each rule exists once: `replay.rs` walks planned lists (`lists.rs` makes them from placement and edges),
//! `dynamic.rs` counts down predecessors, `offers.rs` hands ready tasks to a [scheduler](crate::schedule) and
//! checks what it returns, `coherence.rs` knows which memory has a valid copy of what.
//!
//! Invariant: a node of a released step is executed once, when everything that it waits for has ended, and
//! everybody who sees that it has ended sees what it wrote.

mod lists;
mod replay;
mod dynamic;
mod offers;
mod fault;
mod coherence;

pub(crate) use coherence::{Coherence, Stale};
pub(crate) use dynamic::Dynamic;
pub(crate) use fault::Fault;
pub(crate) use replay::Replay;

use crate::graph::TaskId;
use crate::machine::MemoryId;

/// What came of an order to execute a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has ended.
    Done,
    /// It is under way. The driver calls [`Progress::complete`] when it has ended, from any thread; of nodes
    /// of one list, in the order of the list.
    Later,
}

/// Who executes what may be executed, and hears of what follows from it. Its methods are called by whoever
/// polls or completes.
pub(crate) trait Driver {
    /// Whether every worker hears at once of what has ended.
    const IS_HEARD_AT_ONCE: bool = true;

    /// Whether a worker has heard that a node of a planned order has ended, which it has; asked where that
    /// takes time.
    fn has_heard(&self, _worker: usize, _node: TaskId, _step: u64) -> bool {
        true
    }

    /// Whether a worker can be given one more node. One whose answer was no is polled again when it has room.
    fn has_room(&self, worker: usize) -> bool;

    /// Executes a node of a step on a worker, or begins to. After a failure it is passed over.
    ///
    /// The nodes of a list that answer [`Outcome::Later`] may follow one another before the first has ended,
    /// though the second needs the first: a worker executes what it has begun in order.
    ///
    /// # Safety
    /// Whoever calls it polls for `worker`, each node of a released step once, when everything that it waits
    /// for has ended, except for nodes of the same list that the same worker has begun before.
    #[expect(unsafe_code, reason = "whoever calls it vouches for the time")]
    unsafe fn execute(&self, worker: usize, node: TaskId, step: u64) -> Outcome;

    /// Something has changed that another worker may wait for.
    fn ring(&self);

    /// So many steps may be finished; `finished` says how many are.
    fn tell(&self, steps: u64, finished: impl Fn() -> u64);

    /// The workers whose lists a worker walks, itself first.
    fn served_by(&self, worker: usize) -> impl Iterator<Item = usize>;

    /// Who walks the list of a worker.
    fn hand(&self, home: usize) -> usize;

    /// Somebody else has not yet left a list that the worker is to walk.
    fn pause(&self);

    /// The task that a node is, or that a copy is made before.
    fn task_of(&self, node: TaskId) -> TaskId;

    /// Calls `each` with every piece of data that a task of a step reads and that is not in a memory: a
    /// memory that has it, and its bytes.
    fn missing(&self, task: TaskId, step: u64, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize));

    /// The scheduler has broken a rule: what is executed from here on is passed over.
    fn fail(&self, fault: Fault);
}

/// A graph under execution.
#[cfg_attr(feature = "shuttle", expect(clippy::large_enum_variant, reason = "shuttle's locks are large"))]
pub(crate) enum Progress<D> {
    /// In the order of a plan.
    Replay(Replay<D>),
    /// As a scheduler decides.
    Dynamic(Dynamic<D>),
}

impl<D: Driver> Progress<D> {
    /// Has the driver execute what is there for this worker. Returns whether there was anything.
    pub fn poll(&self, worker: usize) -> bool {
        match self {
            Progress::Replay(replay) => replay.poll(worker),
            Progress::Dynamic(dynamic) => dynamic.poll(worker),
        }
    }

    /// Whether [`Progress::poll`] would find something. Whoever makes that so rings afterwards.
    pub fn has_work(&self, worker: usize) -> bool {
        match self {
            Progress::Replay(replay) => replay.has_work(worker),
            Progress::Dynamic(dynamic) => dynamic.has_work(worker),
        }
    }

    /// A node that the driver began on this worker has ended.
    pub fn complete(&self, worker: usize, node: TaskId, step: u64) {
        match self {
            Progress::Replay(replay) => replay.complete(node, step),
            Progress::Dynamic(dynamic) => dynamic.complete(worker, node, step),
        }
    }

    /// Lets workers execute all steps before `step`.
    pub fn release(&self, step: u64) {
        match self {
            Progress::Replay(replay) => replay.release(step),
            Progress::Dynamic(dynamic) => dynamic.release(step),
        }
    }

    /// Steps that are finished; they finish in order.
    pub fn finished(&self) -> u64 {
        match self {
            Progress::Replay(replay) => replay.finished(),
            Progress::Dynamic(dynamic) => dynamic.finished(),
        }
    }

    /// The tasks that wait, and for what. `doing` says what the workers are doing.
    pub fn blocked(&self, doing: &[Doing]) -> Vec<Blocked> {
        match self {
            Progress::Replay(replay) => replay.blocked(doing),
            Progress::Dynamic(dynamic) => dynamic.blocked(doing),
        }
    }

    /// Who executes.
    pub fn driver(&self) -> &D {
        match self {
            Progress::Replay(replay) => replay.driver(),
            Progress::Dynamic(dynamic) => dynamic.driver(),
        }
    }
}

/// What a worker is doing, as far as somebody who looks can see: tasks and the last bits of their steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doing {
    /// What is being executed.
    pub running: Option<(TaskId, u32)>,
    /// What was finished last.
    pub last: Option<(TaskId, u32)>,
}

/// A task that has not started, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The worker that would execute it, where that is fixed.
    pub worker: Option<usize>,
    /// The task.
    pub task: TaskId,
    /// The step that it belongs to.
    pub step: u64,
    /// What it waits for: the task and its step, and what else is known.
    pub awaited: Vec<(TaskId, u64, String)>,
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
