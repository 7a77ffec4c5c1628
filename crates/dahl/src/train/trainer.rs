//! The training loop.

use super::step::{State, Step, StepKind};
use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::random::Stream;
use dahl_runtime::array::{Dtype, Element};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::lower;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Cut, CutOptions, Plan};
use dahl_runtime::trace::{Trace, Usage};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who decides which worker executes what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A plan made before the run, replayed for every step.
    #[default]
    Replay,
    /// Whoever is free takes what is ready.
    Eager,
}

/// Trains models: settings first, then [`Trainer::fit`].
#[derive(Clone, Debug)]
pub struct Trainer {
    machine: Machine,
    learning_rate: f64,
    batch: usize,
    epochs: usize,
    seed: u64,
    dtype: Dtype,
    schedule: Schedule,
    cut: CutOptions,
    trace_capacity: usize,
    watchdog: Option<Duration>,
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
    /// Seconds of training, without the evaluation.
    pub seconds: f64,
    /// Training images per second.
    pub images_per_s: f64,
    /// How the workers' time was spent, as far as the trace reaches back.
    pub usage: Usage,
}

/// What is known about a step before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSummary {
    /// Tasks per training step.
    pub n_tasks: usize,
    /// Bytes that the steps need beside weights and data: MEM_MAX.
    pub bytes: usize,
    /// The same, if no two buffers shared memory.
    pub bytes_unshared: usize,
    /// Bytes of weights and data.
    pub state_bytes: usize,
}

/// What training came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The plan of a full batch.
    pub plan: PlanSummary,
    /// The epochs.
    pub epochs: Vec<Epoch>,
    /// The newest full training steps of the last epoch, as many as the workers remember
    /// ([`Trainer::trace_capacity`]).
    pub trace: Trace,
}

/// What a step of [`Trainer::replay_batches`] came to.
#[derive(Clone, Debug, Default)]
pub struct StepDump {
    /// The loss of each step, before its update.
    pub losses: Vec<f64>,
    /// The gradients of the first step, flat.
    pub gradients: Vec<f64>,
}

impl Trainer {
    /// Training on a machine, with settings that suit small images: SGD at 0.1, batches of 64, one epoch, f32.
    pub fn new(machine: &Machine) -> Self {
        Trainer {
            machine: machine.clone(),
            learning_rate: 0.1,
            batch: 64,
            epochs: 1,
            seed: 1,
            dtype: Dtype::F32,
            schedule: Schedule::Replay,
            cut: CutOptions::default(),
            trace_capacity: 1 << 16,
            watchdog: None,
        }
    }

    /// Plain stochastic gradient descent with this learning rate.
    pub fn sgd(mut self, learning_rate: f64) -> Self {
        self.learning_rate = learning_rate;
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

    /// What initial weights and the order of images are drawn from.
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
        self.cut = cut;
        self
    }

    /// How many events each worker keeps; 0 turns tracing off.
    pub fn trace_capacity(mut self, events: usize) -> Self {
        self.trace_capacity = events;
        self
    }

    /// Ends training with an error that says who is stuck where if no task finishes for this long; see
    /// [`Session::set_watchdog`].
    pub fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.watchdog = limit;
        self
    }

    /// Trains a model on a data set, from its weights or, if it has none, from initial ones drawn by the seed.
    pub fn fit(&self, model: &mut Sequential, data: &Dataset) -> Result<Report> {
        self.fit_with(model, data, |_| {})
    }

    /// The same, telling about each epoch as soon as it is over.
    pub fn fit_with(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        on_epoch: impl FnMut(&Epoch),
    ) -> Result<Report> {
        self.check(model, data)?;
        if model.weights().is_none() {
            model.initialise(self.seed)?;
        }
        match self.dtype {
            Dtype::F32 => self.fit_in::<f32>(model, data, on_epoch),
            Dtype::F64 => self.fit_in::<f64>(model, data, on_epoch),
            other => Err(Error::setting(format!("training computes in f32 or f64, not in {other}"))),
        }
    }

    /// Trains on exactly these batches (indices into the training images), one step each.
    pub fn replay_batches(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<StepDump> {
        self.check(model, data)?;
        if model.weights().is_none() {
            model.initialise(self.seed)?;
        }
        match self.dtype {
            Dtype::F32 => self.replay_in::<f32>(model, data, batches),
            Dtype::F64 => self.replay_in::<f64>(model, data, batches),
            other => Err(Error::setting(format!("training computes in f32 or f64, not in {other}"))),
        }
    }

    fn check(&self, model: &Sequential, data: &Dataset) -> Result<()> {
        if self.batch == 0 {
            return Err(Error::setting("the batch must have at least one image"));
        }
        if !(self.learning_rate.is_finite() && self.learning_rate >= 0.0) {
            let rate = self.learning_rate;
            return Err(Error::setting(format!("the learning rate must be a number from 0 up, not {rate}")));
        }
        if model.input()[..] != data.shape {
            let (images, input) = (data.shape, model.input());
            return Err(Error::setting(format!(
                "{} has images of {images:?}, the model takes {input}",
                data.name
            )));
        }
        for (name, split) in [("training", &data.train), ("test", &data.test)] {
            let [channels, height, width] = data.shape;
            if split.is_empty() || split.images.len() != split.len() * channels * height * width {
                let (images, labels) = (split.images.len(), split.len());
                let message =
                    format!("{}: {images} bytes of {name} images do not go with {labels} labels", data.name);
                return Err(Error::setting(message));
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

    fn fit_in<T: Element + FromF64>(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        mut on_epoch: impl FnMut(&Epoch),
    ) -> Result<Report> {
        let mut run = Run::<T>::new(self, model, data)?;
        let (train, test) = (data.train.len(), data.test.len());
        let full = run.prepare(model, Part::Train, self.batch.min(train), StepKind::Train)?;
        let rest = match train % self.batch {
            0 => None,
            n if n == train => None,
            n => Some(run.prepare(model, Part::Train, n, StepKind::Train)?),
        };
        let evaluation_batch = self.batch.max(256).min(test);
        let evaluation = run.prepare(model, Part::Test, evaluation_batch, StepKind::Evaluate)?;
        let evaluation_rest = match test % evaluation_batch.max(1) {
            0 => None,
            n => Some(run.prepare(model, Part::Test, n, StepKind::Evaluate)?),
        };
        let mut report = Report { plan: full.plan, epochs: Vec::new(), trace: Trace::default() };
        let (mut full, mut rest) = (full, rest);
        let mut evaluations: Vec<Prepared> =
            [Some(evaluation), evaluation_rest].into_iter().flatten().collect();
        for epoch in 1..=self.epochs {
            let order = Stream::new(self.seed, u64::MAX - epoch as u64).permutation(train);
            let start = Instant::now();
            let mut sums = full.run::<T>(&mut run.store, &order, self.learning_rate)?;
            if let Some(rest) = &mut rest {
                sums.add(rest.run::<T>(
                    &mut run.store,
                    &order[order.len() - rest.n..],
                    self.learning_rate,
                )?);
            }
            let seconds = start.elapsed().as_secs_f64();
            let mut tests = Sums::default();
            let mut next = 0;
            for evaluation in &mut evaluations {
                let end = test - (test - next) % evaluation.n;
                let order: Vec<u32> = (next as u32..end as u32).collect();
                tests.add(evaluation.run::<T>(&mut run.store, &order, 0.0)?);
                next = end;
            }
            let trace = full.session.take_trace();
            let epoch = Epoch {
                epoch,
                loss: sums.loss / sums.images as f64,
                accuracy: sums.correct / sums.images as f64,
                test_loss: tests.loss / tests.images.max(1) as f64,
                test_accuracy: tests.correct / tests.images.max(1) as f64,
                seconds,
                images_per_s: sums.images as f64 / seconds,
                usage: trace.usage(),
            };
            // One trace at a time: they are large.
            if epoch.epoch == self.epochs {
                report.trace = trace;
            }
            on_epoch(&epoch);
            report.epochs.push(epoch);
            if !epoch.loss.is_finite() {
                let message = format!(
                    "the loss is {} in epoch {}: use a smaller learning rate",
                    epoch.loss, epoch.epoch
                );
                return Err(Error::setting(message));
            }
        }
        run.write_back(model)?;
        Ok(report)
    }

    fn replay_in<T: Element + FromF64>(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<StepDump> {
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
        let mut run = Run::<T>::new(self, model, data)?;
        let mut prepared = run.prepare(model, Part::Train, n, StepKind::TrainDumped)?;
        let mut dump = StepDump::default();
        let (step, rate) = (&prepared.step, T::from_f64(self.learning_rate));
        prepared.session.run(
            &mut run.store,
            batches.len() as u64,
            |i, ports| {
                ports.get_mut::<u32>(&step.index).copy_from_slice(&batches[i as usize]);
                if let Some(learning_rate) = &step.learning_rate {
                    ports.get_mut::<T>(learning_rate)[0] = rate;
                }
            },
            |i, outputs| {
                dump.losses.push(outputs.get::<T>(&step.metrics)[0].to_f64());
                if let (0, Some(gradients)) = (i, &step.gradients) {
                    dump.gradients = outputs.get::<T>(gradients).iter().map(|g| g.to_f64()).collect();
                }
            },
        )?;
        run.write_back(model)?;
        Ok(dump)
    }
}

/// Which images a step takes.
#[derive(Clone, Copy)]
enum Part {
    Train,
    Test,
}

/// What all steps of a run share.
struct Run<'a, T> {
    trainer: &'a Trainer,
    pool: Arc<Pool>,
    store: Store,
    train: State,
    test: State,
    n_train: usize,
    element: std::marker::PhantomData<T>,
}

impl<'a, T: Element + FromF64> Run<'a, T> {
    fn new(trainer: &'a Trainer, model: &Sequential, data: &Dataset) -> Result<Self> {
        let mut store = Store::new();
        let values: Vec<T> = model.weights().unwrap_or(&[]).iter().map(|&w| T::from_f64(w)).collect();
        let weights = store.add::<T>("weights", [values.len()])?;
        store.get_mut::<T>(weights).copy_from_slice(&values);
        let mut add = |name: &str, split: &Split| -> Result<State> {
            let [channels, height, width] = data.shape;
            let images =
                store.add::<u8>(&format!("{name}_images"), [split.len(), channels, height, width])?;
            store.get_mut::<u8>(images).copy_from_slice(&split.images);
            let labels = store.add::<u8>(&format!("{name}_labels"), [split.len()])?;
            store.get_mut::<u8>(labels).copy_from_slice(&split.labels);
            Ok(State { weights, images, labels })
        };
        let (train, test) = (add("train", &data.train)?, add("test", &data.test)?);
        let pool = Arc::new(Pool::new(&trainer.machine.units));
        let n_train = data.train.len();
        Ok(Run { trainer, pool, store, train, test, n_train, element: std::marker::PhantomData })
    }

    /// Records, cuts, lowers, places and binds a step.
    fn prepare(&mut self, model: &Sequential, part: Part, n: usize, kind: StepKind) -> Result<Prepared> {
        let state = match part {
            Part::Train => self.train,
            Part::Test => self.test,
        };
        let step = Step::record(model, &self.store, state, T::DTYPE, n, kind)?;
        let cut = Cut::heuristic(&step.graph, &self.trainer.cut)?;
        let lowered = lower(&step.graph, &cut)?;
        let plan = match self.trainer.schedule {
            Schedule::Replay => Plan::heuristic(&lowered, self.pool.n_workers()),
            Schedule::Eager => Plan::open(&lowered),
        };
        // Only full training steps are traced: they are what a run consists of.
        let is_full = kind == StepKind::Train && n == self.trainer.batch.min(self.n_train);
        let trace_capacity = if is_full { self.trainer.trace_capacity } else { 0 };
        let mut session = Session::new(&self.pool, &lowered, &plan, trace_capacity)?;
        session.set_watchdog(self.trainer.watchdog);
        let memory = plan.memory();
        let plan = PlanSummary {
            n_tasks: lowered.tasks().len(),
            bytes: memory.bytes,
            bytes_unshared: memory.bytes_unshared,
            state_bytes: memory.state_bytes,
        };
        Ok(Prepared { session, step, n, plan })
    }

    fn write_back(&self, model: &mut Sequential) -> Result<()> {
        model.set_weights(self.store.get::<T>(self.train.weights).iter().map(|w| w.to_f64()).collect())
    }
}

/// A step that is ready to run on batches of `n` images.
struct Prepared {
    session: Session,
    step: Step,
    n: usize,
    plan: PlanSummary,
}

impl Prepared {
    /// Runs as many full batches as `order` has images for.
    fn run<T: Element + FromF64>(&mut self, store: &mut Store, order: &[u32], rate: f64) -> Result<Sums> {
        let mut sums = Sums::default();
        let (n, step) = (self.n, &self.step);
        if n == 0 {
            return Ok(sums);
        }
        self.session.run(
            store,
            (order.len() / n) as u64,
            |i, ports| {
                let first = i as usize * n;
                ports.get_mut::<u32>(&step.index).copy_from_slice(&order[first..first + n]);
                if let Some(learning_rate) = &step.learning_rate {
                    ports.get_mut::<T>(learning_rate)[0] = T::from_f64(rate);
                }
            },
            |_, outputs| {
                let metrics = outputs.get::<T>(&step.metrics);
                sums.add(Sums {
                    loss: metrics[0].to_f64() * n as f64,
                    correct: metrics[1].to_f64(),
                    images: n,
                });
            },
        )?;
        Ok(sums)
    }
}

/// Sums over images.
#[derive(Clone, Copy, Default)]
struct Sums {
    loss: f64,
    correct: f64,
    images: usize,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.loss += other.loss;
        self.correct += other.correct;
        self.images += other.images;
    }
}

/// Conversion between the master copy of the weights and the type that is computed in; exact from and to `f64`.
trait FromF64 {
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl FromF64 for f32 {
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl FromF64 for f64 {
    fn from_f64(value: f64) -> f64 {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
}
