//! What happened when: every executed task with its worker, start and end, and why workers idled in between.
//!
//! Workers write into rings of their own (`recorder.rs`) that were allocated before the run; when one is
//! full, its oldest events are overwritten, so that a trace can stay on for a run of any length. What is
//! recorded is only who executed what when. Why a worker idled follows from that and from the edges of the
//! graph (`idle.rs`), and is found out when somebody asks.
//!
//! A [`Trace`] is self-contained: it brings the names of tasks, workers and memories along. What reads traces
//! (files, statistics, reports, exports for the viewers of others) is the crate `dahl-trace`; recording needs
//! none of it.

mod clock;
pub(crate) mod recorder;
mod scene;
mod idle;
mod usage;

pub use clock::{Clock, ticks};
pub use idle::{Idle, Reason};
pub(crate) use scene::code;
pub use scene::{BlockInfo, Dispatch, Scene, TaskInfo, WorkerInfo};
pub use usage::Usage;

use crate::graph::TaskId;
use crate::machine::MemoryId;
use std::sync::Arc;

/// One execution of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The task.
    pub task: TaskId,
    /// The step it belongs to (its low 32 bits).
    pub step: u32,
    /// Start in clock ticks.
    pub start: u64,
    /// End in clock ticks.
    pub end: u64,
}

/// One copy from a memory to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// What was copied: an index into [`Scene::blocks`].
    pub block: u32,
    /// Where it came from.
    pub from: MemoryId,
    /// Where it went.
    pub to: MemoryId,
    /// The step for which (its low 32 bits).
    pub step: u32,
    /// Start in clock ticks.
    pub start: u64,
    /// End in clock ticks.
    pub end: u64,
}

/// When the program let the workers go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Workers may execute all steps before this one.
    pub steps: u64,
    /// Since when, in clock ticks.
    pub ticks: u64,
}

/// The trace of a run: the newest events of each worker, in order, and what they mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The tasks, edges, workers and memories.
    pub scene: Arc<Scene>,
    /// Events per worker.
    pub workers: Vec<Vec<Event>>,
    /// Transfers per worker, and after them those that the program made itself.
    pub transfers: Vec<Vec<Transfer>>,
    /// Events and transfers that were overwritten by newer ones, likewise.
    pub n_dropped: Vec<u64>,
    /// The newest releases, in order.
    pub releases: Vec<Release>,
    /// Ticks per second.
    pub ticks_per_second: f64,
}

impl Trace {
    /// All events that were overwritten by newer ones.
    pub fn total_dropped(&self) -> u64 {
        self.n_dropped.iter().sum()
    }

    /// The first tick of anything in the trace.
    pub fn origin(&self) -> u64 {
        let events = self.workers.iter().flatten().map(|event| event.start);
        events.chain(self.transfers.iter().flatten().map(|transfer| transfer.start)).min().unwrap_or(0)
    }
}
