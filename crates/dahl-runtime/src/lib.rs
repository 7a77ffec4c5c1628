//! The runtime below dahl: arrays, codelets, task graphs, plans and engines.
//!
//! A computation is *recorded* as tasks on whole arrays ([`graph`]), *lowered* to tasks on disjoint tile
//! buffers, *planned* (who runs what, when, and where each buffer lies: [`plan`]), and *executed* by an
//! [`engine`] as often as wanted. One-off work is *submitted* on arrays that live in arenas ([`mod@array`],
//! [`arena`]). The runtime knows nothing of neural networks.
//!
//! Recorded once, cut into tiles, planned for two workers, and run three times:
//!
//! ```
//! use dahl_runtime::array::Dtype;
//! use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
//! use dahl_runtime::engine::{Pool, Session, Store};
//! use dahl_runtime::graph::{Graph, lower};
//! use dahl_runtime::machine::Machine;
//! use dahl_runtime::graph::{Cut, CutOptions};
//! use dahl_runtime::plan::Plan;
//! use std::sync::Arc;
//!
//! static TWICE: Codelet = Codelet::new("twice", "x[i] -> y[i]", 1.0, &[
//!     Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, twice),
//! ]);
//!
//! fn twice(call: &Call<'_>) -> dahl_runtime::Result<()> {
//!     call.map(|x: f32| 2.0 * x);
//!     Ok(())
//! }
//!
//! fn main() -> dahl_runtime::Result<()> {
//!     let mut graph = Graph::new(1);
//!     let (x, y) = (graph.port("x", Dtype::F32, [8]), graph.output("y", Dtype::F32, [8]));
//!     graph.task(&TWICE, Dtype::F32, &[x], &[y], &[], &[])?;
//!     let lowered = lower(&graph, &Cut::heuristic(&graph, &CutOptions::parse("tiles:i=4")?)?)?;
//!     let machine = Machine::with_workers(2);
//!     let plan = Plan::heuristic(&lowered, &machine)?;
//!     let pool = Arc::new(Pool::new(&machine)?);
//!     let mut session = Session::new(&pool, &lowered, &plan, 0)?;
//!     let mut seen = Vec::new();
//!     session.run(
//!         &mut Store::new(),
//!         3,
//!         |step, ports| ports.get_mut::<f32>(&x).fill(step as f32),
//!         |_, outputs| seen.push(outputs.get::<f32>(&y)[7]),
//!     )?;
//!     assert_eq!(seen, [0.0, 2.0, 4.0]);
//!     Ok(())
//! }
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@array`], [`arena`], [`runtime`] | typed arrays, their memory, and tasks on them |
//! | [`codelet`] | operations: index relations, costs, implementations, and what a kernel gets to see |
//! | [`graph`] | recording, fusing and lowering |
//! | [`plan`], [`schedule`] | who executes what and when, where every buffer lies; what is left open |
//! | [`engine`] | worker threads, sessions that replay a plan, submitted tasks |
//! | [`machine`] | units, memories, and how fast they are |
//! | [`trace`], [`perf`] | what happened when and why; what tasks cost, and what a plan will take |
//! | [`conformance`] | codelets tried against their references, for tests |
//! | [`error`], [`mod@file`], [`env`](mod@env), [`date`], [`shown`] | the one [`Error`], files, days, names |

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
pub(crate) mod progress;
pub mod engine;
pub mod trace;
pub mod perf;
pub mod conformance;

pub(crate) mod sync;

pub use error::{Error, ErrorKind, Result};
pub use runtime::Runtime;
