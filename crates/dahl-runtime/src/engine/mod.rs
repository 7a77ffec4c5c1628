//! Engines execute lowered graphs and submitted tasks. `steps.rs` says what an engine is; here is also the
//! native one, on CPU threads.
//!
//! [`Pool`] owns the worker threads. What they work on is a [`WorkSource`]: a graph that is replayed as
//! planned or whose tasks are taken as they become ready (`threads.rs`, by the rules of `../progress/`), or
//! the tasks that a program submits one by one (`submit/`). All of them run kernels and fail in the same way
//! (`runner.rs`); runs of graphs are traced. A [`Session`] runs the steps of a graph that an engine has bound
//! (`native.rs`, `bound.rs`: memory and addresses); a [`Store`] holds what outlives graphs. A unit may finish
//! later what it is given: then its thread drives a [`Device`] (`device/`).
//!
//! `README.md` in this folder has the states of workers, steps, tasks and blocks, the counters that they go
//! by, and why nothing is lost. Engines never split, fuse or reduce: that is done when a graph is lowered.

pub mod bell;
pub mod pool;
pub mod queue;

mod device;
mod memory;
mod replica;
mod workspace;
mod local;
mod roster;
mod busy;
mod planned;
mod runner;
pub(crate) mod watchdog;
mod bound;
mod waiter;
mod threads;
mod rings;
mod steps;
mod native;
mod session;
pub(crate) mod submit;

pub use crate::progress::Blocked;
pub use bound::Versions;
pub use busy::{Action, Lookout, Notice, Tell};
pub use device::{Delay, Device, Event, Launch, Over, QueueDevice, QueueOptions};
pub use memory::{Abandoned, Store};
pub use native::{native, native_with};
pub use pool::{Pool, WorkSource, become_worker, current_worker};
pub use rings::{Outputs, Ports, Rings};
pub use runner::{Failure, Runner};
pub use session::{Handle, Session};
pub use steps::{Engine, Steps};
pub use workspace::{Lease, Workspace};
