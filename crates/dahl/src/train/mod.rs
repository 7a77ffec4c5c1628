//! Training: record a step once, plan it, replay it for every batch.

pub mod checkpoint;
<<<<<<< HEAD
mod diagnose;
mod fit;
mod position;
mod report;
mod run;
mod saved;
mod state;
=======
>>>>>>> 60661ff3cca0f1735411a7f54ab82e2e961bdb91
mod step;
mod trainer;

pub use checkpoint::Checkpoint;
<<<<<<< HEAD
pub use report::{Epoch, Evaluation, Event, PlanSummary, Progress, Report, StepDump};
=======
>>>>>>> 60661ff3cca0f1735411a7f54ab82e2e961bdb91
pub use step::StepKind;
pub use trainer::{Schedule, Trainer};
