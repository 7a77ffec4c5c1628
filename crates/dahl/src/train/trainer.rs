//! The settings of training, and what can be done with them.

use super::fit::{self, fit};
use super::report::{Evaluation, Event, Report, StepDump};
use super::state::Part;
use super::step::{StepInfo, StepKind};
use super::timed::{self, Turns};
use super::workbench::Workbench;
use super::{Checkpoint, FolderLock, saved};
use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::op::Float;
use crate::optim::{LearningRate, Optimizer};
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::graph::Lowered;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, PlanFile, Planned};
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::trace::Trace;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who decides which worker executes what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A plan made before the run, replayed for every step. A worker that waits may take over tasks that float.
    #[default]
    Replay,
    /// A plan made before the run, in which nothing floats.
    Fixed,
    /// Whoever is free takes the most urgent task that is ready.
    Eager,
    /// Every worker keeps what it made ready, and takes from others when it has nothing.
    Steal,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Schedule; 4] = [Schedule::Replay, Schedule::Fixed, Schedule::Eager, Schedule::Steal];

    /// The plan of a graph for this many workers.
    pub fn plan(self, lowered: &Lowered, n_workers: usize) -> dahl_runtime::Result<Plan> {
        match self {
            Schedule::Replay => Plan::heuristic(lowered, n_workers),
            Schedule::Fixed => Plan::fixed(lowered, n_workers),
            Schedule::Eager => Plan::open(lowered, SchedulerKind::Eager),
            Schedule::Steal => Plan::open(lowered, SchedulerKind::Steal),
        }
    }
}

/// Trains models: settings first, then [`Trainer::fit`].
#[derive(Clone, Debug)]
pub struct Trainer {
    pub(super) machine: Machine,
    pub(super) optimizer: Optimizer,
    pub(super) rate: LearningRate,
    pub(super) batch: usize,
    pub(super) epochs: usize,
    pub(super) max_steps: Option<u64>,
    pub(super) seed: u64,
    pub(super) dtype: Dtype,
    pub(super) schedule: Schedule,
    pub(super) cut: CutOptions,
    /// Where the cut comes from.
    pub(super) origin: String,
    /// Whether tasks are fused, if that was said.
    pub(super) fusion: Option<bool>,
    pub(super) trace_capacity: usize,
    pub(super) plans: Option<Arc<PlanFile>>,
    pub(super) watchdog: Option<Duration>,
    pub(super) checkpoint: Option<CheckpointSettings>,
    /// The lock of the folder of checkpoints, where the program has taken it.
    pub(super) lock: Option<Arc<FolderLock>>,
    pub(super) resume: Option<Arc<Checkpoint>>,
    /// The plans of the checkpoint that training goes on from, which are executed as far as they fit.
    pub(super) kept_plans: Option<Arc<PlanFile>>,
    pub(super) notes: BTreeMap<String, String>,
}

/// Where and when checkpoints are written.
#[derive(Clone, Debug)]
pub(super) struct CheckpointSettings {
    pub dir: PathBuf,
    /// Steps between two, beside those after each epoch.
    pub every: Option<u64>,
}

/// Does something in the element type of a trainer.
macro_rules! in_dtype {
    ($trainer:expr, $T:ident => $body:expr) => {
        match $trainer.dtype {
            Dtype::F32 => {
                type $T = f32;
                $body
            }
            Dtype::F64 => {
                type $T = f64;
                $body
            }
            other => Err(Error::setting(format!("training computes in f32 or f64, not in {other}"))),
        }
    };
}

impl Trainer {
    /// Training on a machine, with settings that suit small images: SGD at 0.1, batches of 64, one epoch, f32.
    pub fn new(machine: &Machine) -> Self {
        Trainer {
            machine: machine.clone(),
            optimizer: Optimizer::SGD,
            rate: LearningRate::constant(0.1),
            batch: 64,
            epochs: 1,
            max_steps: None,
            seed: 1,
            dtype: Dtype::F32,
            schedule: Schedule::Replay,
            cut: CutOptions::default(),
            origin: "heuristic".to_string(),
            fusion: None,
            trace_capacity: 1 << 16,
            plans: None,
            watchdog: None,
            checkpoint: None,
            lock: None,
            resume: None,
            kept_plans: None,
            notes: BTreeMap::new(),
        }
    }

    /// Plain stochastic gradient descent with this learning rate.
    pub fn sgd(self, learning_rate: f64) -> Self {
        self.optimizer(Optimizer::SGD).learning_rate(LearningRate::constant(learning_rate))
    }

    /// How gradients become new weights.
    pub fn optimizer(mut self, optimizer: Optimizer) -> Self {
        self.optimizer = optimizer;
        self
    }

    /// The learning rate of each step.
    pub fn learning_rate(mut self, rate: LearningRate) -> Self {
        self.rate = rate;
        self
    }

    /// Images per step.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Passes over the training images.
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.epochs = epochs;
        self
    }

    /// Ends training after this many steps, if the epochs have not ended before.
    pub fn max_steps(mut self, steps: Option<u64>) -> Self {
        self.max_steps = steps;
        self
    }

    /// What initial weights, the order of images and dropout are drawn from.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The element type to compute in: `F32` or `F64`.
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Who decides which worker executes what. Bits do not depend on it.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// How tasks are cut. Bits depend on it.
    pub fn cut(mut self, cut: CutOptions) -> Self {
        (self.cut, self.origin) = (cut, "given".to_string());
        self
    }

    /// Where the cut comes from, for whoever looks at the plan.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = origin.into();
        self
    }

    /// Whether tasks that hand arrays to each other become one, where there is a codelet for that. They do, unless this says
    /// otherwise or training goes on from a checkpoint without. The results are the same to the last bit, as long as all
    /// numbers are finite.
    pub fn fusion(mut self, fusion: bool) -> Self {
        self.fusion = Some(fusion);
        self
    }

    /// How many events each worker keeps; 0 turns tracing off.
    pub fn trace_capacity(mut self, events: usize) -> Self {
        self.trace_capacity = events;
        self
    }

    /// Executes these plans, whatever cut, fusion and schedule say: read from a file, or made by [`Trainer::make_plans`]. They must
    /// hold every step of the run.
    pub fn plan(mut self, plans: PlanFile) -> Self {
        self.plans = Some(Arc::new(plans));
        self
    }

    /// Ends training with an error that says who is stuck where if no task finishes for this long; see
    /// [`Session::set_watchdog`](dahl_runtime::engine::Session::set_watchdog).
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.watchdog = limit;
        self
    }

    /// Writes checkpoints into a folder: after each epoch, when training is stopped, and if asked for, after every so many
    /// steps. [`Trainer::fit`] locks the folder for as long as it lasts ([`FolderLock`]), and fails at once where another run has it
    /// or nothing can be written there.
    pub fn checkpoint(mut self, dir: impl Into<PathBuf>, every: Option<u64>) -> Self {
        self.checkpoint =
            Some(CheckpointSettings { dir: dir.into(), every: every.filter(|&steps| steps > 0) });
        self
    }

    /// Uses a lock on the folder of checkpoints that was taken before, so that nobody else saves there between a look into it
    /// and the training.
    pub fn lock(mut self, lock: FolderLock) -> Self {
        self.lock = Some(Arc::new(lock));
        self
    }

    /// Goes on from a checkpoint, to the same bits as if training had never been interrupted. Model, data and settings
    /// must be those of the checkpoint; [`Trainer::fit`] refuses it otherwise and names every difference.
    ///
    /// The plans of the checkpoint are executed if they fit this machine and no others were given. Otherwise the steps are
    /// planned anew, and refused if they would be cut in another way, since bits depend on that.
    pub fn resume(mut self, checkpoint: Checkpoint) -> Self {
        self.resume = Some(Arc::new(checkpoint));
        self
    }

    /// Adds a setting to the checkpoints that are written, for the program that reads them.
    pub fn note(mut self, key: &str, value: impl Into<String>) -> Self {
        self.notes.insert(format!("note.{key}"), value.into());
        self
    }

    /// The plans that training a model on a data set would execute, for a file.
    pub fn make_plans(&self, model: &Sequential, data: &Dataset) -> Result<PlanFile> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => Workbench::<T>::new(&planned, &model, data)?.into_plans())
    }

    /// The plan of a full training step, for a look at its tasks and its memory.
    pub fn plan_step(&self, model: &Sequential, data: &Dataset) -> Result<Planned> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => Workbench::<T>::new(&planned, &model, data)?.plan_full())
    }

    /// Runs training steps for as long as it takes to know their time, and returns their trace; see
    /// [`Trace::usage`](dahl_runtime::trace::Trace::usage). The model stays as it is. At least `steps` steps are run, and then as many as there are
    /// until `time` is over.
    pub fn time_steps(
        &self,
        model: &Sequential,
        data: &Dataset,
        steps: u64,
        time: Duration,
    ) -> Result<Trace> {
        Ok(self.time_in_turns(model, data, |turn| turn(steps, time))??.trace)
    }

    /// The same for a program that does something else in between: everything is prepared once, and `with` gets a function that runs
    /// steps whenever it is called. Between two calls the workers sleep.
    pub fn time_in_turns<R>(
        &self,
        model: &Sequential,
        data: &Dataset,
        with: impl FnOnce(&mut Turns<'_>) -> R,
    ) -> Result<R> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        in_dtype!(self, T => timed::in_turns::<T, R>(self, &model, data, with))
    }

    /// What the first step of [`Trainer::fit`] comes to. The model stays as it is.
    pub fn first_step(&self, model: &Sequential, data: &Dataset) -> Result<StepDump> {
        let mut order = fit::order(self.seed, 1, data.train.len());
        order.truncate(self.batch);
        self.replay_batches(&mut model.clone(), data, &[order])
    }

    /// Trains a model on a data set, from its weights or, if it has none, from initial ones drawn by the seed.
    pub fn fit(&self, model: &mut Sequential, data: &Dataset) -> Result<Report> {
        self.fit_with(model, data, |_| ControlFlow::Continue(()))
    }

    /// The same, telling about everything as soon as it happens. `Break` ends training after the steps that are under
    /// way; the model keeps what it has learned, and a checkpoint is written if there is a folder for it.
    pub fn fit_with(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Report> {
        self.check(model, data)?;
        let _lock = self.locked()?;
        self.initialise(model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => fit::<T>(&planned, model, data, &mut on_event))
    }

    /// How well a model does on the test images.
    pub fn evaluate(&self, model: &Sequential, data: &Dataset) -> Result<Evaluation> {
        self.check(model, data)?;
        trained(model)?;
        in_dtype!(self, T => self.evaluate_in::<T>(model, data))
    }

    /// The probability of each class for each of these images, row by row. Images are bytes in CHW order, one after the
    /// other.
    pub fn predict(&self, model: &Sequential, images: &[u8]) -> Result<Vec<Vec<f64>>> {
        trained(model)?;
        let pixels = model.input().len();
        if pixels == 0 || images.is_empty() || !images.len().is_multiple_of(pixels) {
            let (n, input) = (images.len(), model.input());
            return Err(Error::setting(format!("{n} bytes are no images of {input}: {pixels} bytes each")));
        }
        let n = images.len() / pixels;
        let split = Split::new(images.to_vec(), vec![0; n])?;
        let shape = [model.input()[0], model.input()[1], model.input()[2]];
        let classes = model.classes()?;
        let (name, class_names) = ("images".to_string(), Vec::new());
        let data = Dataset { name, shape, classes, class_names, train: split.clone(), test: split };
        in_dtype!(self, T => self.predict_in::<T>(model, &data))
    }

    /// Trains on exactly these batches (indices into the training images), one step each.
    pub fn replay_batches(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<StepDump> {
        self.check(model, data)?;
        self.initialise(model)?;
        let Some(n) = batches.first().map(Vec::len) else { return Ok(StepDump::default()) };
        if let Some(other) = batches.iter().find(|batch| batch.len() != n) {
            return Err(Error::setting(format!(
                "batches of {n} and of {} images cannot be mixed",
                other.len()
            )));
        }
        let out_of_range = batches.iter().flatten().find(|&&index| index as usize >= data.train.len());
        if let Some(index) = out_of_range {
            return Err(Error::setting(format!("image {index} of {} does not exist", data.train.len())));
        }
        let (dump, (weights, statistics)) = in_dtype!(self, T => self.replay_in::<T>(model, data, batches))?;
        model.set_weights(weights)?;
        model.set_statistics(statistics)?;
        Ok(dump)
    }

    /// Steps of the whole run, with this many in an epoch.
    pub(super) fn n_steps(&self, n_batches: usize) -> u64 {
        let all = (self.epochs as u64).saturating_mul(n_batches as u64);
        self.max_steps.map_or(all, |steps| steps.min(all))
    }

    /// The lock of the folder of checkpoints, if there is one and the program has not taken it already.
    fn locked(&self) -> Result<Option<FolderLock>> {
        let Some(CheckpointSettings { dir, .. }) = &self.checkpoint else { return Ok(None) };
        match &self.lock {
            Some(lock) if lock.folder() == dir => Ok(None),
            _ => FolderLock::take(dir).map(Some),
        }
    }

    fn initialise(&self, model: &mut Sequential) -> Result<()> {
        match model.weights() {
            Some(_) => Ok(()),
            None => model.initialise(self.seed),
        }
    }

    fn check(&self, model: &Sequential, data: &Dataset) -> Result<()> {
        if self.batch == 0 {
            return Err(Error::setting("the batch must have at least one image"));
        }
        self.rate.check()?;
        self.optimizer.check()?;
        if model.input()[..] != data.shape {
            let (images, input) = (data.shape, model.input());
            return Err(Error::setting(format!(
                "{} has images of {images:?}, the model takes {input}",
                data.name
            )));
        }
        for (name, split) in [("training", &data.train), ("test", &data.test)] {
            let [channels, height, width] = data.shape;
            if split.is_empty() || split.image_bytes() != channels * height * width {
                let (n, bytes) = (split.len(), split.image_bytes());
                let message = format!("{}: {n} {name} images of {bytes} bytes cannot be used", data.name);
                return Err(Error::setting(message));
            }
            if let Some(label) = split.labels().iter().find(|&&label| usize::from(label) >= data.classes) {
                let message = format!("one of the {name} images is of class {label}, and classes go up to");
                let last = data.classes.saturating_sub(1);
                return Err(Error::setting(format!("{}: {message} {last}", data.name)));
            }
        }
        let classes = model.classes()?;
        if classes < data.classes {
            let message =
                format!("{} has {} classes, the model tells {classes} apart", data.name, data.classes);
            return Err(Error::setting(message));
        }
        Ok(())
    }

    fn evaluate_in<T: Float>(&self, model: &Sequential, data: &Dataset) -> Result<Evaluation> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut steps = run.prepare_all(Part::Test)?;
        let sums = fit::evaluate(&mut run, &mut steps)?;
        let (loss, accuracy) = sums.means();
        Ok(Evaluation { loss, accuracy, n_images: sums.n_images })
    }

    fn predict_in<T: Float>(&self, model: &Sequential, data: &Dataset) -> Result<Vec<Vec<f64>>> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut rows = Vec::new();
        let mut next = 0;
        for n in run.batches(Part::Test) {
            let mut prepared = run.prepare(Part::Test, n, StepKind::Predict)?;
            let probabilities = prepared.step.dumped[0];
            let (first, count) = (next, (data.test.len() - next) / n);
            prepared.run::<T>(
                &mut run.store,
                count as u64,
                |i, step, ports| {
                    let first = first + i as usize * n;
                    let indices: Vec<u32> = (first..first + n).map(|image| image as u32).collect();
                    step.feed::<T>(ports, &indices, StepInfo::NONE);
                    ControlFlow::Continue(())
                },
                |_, _, outputs| {
                    let values = outputs.get::<T>(&probabilities);
                    let row = |row: &[T]| row.iter().map(|value| value.widen()).collect();
                    rows.extend(values.chunks_exact(values.len() / n).map(row));
                    ControlFlow::Continue(())
                },
            )?;
            next += count * n;
        }
        Ok(rows)
    }

    #[expect(clippy::type_complexity, reason = "a dump, and the weights and statistics after it")]
    fn replay_in<T: Float>(
        &self,
        model: &Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<(StepDump, (Vec<f64>, Vec<f64>))> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut prepared = run.prepare(Part::Train, batches[0].len(), StepKind::TrainDumped)?;
        let (mut dump, mut bad) = (StepDump::default(), None);
        let (logits, gradients) = (prepared.step.dumped[0], prepared.step.dumped[1]);
        let n_steps = batches.len() as u64;
        let mut feed = run.feed(Part::Train, batches.concat().into_iter());
        let ran = prepared.run::<T>(
            &mut run.store,
            n_steps,
            |i, step, ports| {
                let info = StepInfo { number: i, rate: self.rate.at(i, n_steps), seed: self.seed };
                feed.fill::<T>(step, ports, &batches[i as usize], info)
            },
            |i, metrics, outputs| {
                if bad.is_some() || !metrics.loss.is_finite() {
                    bad.get_or_insert((i + 1, metrics.loss));
                    return ControlFlow::Break(());
                }
                dump.losses.push(metrics.loss);
                if i == 0 {
                    let wide = |var| outputs.get::<T>(var).iter().map(|value| value.widen()).collect();
                    (dump.logits, dump.gradients) = (wide(&logits), wide(&gradients));
                }
                ControlFlow::Continue(())
            },
        );
        feed.check()?;
        ran?;
        if let Some((step, loss)) = bad {
            return Err(Error::setting(format!(
                "the loss is {loss} at step {step}; use a smaller learning rate"
            )));
        }
        Ok((dump, run.values()))
    }
}

/// Refuses a model that cannot know anything yet.
fn trained(model: &Sequential) -> Result<()> {
    match model.weights() {
        Some(_) => Ok(()),
        None => Err(Error::setting("the model has no weights yet: train it, or load some")),
    }
}
