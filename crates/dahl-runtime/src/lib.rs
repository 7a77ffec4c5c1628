//! The runtime below dahl: arrays, codelets, task graphs, plans and engines.
//!
//! A computation is *recorded* as tasks on whole arrays ([`graph`]), *lowered* to tasks on disjoint tile
//! buffers, *planned* (who runs what, when, and where each buffer lies: [`plan`]), and *executed* by an
//! [`engine`] as often as wanted. One-off work is *submitted* on arrays that live in arenas ([`mod@array`],
//! [`arena`]). The runtime knows nothing of neural networks.

pub mod error;
pub mod env;
pub mod date;
pub mod file;
pub mod shown;
pub mod robust;
pub(crate) mod words;
pub mod hash;
pub mod bytes;
pub mod shape;
pub mod array;
pub mod arena;
pub mod runtime;
pub mod codelet;
pub mod graph;
pub mod machine;
pub mod schedule;
pub mod plan;
pub mod engine;
pub mod trace;
pub mod perf;

pub(crate) mod sync;

pub use error::{Error, ErrorKind, Result};
pub use runtime::Runtime;
