//! Finding out which cut is best on this machine: what there is to choose from, and what each takes.
//!
//! A *subject* is a training step: a model, a batch, an element type. Its *candidates* are ways to cut it (how many samples a task
//! takes, how many tasks add into one partial gradient). Each is measured by running real steps. Nothing here decides for a run:
//! a choice counts when a user has asked for it, is stored by the program, and stays until the user asks again.

mod candidates;

pub use candidates::candidates;

use crate::dataset::{Dataset, Split};
use crate::error::Result;
use crate::model::Sequential;
use crate::train::Trainer;
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{CutOptions, Fingerprint, Planned};
use dahl_runtime::trace::Trace;
use std::time::Duration;

/// A training step to find the best cut for.
#[derive(Clone, Debug)]
pub struct Subject {
    model: Sequential,
    data: Dataset,
    batch: usize,
    dtype: Dtype,
}

/// Images that steps are measured with at least. They lie all over a memory that caches do not hold, as those of a real run do.
const BYTES_OF_IMAGES: usize = 32 << 20;

/// Implementations in another order of preference than the heuristic's. The scalar references are not among them: they are there to
/// be right.
const OTHER_IMPLEMENTATIONS: [&str; 1] = ["flat"];

impl Subject {
    /// A step of a model on batches of this size. The images are made up: no kernel's time depends on them.
    pub fn new(model: &Sequential, batch: usize, dtype: Dtype) -> Result<Subject> {
        let input = model.input();
        let (shape, classes) = ([input[0], input[1], input[2]], model.classes()?);
        let pixels: usize = shape.iter().product();
        let n = (BYTES_OF_IMAGES / pixels.max(1)).clamp(batch, 16 * batch.max(1024));
        let split = |n: usize| {
            // Not all alike, so that nothing is a tie everywhere.
            let byte = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u8;
            Split::new((0..n * pixels).map(byte).collect(), (0..n).map(|i| (i % classes) as u8).collect())
        };
        let (train, test) = (split(n)?, split(1)?);
        let data = Dataset { name: "made up".into(), shape, classes, class_names: Vec::new(), train, test };
        Ok(Subject { model: model.clone(), data, batch, dtype })
    }

    /// Channels, height and width of the images.
    pub fn shape(&self) -> [usize; 3] {
        self.data.shape
    }

    /// Images per step.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The cuts to choose from, the heuristic one first: tiles and groups, and the heuristic's tiles without fusion and by other
    /// implementations, where that makes a difference.
    pub fn candidates(&self) -> Result<Vec<CutOptions>> {
        let mut cuts = candidates(self.batch, self.dtype);
        let mut others = vec![CutOptions { fusion: false, ..CutOptions::default() }];
        for names in OTHER_IMPLEMENTATIONS {
            let mut cut = CutOptions::default();
            cut.set_impls(names)?;
            others.push(cut);
        }
        let tasks = |cut: &CutOptions| -> Result<Vec<(&str, &str)>> {
            let planned = self.plan(cut, 1)?;
            Ok(planned.lowered.tasks().iter().map(|task| (task.codelet, task.implementation)).collect())
        };
        let heuristic = tasks(&cuts[0])?;
        for cut in others {
            if tasks(&cut)? != heuristic {
                cuts.push(cut);
            }
        }
        Ok(cuts)
    }

    /// What a choice for this subject is filed under: the same for every run of such steps, whatever its data and workers.
    pub fn key(&self) -> String {
        choice_key(&self.model, self.batch, self.dtype)
    }

    /// The plan of a step, cut like this, for so many workers.
    pub fn plan(&self, cut: &CutOptions, workers: usize) -> Result<Planned> {
        self.trainer(cut, workers).plan_step(&self.model, &self.data)
    }

    /// Runs steps, at least so many and at least for so long.
    pub fn time(&self, cut: &CutOptions, workers: usize, steps: u64, time: Duration) -> Result<Trace> {
        self.trainer(cut, workers).time_steps(&self.model, &self.data, steps, time)
    }

    fn trainer(&self, cut: &CutOptions, workers: usize) -> Trainer {
        let trainer = Trainer::new(&Machine::with_workers(workers)).batch(self.batch).dtype(self.dtype);
        trainer.cut(cut.clone())
    }
}

/// What a choice for training a model on batches of this size is filed under.
pub fn choice_key(model: &Sequential, batch: usize, dtype: Dtype) -> String {
    format!("{} batch {batch} {dtype}", Fingerprint::of(model.to_toml()))
}
