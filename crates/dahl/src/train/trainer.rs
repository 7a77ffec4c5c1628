//! The training loop.

use super::step::{State, Step, StepKind};
use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::random::Stream;
use dahl_runtime::array::{Dtype, Element};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::Lowered;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{CutOptions, Plan, PlanFile, Planned};
use dahl_runtime::schedule::Policy;
use dahl_runtime::trace::{Trace, Usage};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    pub fn plan(self, lowered: &Lowered, n_workers: usize) -> Plan {
        match self {
            Schedule::Replay => Plan::heuristic(lowered, n_workers),
            Schedule::Fixed => Plan::fixed(lowered, n_workers),
            Schedule::Eager => Plan::open(lowered, Policy::Eager),
            Schedule::Steal => Plan::open(lowered, Policy::Steal),
        }
    }
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
    plans: Option<Arc<PlanFile>>,
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
    /// The plans of all steps, as they were executed.
    pub plans: PlanFile,
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
            plans: None,
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

    /// Executes these plans, whatever cut and schedule say: read from a file, or made by [`Trainer::make_plans`]. They must
    /// hold every step of the run.
    pub fn plan(mut self, plans: PlanFile) -> Self {
        self.plans = Some(Arc::new(plans));
        self
    }

    /// The plans that training a model on a data set would execute, for a file.
    pub fn make_plans(&self, model: &Sequential, data: &Dataset) -> Result<PlanFile> {
        self.check(model, data)?;
        let mut model = model.clone();
        if model.weights().is_none() {
            model.initialise(self.seed)?;
        }
        match self.dtype {
            Dtype::F32 => Run::<f32>::new(self, &model, data)?.into_plans(&model),
            Dtype::F64 => Run::<f64>::new(self, &model, data)?.into_plans(&model),
            other => Err(Error::setting(format!("training computes in f32 or f64, not in {other}"))),
        }
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
            if split.is_empty() || split.image_bytes() != channels * height * width {
                let (n, bytes) = (split.len(), split.image_bytes());
                let message = format!("{}: {n} {name} images of {bytes} bytes cannot be used", data.name);
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
        let mut training = run.prepare_all(model, Part::Train)?;
        let mut evaluation = run.prepare_all(model, Part::Test)?;
        let plan = training[0].plan;
        let plans = std::mem::take(&mut run.plans);
        let mut report = Report { plan, plans, epochs: Vec::new(), trace: Trace::default() };
        let evaluation_order: Vec<u32> = (0..test as u32).collect();
        for epoch in 1..=self.epochs {
            let order = Stream::new(self.seed, u64::MAX - epoch as u64).permutation(train);
            let start = Instant::now();
            let sums = run_all::<T>(&mut training, &mut run.store, &order, self.learning_rate)?;
            let seconds = start.elapsed().as_secs_f64();
            let tests = run_all::<T>(&mut evaluation, &mut run.store, &evaluation_order, 0.0)?;
            let trace = training[0].session.take_trace();
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

impl Part {
    fn kind(self) -> StepKind {
        match self {
            Part::Train => StepKind::Train,
            Part::Test => StepKind::Evaluate,
        }
    }
}

/// What all steps of a run share.
struct Run<'a, T> {
    trainer: &'a Trainer,
    pool: Arc<Pool>,
    store: Store,
    train: State,
    test: State,
    n_train: usize,
    n_test: usize,
    /// The plans of the steps that are prepared.
    plans: PlanFile,
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
            for (i, pixels) in store.get_mut::<u8>(images).chunks_exact_mut(split.image_bytes()).enumerate() {
                split.read_into(i, pixels)?;
            }
            let labels = store.add::<u8>(&format!("{name}_labels"), [split.len()])?;
            store.get_mut::<u8>(labels).copy_from_slice(split.labels());
            Ok(State { weights, images, labels })
        };
        let (train, test) = (add("train", &data.train)?, add("test", &data.test)?);
        let pool = Arc::new(Pool::new(&trainer.machine.units));
        let (n_train, n_test) = (data.train.len(), data.test.len());
        let plans = PlanFile::new(trainer.plans.as_ref().map_or("heuristic", |plans| plans.origin()));
        Ok(Run {
            trainer,
            pool,
            store,
            train,
            test,
            n_train,
            n_test,
            plans,
            element: std::marker::PhantomData,
        })
    }

    /// The sizes of the batches that the images of a part are taken in: all alike, and the rest.
    fn batches(&self, part: Part) -> Vec<usize> {
        let (n, batch) = match part {
            Part::Train => (self.n_train, self.trainer.batch),
            Part::Test => (self.n_test, self.trainer.batch.max(256)),
        };
        let full = batch.min(n).max(1);
        [full, n % full].into_iter().filter(|&size| size > 0).collect()
    }

    /// Prepares the steps for all images of a part, full batches first.
    fn prepare_all(&mut self, model: &Sequential, part: Part) -> Result<Vec<Prepared>> {
        let batches = self.batches(part);
        batches.into_iter().map(|n| self.prepare(model, part, n, part.kind())).collect()
    }

    /// Plans the steps for all images.
    fn into_plans(mut self, model: &Sequential) -> Result<PlanFile> {
        for part in [Part::Train, Part::Test] {
            for n in self.batches(part) {
                self.plan(model, part, n, part.kind())?;
            }
        }
        Ok(self.plans)
    }

    /// Records, cuts, lowers and places a step, or takes all this from the plans that the trainer was given.
    fn plan(&mut self, model: &Sequential, part: Part, n: usize, kind: StepKind) -> Result<(Step, Planned)> {
        let state = match part {
            Part::Train => self.train,
            Part::Test => self.test,
        };
        let step = Step::record(model, &self.store, state, T::DTYPE, n, kind)?;
        let name = match kind {
            StepKind::Train => format!("train.{n}"),
            StepKind::TrainDumped => format!("train_dumped.{n}"),
            StepKind::Evaluate => format!("evaluate.{n}"),
        };
        let Trainer { machine, cut, schedule, plans, .. } = self.trainer;
        let planned = match plans {
            Some(plans) => plans.plan(&name, &step.graph, machine)?,
            None => Planned::new(&step.graph, cut, |lowered| schedule.plan(lowered, machine.units.len()))?,
        };
        planned.plan.check_machine(machine)?;
        self.plans.add(&name, &step.graph, &planned, machine)?;
        Ok((step, planned))
    }

    /// Plans a step and binds it to the workers.
    fn prepare(&mut self, model: &Sequential, part: Part, n: usize, kind: StepKind) -> Result<Prepared> {
        let (step, Planned { lowered, plan, .. }) = self.plan(model, part, n, kind)?;
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

/// Runs all images of `order`, each step as many full batches as are left.
fn run_all<T: Element + FromF64>(
    steps: &mut [Prepared],
    store: &mut Store,
    order: &[u32],
    rate: f64,
) -> Result<Sums> {
    let mut sums = Sums::default();
    let mut left = order;
    for step in steps {
        let (now, later) = left.split_at(left.len() - left.len() % step.n.max(1));
        sums.add(step.run::<T>(store, now, rate)?);
        left = later;
    }
    Ok(sums)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset;

    /// Of the first step of a file, the tasks of each worker in order, and those that float.
    fn written(text: &str) -> (Vec<Vec<u32>>, Vec<u32>) {
        let (mut order, mut floating) = (vec![Vec::new(); 2], Vec::new());
        for line in text.lines().skip_while(|line| !line.starts_with("order")).skip(1) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["run", task, .., "floating"] => floating.push(task.parse().unwrap()),
                ["run", task, .., unit] => order[unit.parse::<usize>().unwrap()].push(task.parse().unwrap()),
                _ => break,
            }
        }
        (order, floating)
    }

    #[test]
    fn workers_execute_what_an_edited_plan_says_in_its_order() {
        let data = dataset::digits();
        let mut model = Sequential::seed(data.shape, data.classes);
        model.initialise(1).unwrap();
        let trainer = Trainer::new(&Machine::with_workers(2));
        let plans = trainer.make_plans(&model, &data).unwrap();
        let lines: Vec<String> = plans.to_string().lines().map(str::to_string).collect();
        let run = |line: &String| line.starts_with("run ");
        let first = lines.iter().position(run).unwrap();
        let n_runs = lines[first..].iter().take_while(|line| run(line)).count();
        let mut n_edits = 0;
        let unit = |at: usize| lines[at].split(' ').skip(5).collect::<Vec<_>>();
        for at in first..first + n_runs {
            let Some(next) = (at + 1..first + n_runs).find(|&next| unit(next) == unit(at)) else { continue };
            let mut edited = lines.clone();
            edited.swap(at, next);
            let text = edited.join("\n");
            let (order, floating) = written(&text);
            let trainer = trainer.clone().plan(PlanFile::parse("edited", &text).unwrap());
            let mut run = Run::<f32>::new(&trainer, &model, &data).unwrap();
            // Not every swap leaves a plan that can be executed.
            let Ok(mut step) = run.prepare(&model, Part::Train, 64, StepKind::Train) else { continue };
            n_edits += 1;
            let steps = 5;
            step.run::<f32>(&mut run.store, &(0..64 * steps as u32).collect::<Vec<_>>(), 0.1).unwrap();
            let trace = step.session.take_trace();
            for (events, order) in trace.workers.iter().zip(order) {
                let executed = events.iter().map(|event| event.task).filter(|task| !floating.contains(task));
                assert_eq!(executed.collect::<Vec<_>>(), order.repeat(steps));
            }
            for task in floating {
                let events = trace.workers.iter().flatten().filter(|event| event.task == task);
                assert_eq!(events.count(), steps);
            }
        }
        assert!(n_edits > 5, "{n_edits} swaps could be executed");
    }
}
