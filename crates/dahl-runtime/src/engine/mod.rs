//! Engines execute lowered graphs and submitted tasks. Here: the native one, on CPU threads.
//!
//! [`Pool`] owns the worker threads. What they work on is a *source*: a planned graph that is replayed, a graph
//! whose tasks are taken as they become ready, or the tasks that a program submits one by one. All of them run
//! kernels, fail and are traced in the same way. A [`Session`] binds a graph to a pool; a [`Store`] holds what
//! outlives graphs.

mod bell;
mod coherence;
mod eager;
mod local;
mod memory;
mod pool;
mod program;
mod queue;
mod replay;
mod session;

pub use memory::Store;
pub use pool::{Pool, current_worker};
pub use session::{Outputs, Ports, Session};
