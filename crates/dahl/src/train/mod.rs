//! Training: record a step once, plan it, replay it for every batch.

mod step;
mod trainer;

pub use step::StepKind;
pub use trainer::{Epoch, PlanSummary, Report, Schedule, StepDump, Trainer};
