//! Engines execute lowered graphs and submitted tasks. Here: the native one, on CPU threads.
//!
//! [`Pool`] owns the worker threads. What they work on is a [`WorkSource`]: a planned graph that is replayed
//! (`replay.rs`), a graph whose tasks are taken as they become ready, by whom a [scheduler](crate::schedule)
//! decides (`dynamic.rs`), or the tasks that a program submits one by one (`submit/`). All of them run
//! kernels and fail in the same way (`runner.rs`); runs of graphs are traced. A [`Session`] binds a graph to
//! a pool (`bound.rs`: memory and addresses); a [`Store`] holds what outlives graphs.
//!
//! `README.md` in this folder has the states of workers, steps, tasks and blocks, the counters that they go
//! by, and why nothing is lost. Engines never split, fuse or reduce: that is done when a graph is lowered.

pub mod bell;
pub mod pool;
pub mod queue;

mod memory;
mod workspace;
mod local;
mod coherence;
mod runner;
pub(crate) mod watchdog;
mod bound;
mod waiter;
mod executor;
mod replay;
mod dynamic;
mod session;
pub(crate) mod submit;

pub use memory::Store;
pub use pool::{Pool, WorkSource, current_worker};
pub use session::{Handle, Outputs, Ports, Session};
pub use workspace::Workspace;
