//! Training: record a step once, plan it, replay it for every batch.

pub mod checkpoint;
mod diagnose;
mod feed;
mod fit;
mod inspecting;
mod position;
mod report;
mod running;
mod workbench;
mod saved;
mod state;
mod step;
mod timed;
mod trainer;
mod used;

pub use checkpoint::{Checkpoint, FolderLock};
pub use report::{Epoch, Evaluation, Event, PlanSummary, Progress, Report, Startup, StepDump};
pub use timed::{Turn, Turns};
pub use trainer::Trainer;
pub use used::ArenaUse;

pub use dahl_runtime::engine::{Action, Notice};
pub use dahl_runtime::plan::Schedule;
