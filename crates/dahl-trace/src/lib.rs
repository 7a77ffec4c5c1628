//! Tools that read traces: statistics, reports for any browser, files, and exports for the viewers of others.
//!
//! A [`Trace`](dahl_runtime::trace::Trace) is what the engine of `dahl-runtime` records. Nothing here is
//! needed to record one.
//!
//! ```
//! use dahl_runtime::trace::Trace;
//! use dahl_trace::{Format, Statistics};
//!
//! let trace = Trace::default(); // that of a session: `session.take_trace()`
//! assert_eq!(Statistics::of(&trace).n_executions(), 0);
//! let mut page = Vec::new();
//! dahl_trace::write(&trace, Format::Html, &mut page)?;
//! assert!(page.starts_with(b"<!DOCTYPE html>"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod json;
mod file;
pub mod stats;
mod export;
mod perfetto;
mod paje;
mod dot;
pub mod html;

pub use export::{Format, load, save, write};
pub use stats::Statistics;
