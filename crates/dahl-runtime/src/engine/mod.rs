//! Engines execute lowered graphs and submitted tasks. Here: the native one, on CPU threads.
//!
//! [`pool`] owns the worker threads. What they work on is a *source*: a planned graph that is replayed, a graph
//! whose tasks are taken as they become ready, or the tasks that a program submits one by one. All of them run
//! kernels, fail and are traced in the same way.

pub mod bell;
pub mod pool;
pub mod queue;
pub(crate) mod submit;

pub use pool::{Pool, Source};
pub use queue::Queue;
