//! Training: record a step once, plan it, replay it for every batch.

pub mod checkpoint;
mod step;
mod trainer;

pub use checkpoint::Checkpoint;
pub use step::StepKind;
pub use trainer::{Epoch, PlanSummary, Report, Schedule, StepDump, Trainer};
