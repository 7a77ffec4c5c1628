//! Engines execute lowered graphs and submitted tasks. `steps.rs` says what an engine is; here is also the
//! native one, on CPU threads.
//!
//! [`Pool`] owns the worker threads. What they work on is a [`WorkSource`]: a planned graph that is replayed
//! (`replay.rs`), a graph whose tasks are taken as they become ready, by whom a [scheduler](crate::schedule)
//! decides (`dynamic.rs`), or the tasks that a program submits one by one (`submit/`). All of them run
//! kernels and fail in the same way (`runner.rs`); runs of graphs are traced. A [`Session`] runs the steps of
//! a graph that an engine has bound (`native.rs`, `bound.rs`: memory and addresses); a [`Store`] holds what
//! outlives graphs.
//!
//! `README.md` in this folder has the states of workers, steps, tasks and blocks, the counters that they go
//! by, and why nothing is lost. Engines never split, fuse or reduce: that is done when a graph is lowered.

pub mod bell;
pub mod pool;
pub mod queue;

mod memory;
mod replica;
mod workspace;
mod local;
mod roster;
mod busy;
mod coherence;
mod planned;
mod runner;
pub(crate) mod watchdog;
mod bound;
mod waiter;
mod executor;
mod replay;
mod dynamic;
mod rings;
mod steps;
mod native;
mod session;
pub(crate) mod submit;

pub use bound::Versions;
pub use busy::{Action, Lookout, Notice, Tell};
pub use memory::{Abandoned, Store};
pub use native::native;
pub use pool::{Pool, WorkSource, become_worker, current_worker};
pub use rings::{Outputs, Ports, Rings};
pub use runner::{Failure, Runner};
pub use session::{Handle, Session};
pub use steps::{Engine, Steps};
pub use watchdog::Blocked;
pub use workspace::{Lease, Workspace};
