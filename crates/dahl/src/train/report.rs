//! What training tells: as it goes on, per epoch, and at the end.

use super::used::ArenaUse;
use dahl_runtime::engine::Notice;
use dahl_runtime::plan::PlanFile;
use dahl_runtime::trace::{Trace, Usage};
use std::path::{Path, PathBuf};

/// What happens during training, told as soon as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A step is over.
    Step(Progress),
    /// An epoch is over.
    Epoch(&'a Epoch),
    /// A checkpoint was written.
    Saved(&'a Path),
    /// Another program uses the core of a worker, or does so no longer.
    Noticed(Notice),
}

/// Where training is after a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The epoch, from 1.
    pub epoch: usize,
    /// Steps of this epoch that are over.
    pub step: usize,
    /// Steps that this epoch has.
    pub n_steps: usize,
    /// The loss of the step, before its update.
    pub loss: f64,
    /// Images in the step.
    pub n_images: usize,
}

/// What an epoch came to.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// Mean loss over the training images, each seen with the weights of its step.
    pub loss: f64,
    /// Share of training images answered correctly, likewise.
    pub accuracy: f64,
    /// Mean loss over the test images after the epoch.
    pub test_loss: f64,
    /// Share of test images answered correctly after the epoch.
    pub test_accuracy: f64,
    /// Seconds of training in this process, without the evaluation.
    pub seconds: f64,
    /// Training images per second.
    pub images_per_s: f64,
    /// The most memory that the process has had so far, in bytes; 0 where the system does not tell.
    pub peak_bytes: usize,
    /// Share of the time that the program waited for images to be read; 0 where they lie in memory. Workers
    /// go on meanwhile with steps that were fed before: what they waited is [`Usage::stall`].
    pub reading: f64,
    /// How the workers' time was spent, as far as the trace reaches back.
    pub usage: Usage,
}

/// How well a model does on the test images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean loss.
    pub loss: f64,
    /// Share of images answered correctly.
    pub accuracy: f64,
    /// How many images there were.
    pub n_images: usize,
}

/// What is known about a step before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSummary {
    /// Tasks per training step.
    pub n_tasks: usize,
    /// Bytes that the steps need beside weights and data: MEM_MAX.
    pub bytes: usize,
    /// How many of them kernels need while they run, on all workers.
    pub scratch_bytes: usize,
    /// The same, if no two buffers shared memory.
    pub bytes_unshared: usize,
    /// Bytes of weights and data.
    pub state_bytes: usize,
}

/// What passed before training was under way, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Startup {
    /// Recording, planning and binding all steps.
    pub plan: f64,
    /// The first step, from its images to its loss.
    pub first_step: f64,
}

/// What training came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What passed before training was under way.
    pub startup: Startup,
    /// The plan of a full batch.
    pub plan: PlanSummary,
    /// Bytes of everything that was planned: the largest of the steps, which run in turn, weights and data,
    /// and the copy of what training changes that is kept in case a number goes wrong.
    pub planned_bytes: usize,
    /// What was planned and what was taken of each memory, by what it is for.
    pub used: Vec<ArenaUse>,
    /// The plans of all steps, as they were executed.
    pub plans: PlanFile,
    /// The epochs that ended in this run.
    pub epochs: Vec<Epoch>,
    /// The newest full training steps of the last epoch, as many as the workers remember
    /// ([`Trainer::trace_capacity`](super::Trainer::trace_capacity)).
    pub trace: Trace,
    /// Steps since the beginning, those before a resumed checkpoint included.
    pub n_steps: u64,
    /// What was noticed about cores that other programs use; the first of it, where that is much.
    pub notices: Vec<Notice>,
    /// Whether training was asked to stop before its end.
    pub is_stopped: bool,
    /// The newest checkpoint, if any was written.
    pub checkpoint: Option<PathBuf>,
}

/// What [`Trainer::replay_batches`](super::Trainer::replay_batches) came to.
#[derive(Clone, Debug, Default)]
pub struct StepDump {
    /// The loss of each step, before its update.
    pub losses: Vec<f64>,
    /// The outputs of the model in the first step, row by row.
    pub logits: Vec<f64>,
    /// The gradients of the first step, flat.
    pub gradients: Vec<f64>,
}
