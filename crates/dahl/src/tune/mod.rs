//! Finding out which cut is best on this machine: what there is to choose from, and what each takes.
//!
//! A *subject* is a training step: a model, a batch, an element type. Its *candidates* are ways to cut it
//! (how many samples a task takes, how many tasks add into one partial gradient). Each is measured by running
//! real steps. Nothing here decides for a run: a choice counts when a user has asked for it, is stored by the
//! program, and stays until the user asks again.
//!
//! Whole steps are measured rather than kernels, because what a cut costs is in caches, waits and sums as
//! much as in kernels. The number of workers plays no part in a choice, since bits may not depend on it: a
//! cut is scored by its geometric mean over one worker and all of them.

mod candidates;

pub use candidates::candidates;

use crate::dataset::{Dataset, Split};
use crate::error::Result;
use crate::model::Sequential;
use crate::train::{Trainer, Turns};
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::hash::Fingerprint;
use dahl_runtime::machine::{CPU, Machine};
use dahl_runtime::plan::Planned;
use dahl_runtime::trace::Trace;
use std::collections::BTreeSet;
use std::time::Duration;

/// A training step to find the best cut for.
#[derive(Clone, Debug)]
pub struct Subject {
    model: Sequential,
    data: Dataset,
    batch: usize,
    dtype: Dtype,
}

/// Images that steps are measured with at least. They lie all over a memory that caches do not hold, as those
/// of a real run do.
const BYTES_OF_IMAGES: usize = 32 << 20;

/// Implementations in another order of preference than the heuristic's. The scalar references are not among
/// them: they are there to be right.
const OTHER_IMPLEMENTATIONS: [&str; 1] = ["lanes"];

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

    /// The cuts to choose from, the heuristic one first: tiles and groups, and the heuristic's tiles without
    /// fusion and by other implementations, where that makes a difference.
    pub fn candidates(&self) -> Result<Vec<CutOptions>> {
        let mut cuts = candidates(self.batch, self.dtype);
        let mut others = vec![CutOptions { fusion: false, ..dahl_op::default_cut() }];
        for names in OTHER_IMPLEMENTATIONS {
            let mut cut = dahl_op::default_cut();
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

    /// What a choice for this subject is filed under: the same for every run of such steps, whatever its data
    /// and workers.
    pub fn key(&self) -> String {
        choice_key(&self.model, self.batch, self.dtype, &Machine::with_workers(1))
    }

    /// The plan of a step, cut like this, for so many workers.
    pub fn plan(&self, cut: &CutOptions, workers: usize) -> Result<Planned> {
        self.trainer(cut, workers).plan_step(&self.model, &self.data)
    }

    /// Runs steps, at least so many and at least for so long.
    pub fn time(&self, cut: &CutOptions, workers: usize, steps: u64, time: Duration) -> Result<Trace> {
        self.trainer(cut, workers).time_steps(&self.model, &self.data, steps, time)
    }

    /// Prepares steps and lets `with` run them whenever it wants to; see [`Trainer::time_in_turns`].
    pub fn time_in_turns<R>(
        &self,
        cut: &CutOptions,
        workers: usize,
        with: impl FnOnce(&mut Turns<'_>) -> R,
    ) -> Result<R> {
        self.trainer(cut, workers).time_in_turns(&self.model, &self.data, with)
    }

    /// What a step computes and moves at the least, however it is cut and whoever computes it.
    pub fn least(&self) -> Result<Least> {
        let planned = self.plan(&CutOptions { fusion: false, ..dahl_op::default_cut() }, 1)?;
        let products = planned.lowered.tasks().iter().filter(|task| PRODUCTS.contains(&task.codelet));
        Ok(Least {
            flops: products.map(|task| task.flops).sum(),
            image_bytes: self.batch * (self.data.train.image_bytes() + 1),
            weight_bytes: self.model.n_weights()? * self.dtype.bytes(),
        })
    }

    /// How many images there are to take batches from.
    pub fn n_images(&self) -> usize {
        self.data.train.len()
    }

    /// How many classes the images belong to.
    pub fn classes(&self) -> usize {
        self.data.classes
    }

    /// The bytes of all images and their labels.
    pub fn data_bytes(&self) -> usize {
        [&self.data.train, &self.data.test].map(|split| split.len() * (split.image_bytes() + 1)).iter().sum()
    }

    fn trainer(&self, cut: &CutOptions, workers: usize) -> Trainer {
        let trainer = Trainer::new(&Machine::with_workers(workers)).batch(self.batch).dtype(self.dtype);
        trainer.cut(cut.clone())
    }
}

/// What no way of computing a step can do without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Least {
    /// Operations of convolutions and matrix products, a multiply-add counting 2.
    pub flops: f64,
    /// The images of the batch and their labels, as they lie in memory.
    pub image_bytes: usize,
    /// The weights.
    pub weight_bytes: usize,
}

/// The codelets whose operations count for [`Least`]. What others do (maxima, sums, the update) is little
/// beside them.
const PRODUCTS: [&str; 6] = ["conv2d", "conv2d_dx", "conv2d_dw", "dense", "dense_dx", "dense_dw"];

/// What a choice for training a model on batches of this size is filed under. Machines whose units run other
/// codes than that of cores have choices of their own.
pub fn choice_key(model: &Sequential, batch: usize, dtype: Dtype, machine: &Machine) -> String {
    let codes: BTreeSet<&str> = machine.kinds.iter().map(|kind| &kind.code[..]).collect();
    let others: String =
        codes.into_iter().filter(|&code| code != CPU).map(|code| format!(" {code}")).collect();
    format!("{} batch {batch} {dtype}{others}", Fingerprint::of(model.to_toml()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_runtime::machine::Kind;

    #[test]
    fn the_least_work_of_a_step_is_that_of_its_products() {
        let cases =
            [("seed", 275_808.0, 13_610, 1, Dtype::F32), ("lenet5", 2_263_920.0, 61_706, 17, Dtype::F64)];
        for (name, flops, n_weights, batch, dtype) in cases {
            let model = Sequential::builtin(name, [1, 28, 28], 10).unwrap();
            let subject = Subject::new(&model, batch, dtype).unwrap();
            let expected = Least {
                flops: batch as f64 * flops,
                image_bytes: batch * 785,
                weight_bytes: n_weights * dtype.bytes(),
            };
            assert_eq!(subject.least().unwrap(), expected, "{name} {batch}");
            assert_eq!(subject.data_bytes(), (subject.n_images() + 1) * 785);
        }
    }

    #[test]
    fn machines_that_run_other_codes_have_choices_of_their_own() {
        let model = Sequential::builtin("seed", [1, 8, 8], 3).unwrap();
        let key = |machine: &Machine| choice_key(&model, 5, Dtype::F32, machine);
        let (cores, kind) = (Machine::with_workers(2), Kind { code: "other".to_string(), ..Kind::cpu() });
        assert!(key(&cores).ends_with("batch 5 f32"));
        assert_eq!(key(&cores.clone().with_kind(1, Kind::cpu().named("slow"))), key(&cores));
        assert_eq!(key(&cores.clone().with_kind(1, kind.named("other"))), format!("{} other", key(&cores)));
    }

    #[test]
    fn turns_run_as_many_steps_as_they_are_asked_for() {
        let model = Sequential::builtin("seed", [1, 8, 8], 3).unwrap();
        let subject = Subject::new(&model, 5, Dtype::F32).unwrap();
        let turns = subject.time_in_turns(&dahl_op::default_cut(), 1, |turn| {
            [9, 3, 70].map(|steps| turn(steps, Duration::ZERO).unwrap())
        });
        for (turn, steps) in turns.unwrap().iter().zip([9, 3, 70]) {
            // Those that are under way when enough are done are finished too.
            assert!(turn.n_steps >= steps && turn.seconds > 0.0, "{} of {steps}", turn.n_steps);
            // Of the last of them the trace does not know the end.
            assert!(turn.trace.usage().n_steps > 0);
        }
    }
}
