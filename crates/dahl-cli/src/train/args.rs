//! The arguments of `dahl train`.

use super::rate;
use crate::exit::Misuse;
use crate::parse::{
    DtypeArg, at_least_one, below_one, classes, image_shape, impls, model, name, not_negative, page_path,
    path, seconds, tiles, trace_path, whole, workers,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, ValueEnum};
use dahl::optim::{Adam, AdamW, AnyOptimizer, Decay, LearningRate, Moments, Sgd};
use dahl::train::Schedule;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const LEARNING: &str = "Learning";
const SAVING: &str = "Saving";
const COMPUTING: &str = "Computing";
const LOOKING_INSIDE: &str = "Looking inside";

/// Images per step, where nobody says how many.
pub const BATCH: usize = 64;

/// The settings of a training run.
#[derive(clap::Args)]
#[command(
    // A run that goes on reads the arguments it was begun with first; what is said now comes after them.
    args_override_self = true,
    // Numbers below zero are answered with what is wrong with them, and not taken for arguments.
    allow_negative_numbers = true,
    group(ArgGroup::new("saving").args(["checkpoint", "resume"]).multiple(true)),
    after_help = "\
Examples:
  dahl train                                    a small network on the digits that dahl brings along
  dahl train --data data/fashion-mnist --model lenet5 --epochs 3 --lr 0.05
  dahl train --data photos/ --model resnet8     a folder with a folder of images per class
  dahl train --optimizer adamw --weight-decay 0.01 --lr-schedule cosine --warmup 100
  dahl train --checkpoint run/                  saves after every epoch and on Ctrl-C
  dahl train --resume run/                      goes on with the same settings, to the same bits
  dahl train --json --metrics run.csv           one JSON line per epoch, and the same as CSV
  dahl train --memory-report                    what a step needs, planned before it runs
  dahl train --save-plan digits.plan            writes down which worker does what, when and where
  dahl train --plan digits.plan                 does exactly that again, also after the file was edited
  dahl train --tiles n=32                       coarser tasks: 32 images each
  dahl train --report run.html                  curves, timeline and memory as a page for any browser
  dahl train --trace run.pftrace                who did what when, for https://ui.perfetto.dev
  dahl train --dump out/ --init w.safetensors --batches b.safetensors --dtype f64
                                                the same steps as another program, to compare with it

Exit codes: 0 done, 1 failed, 2 arguments that make no sense, 130 interrupted by Ctrl-C, SIGTERM, SIGHUP or SIGUSR1"
)]
pub struct Args {
    /// The network: a name that `dahl model` lists, or a model file (.toml) [default: seed]
    #[arg(long, value_name = "NAME|FILE", value_parser = model)]
    pub model: Option<String>,
    /// The data: `digits`, a folder (IDX files, CIFAR-10, or images in a folder per class), or
    /// `synthetic:CxHxW`
    #[arg(long, default_value = "digits", value_parser = name())]
    pub data: String,
    /// Use only the first N training images
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub limit: Option<usize>,
    /// How many classes there are, where labels are mere numbers and some class has no image
    #[arg(long, value_name = "N", value_parser = classes)]
    pub classes: Option<usize>,
    /// Resize the images of a folder of images to this [default: as the first of them, at most 64 pixels each
    /// way]
    #[arg(long, value_name = "CxHxW", value_parser = image_shape)]
    pub input: Option<[usize; 3]>,
    /// Images per step
    #[arg(long, default_value_t = BATCH, value_parser = at_least_one)]
    pub batch: usize,
    /// Passes over the training images [default: 60 for the digits, 1 otherwise, or as many as --steps needs]
    #[arg(long, value_parser = at_least_one)]
    pub epochs: Option<usize>,
    /// End after this many steps
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub steps: Option<usize>,
    /// How gradients become new weights
    #[arg(long, help_heading = LEARNING, value_enum, default_value_t = OptimizerArg::Sgd)]
    pub optimizer: OptimizerArg,
    /// Learning rate [default: 0.5 for the digits, 0.1 otherwise; 0.02 with momentum; 0.001 for adam and
    /// adamw]
    #[arg(long, help_heading = LEARNING, value_parser = not_negative)]
    pub lr: Option<f64>,
    /// How the rate falls: constant, step:EVERY:FACTOR, linear[:LAST] or cosine[:LAST], counted in steps
    #[arg(long, help_heading = LEARNING, value_name = "SCHEDULE", default_value = "constant", value_parser = rate::decay)]
    pub lr_schedule: Decay,
    /// Steps during which the learning rate rises from almost nothing
    #[arg(long, help_heading = LEARNING, value_name = "STEPS", default_value_t = 0, value_parser = whole)]
    pub warmup: u64,
    /// Share of the velocity that SGD keeps from step to step
    #[arg(long, help_heading = LEARNING, value_parser = below_one)]
    pub momentum: Option<f64>,
    /// How strongly weights are drawn to zero [default: 0, for adamw 0.01]
    #[arg(long, help_heading = LEARNING, value_name = "X", value_parser = not_negative)]
    pub weight_decay: Option<f64>,
    /// Element type to compute in
    #[arg(long, help_heading = COMPUTING, value_enum, default_value_t = DtypeArg::F32)]
    pub dtype: DtypeArg,
    /// Worker threads; the result does not depend on it [default: one per core]
    #[arg(long, help_heading = COMPUTING, value_parser = workers)]
    pub workers: Option<usize>,
    /// What initial weights, the order of images and dropout are drawn from
    #[arg(long, help_heading = LEARNING, default_value_t = 1, value_parser = whole)]
    pub seed: u64,
    /// Begin with these weights, named as in PyTorch
    #[arg(long, help_heading = LEARNING, value_name = "FILE", value_parser = path(), conflicts_with = "resume")]
    pub init: Option<PathBuf>,
    /// Train on exactly the batches of a safetensors file: `indices` [steps, batch] of training images, as
    /// i64
    #[arg(long, help_heading = LOOKING_INSIDE, value_name = "FILE", value_parser = path(), conflicts_with_all = ["epochs", "checkpoint", "resume", "metrics", "plan", "save_plan", "trace", "report"])]
    pub batches: Option<PathBuf>,
    /// Write losses.json, step1.safetensors (logits, loss, grad.NAME) and final.safetensors into a folder; a
    /// run that goes on has only its own losses and no first step
    #[arg(long, help_heading = LOOKING_INSIDE, value_name = "DIR", value_parser = path())]
    pub dump: Option<PathBuf>,
    /// Write the metrics of each epoch as CSV
    #[arg(long, help_heading = SAVING, value_name = "FILE", value_parser = path())]
    pub metrics: Option<PathBuf>,
    /// Save everything into a folder after each epoch, and on Ctrl-C; the last two are kept
    #[arg(long, help_heading = SAVING, value_name = "DIR", value_parser = path())]
    pub checkpoint: Option<PathBuf>,
    /// Save also after every so many steps
    #[arg(long, help_heading = SAVING, value_name = "STEPS", value_parser = at_least_one, requires = "saving")]
    pub checkpoint_every: Option<usize>,
    /// Go on from the newest checkpoint in a folder, or from a file in it, with its settings, and save there
    #[arg(long, help_heading = SAVING, value_name = "DIR|FILE", value_parser = path())]
    pub resume: Option<PathBuf>,
    /// Who decides which worker executes what; the result does not depend on it. By default it is replay, and
    /// workers evade cores that other programs use
    #[arg(long, help_heading = COMPUTING, value_parser = schedule())]
    pub schedule: Option<Schedule>,
    /// Let every operation be a task of its own; the result is the same
    #[arg(long, help_heading = COMPUTING, conflicts_with = "plan")]
    pub no_fusion: bool,
    /// Execute the plan in FILE; it must be for this model, data, batch and number of workers
    #[arg(long, help_heading = COMPUTING, value_name = "FILE", value_parser = path(), conflicts_with = "schedule")]
    pub plan: Option<PathBuf>,
    /// Write the plan to FILE before training begins
    #[arg(long, help_heading = COMPUTING, value_name = "FILE", value_parser = path())]
    pub save_plan: Option<PathBuf>,
    /// Cut tasks into such tiles: samples (n=16, or n=16to64, which grows with the batch), or other axes
    /// (n=32,k=4parts/i=4096max); the result depends on it
    #[arg(long, help_heading = COMPUTING, value_name = "TILES", value_parser = tiles, conflicts_with = "plan")]
    pub tiles: Option<String>,
    /// Add up the gradients of so many tiles before they meet those of others; the result depends on it
    #[arg(long, help_heading = COMPUTING, value_name = "TILES", value_parser = at_least_one, conflicts_with = "plan")]
    pub group: Option<usize>,
    /// Compute by these implementations: names in order of preference, or CODELET=NAME; the result depends on
    /// it. By default few,lanes,flat,reference: lanes over samples, or rows of pixels (flat) where samples
    /// are few
    #[arg(long = "impl", help_heading = COMPUTING, value_name = "NAMES", value_parser = impls, conflicts_with = "plan")]
    pub implementations: Option<String>,
    /// Give the last worker a memory of its own, as a device has; the result does not depend on it
    #[arg(long, help_heading = COMPUTING)]
    pub test_unit: bool,
    /// Save who did what when in the newest full training steps; the ending decides: .perfetto or .pftrace
    /// (Perfetto), .paje or .trace (Paje), .dot (the task graph), .html (a page for any browser), .json
    /// (dahl's own, for `dahl trace`)
    #[arg(long, help_heading = LOOKING_INSIDE, value_name = "FILE", value_parser = trace_path())]
    pub trace: Option<PathBuf>,
    /// Write a page for any browser, offline: curves, who did what when, codelets, memory; also on Ctrl-C
    #[arg(long, help_heading = LOOKING_INSIDE, value_name = "FILE.html", value_parser = page_path())]
    pub report: Option<PathBuf>,
    /// Show the memory that a step needs over time, before training begins
    #[arg(long, help_heading = LOOKING_INSIDE)]
    pub memory_report: bool,
    /// End with an error that says what is stuck when no task has finished for this long
    #[arg(long, help_heading = COMPUTING, value_name = "SECONDS", value_parser = seconds)]
    pub watchdog: Option<Duration>,
    /// Print one JSON object per epoch and one at the end
    #[arg(long)]
    pub json: bool,
}

/// Optimisers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OptimizerArg {
    /// Stochastic gradient descent, with --momentum and --weight-decay
    Sgd,
    /// Adam; the weight decay is part of the gradient
    Adam,
    /// AdamW; the weight decay shrinks the weights directly
    Adamw,
}

impl Args {
    /// The optimiser, or why there is none such.
    pub fn optimizer(&self) -> Result<AnyOptimizer, Misuse> {
        if self.optimizer != OptimizerArg::Sgd && self.momentum.is_some() {
            return Err(Misuse("--momentum is for sgd; adam and adamw keep moments of their own".into()));
        }
        Ok(match self.optimizer {
            OptimizerArg::Sgd => Arc::new(Sgd {
                momentum: self.momentum.unwrap_or(0.0),
                weight_decay: self.weight_decay.unwrap_or(0.0),
                nesterov: false,
            }),
            OptimizerArg::Adam => Arc::new(Adam(Moments::with_decay(self.weight_decay.unwrap_or(0.0)))),
            OptimizerArg::Adamw => Arc::new(AdamW(Moments::with_decay(self.weight_decay.unwrap_or(0.01)))),
        })
    }

    /// The learning rate of every step.
    pub fn learning_rate(&self) -> LearningRate {
        let base = self.lr.unwrap_or(match self.optimizer {
            OptimizerArg::Adam | OptimizerArg::Adamw => 0.001,
            OptimizerArg::Sgd if self.momentum.is_some_and(|momentum| momentum > 0.0) => 0.02,
            OptimizerArg::Sgd if self.data == "digits" => 0.5,
            OptimizerArg::Sgd => 0.1,
        });
        LearningRate { base, warm_up: self.warmup, decay: self.lr_schedule }
    }

    /// Passes over data of `n_images`.
    pub fn n_epochs(&self, n_images: usize) -> usize {
        let steps_per_epoch = n_images.div_ceil(self.batch.min(n_images.max(1))).max(1);
        let needed = self.steps.map(|steps| steps.div_ceil(steps_per_epoch));
        self.epochs.or(needed).unwrap_or(if self.data == "digits" { 60 } else { 1 })
    }
}

/// Reads a way of scheduling by its name.
fn schedule() -> impl TypedValueParser<Value = Schedule> {
    let known = Schedule::ALL.map(|schedule| PossibleValue::new(schedule.name()).help(schedule.about()));
    PossibleValuesParser::new(known)
        .map(|name| Schedule::ALL.into_iter().find(|schedule| schedule.name() == name).unwrap_or_default())
}
