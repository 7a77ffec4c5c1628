//! What all steps of a run share: workers, arrays, plans; and steps that are ready to run.

use super::Trainer;
use super::feed::Feed;
use super::position::Metrics;
use super::report::PlanSummary;
use super::state::{Part, State};
use super::step::{Recipe, Step, StepKind};
use crate::dataset::{Dataset, Split};
use crate::error::Result;
use crate::loss::AnyLoss;
use crate::model::Sequential;
use crate::op::Float;
use dahl_runtime::engine::{Engine, Lookout, Outputs, Ports, Session, Store, Workspace, native};
use dahl_runtime::machine::HOST;
use dahl_runtime::plan::{PlanFile, Planned};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Images that a step of evaluation takes at least, however small the training batches are.
const EVALUATION_BATCH: usize = 256;

/// A model, a data set and workers, computing in `T`.
pub(super) struct Workbench<'a, T> {
    pub trainer: &'a Trainer,
    pub model: &'a Sequential,
    pub data: &'a Dataset,
    pub loss: AnyLoss,
    pub store: Store,
    pub state: State,
    /// The plans of the steps that are prepared.
    pub plans: PlanFile,
    engine: Arc<dyn Engine>,
    /// Steps of different kinds run in turn, so they share their memory.
    pub workspace: Workspace,
    element: PhantomData<T>,
}

impl<'a, T: Float> Workbench<'a, T> {
    pub fn new(trainer: &'a Trainer, model: &'a Sequential, data: &'a Dataset) -> Result<Self> {
        let mut store = Store::new();
        let state = State::new::<T>(&mut store, trainer, model, data)?;
        let engine = match &trainer.engine {
            Some(engine) => Arc::clone(engine),
            None => native(&trainer.machine)?,
        };
        let given = trainer.plans.as_ref().or(trainer.kept_plans.as_ref());
        let plans = PlanFile::new(given.map_or(&*trainer.origin, |plans| plans.origin()));
        let workspace = Workspace::new();
        let (loss, element) = (trainer.loss_of(model), PhantomData);
        Ok(Workbench { trainer, model, data, loss, store, state, plans, engine, workspace, element })
    }

    /// The images of a part in an order, for the steps that follow.
    pub fn feed(&self, part: Part, order: impl Iterator<Item = u32> + Send + 'static) -> Feed {
        Feed::new(self.split(part), order, self.trainer.machine.units.len())
    }

    /// A lookout for cores that other programs use, unless it is settled who executes what.
    pub fn lookout(&self) -> Option<Lookout> {
        self.trainer.evades.then(|| Arc::clone(&self.engine).lookout()).flatten()
    }

    pub fn split(&self, part: Part) -> &'a Split {
        match part {
            Part::Train => &self.data.train,
            Part::Test => &self.data.test,
        }
    }

    /// The sizes of the batches that the images of a part are taken in: all alike, and the rest.
    pub fn batches(&self, part: Part) -> Vec<usize> {
        let n = self.split(part).len();
        let batch = match part {
            Part::Train => self.trainer.batch,
            Part::Test => self.trainer.batch.max(EVALUATION_BATCH),
        };
        let full = batch.min(n).max(1);
        [full, n % full].into_iter().filter(|&size| size > 0).collect()
    }

    /// Steps of an epoch.
    pub fn n_batches(&self) -> usize {
        self.data.train.len().div_ceil(self.batches(Part::Train)[0])
    }

    /// Prepares the steps for all images of a part, full batches first.
    pub fn prepare_all(&mut self, part: Part) -> Result<Vec<Prepared>> {
        let batches = self.batches(part);
        batches.into_iter().map(|n| self.prepare(part, n, kind(part))).collect()
    }

    /// Plans a full training step.
    pub fn plan_full(mut self) -> Result<Planned> {
        let n = self.batches(Part::Train)[0];
        Ok(self.plan(Part::Train, n, StepKind::Train)?.1)
    }

    /// Plans the steps for all images.
    pub fn into_plans(mut self) -> Result<PlanFile> {
        for part in [Part::Train, Part::Test] {
            for n in self.batches(part) {
                self.plan(part, n, kind(part))?;
            }
        }
        Ok(self.plans)
    }

    /// Records, cuts, lowers and places a step, or takes all this from the plans that the trainer was given.
    fn plan(&mut self, part: Part, n: usize, kind: StepKind) -> Result<(Step, Planned)> {
        let Trainer { machine, cut, plans, kept_plans, optimizer, .. } = self.trainer;
        let (model, store, state) = (self.model, &self.store, &self.state);
        let name = kind.name(n);
        // Plan files hold what a run consists of, not what looks into it.
        let is_planned = matches!(kind, StepKind::Train | StepKind::Evaluate);
        // A plan is for the graph that it was made from, with fused tasks or without.
        let planned = plans.as_ref().filter(|_| is_planned).and_then(|plans| plans.fuses(&name));
        let fusion = planned.unwrap_or(self.trainer.fusion.unwrap_or(cut.fusion));
        let plans_of_step = plans.as_ref().filter(|_| is_planned);
        let prospect = plans_of_step.and_then(|plans| plans.prospect(&name, cut.max_groups));
        let prospect = &prospect.unwrap_or_else(|| cut.prospect());
        let (optimizer, loss, dtype) = (&**optimizer, &*self.loss, T::DTYPE);
        let fusions = if fusion { &self.trainer.fusions[..] } else { &[] };
        let recipe = Recipe { model, optimizer, loss, store, state, part, dtype, fusions, prospect };
        let step = Step::record(recipe, n, kind)?;
        // A plan that was asked for is executed or refused; one that a checkpoint brings along need not fit
        // this machine.
        let kept = kept_plans.as_ref().filter(|_| is_planned).and_then(|plans| {
            let planned = plans.plan(&name, &step.graph, machine).ok()?;
            planned.plan.check_machine(machine).ok().map(|()| planned)
        });
        let planned = match (plans, kept) {
            (Some(plans), _) if is_planned => plans.plan(&name, &step.graph, machine)?,
            (_, Some(planned)) => planned,
            _ => Planned::new(&step.graph, cut, |lowered| self.trainer.place(lowered))?,
        };
        planned.plan.check_machine(machine)?;
        if is_planned {
            self.plans.add(&name, &step.graph, &planned, machine)?;
        }
        Ok((step, planned))
    }

    /// Plans a step and binds it to the workers.
    pub fn prepare(&mut self, part: Part, n: usize, kind: StepKind) -> Result<Prepared> {
        let (step, Planned { lowered, plan, .. }) = self.plan(part, n, kind)?;
        // Only full training steps are traced: they are what a run consists of.
        let is_full = kind == StepKind::Train && n == self.batches(Part::Train)[0];
        let trace_capacity = if is_full { self.trainer.trace_capacity } else { 0 };
        let mut session = Session::new_in(&self.workspace, &self.engine, &lowered, &plan, trace_capacity)?;
        session.set_watchdog(self.trainer.watchdog);
        let memory = plan.memory(HOST);
        let plan = PlanSummary {
            n_tasks: lowered.tasks().len(),
            bytes: memory.bytes,
            scratch_bytes: memory.scratch_bytes,
            bytes_unshared: memory.bytes_unshared,
            state_bytes: memory.state_bytes,
        };
        Ok(Prepared { session, step, n, plan })
    }

    /// The weights and statistics as they are now.
    pub fn values(&self) -> (Vec<f64>, Vec<f64>) {
        let wide = |id| self.store.get::<T>(id).iter().map(|value| value.widen());
        let weights = self.state.groups.iter().flat_map(|group| wide(group.weights)).collect();
        (weights, self.state.statistics.map_or(Vec::new(), |id| wide(id).collect()))
    }

    /// Copies everything that training changes.
    pub fn snapshot(&self, copies: &mut Vec<Vec<T>>) {
        copies.resize_with(self.state.trained().count(), Vec::new);
        for (id, copy) in self.state.trained().zip(copies) {
            copy.clear();
            copy.extend_from_slice(self.store.get::<T>(id));
        }
    }

    /// Goes back to what [`Workbench::snapshot`] copied.
    pub fn restore(&mut self, copies: &[Vec<T>]) {
        for (id, copy) in self.state.trained().zip(copies) {
            self.store.get_mut::<T>(id).copy_from_slice(copy);
        }
    }
}

/// What is done with the images of a part.
fn kind(part: Part) -> StepKind {
    match part {
        Part::Train => StepKind::Train,
        Part::Test => StepKind::Evaluate,
    }
}

/// A step that is ready to run on batches of `n` images.
pub(super) struct Prepared {
    pub session: Session,
    pub step: Step,
    pub n: usize,
    pub plan: PlanSummary,
}

impl Prepared {
    /// Runs `count` steps. `feed` fills the ports of each, `collect` learns what it came to; both may end the
    /// run, after the steps that are under way. Returns how many there were.
    pub fn run<T: Float>(
        &mut self,
        store: &mut Store,
        count: u64,
        mut feed: impl FnMut(u64, &Step, &mut Ports<'_>) -> ControlFlow<()>,
        mut collect: impl FnMut(u64, Metrics, &Outputs<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (n, step, handle) = (self.n, &self.step, self.session.handle());
        let done = self.session.run(
            store,
            count,
            |i, ports| {
                if feed(i, step, ports).is_break() {
                    handle.stop();
                }
            },
            |i, outputs| {
                let metrics = step.metrics.as_ref().map_or(Metrics::default(), |metrics| {
                    let metrics = outputs.get::<T>(metrics);
                    Metrics { loss: metrics[0].widen(), correct: metrics[1].widen(), n_images: n }
                });
                if collect(i, metrics, outputs).is_break() {
                    handle.stop();
                }
            },
        )?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::StepInfo;
    use super::*;
    use crate::dataset;
    use dahl_runtime::machine::Machine;

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
            let mut run = Workbench::<f32>::new(&trainer, &model, &data).unwrap();
            // Not every swap leaves a plan that can be executed.
            let Ok(mut step) = run.prepare(Part::Train, 64, StepKind::Train) else { continue };
            n_edits += 1;
            let steps = 5;
            let images: Vec<u32> = (0..64).collect();
            let info = StepInfo { number: 0, rate: 0.1, seed: 1 };
            let mut feed = run.feed(Part::Train, [].into_iter());
            let fed = |_, step: &Step, ports: &mut Ports<'_>| feed.fill::<f32>(step, ports, &images, info);
            step.run::<f32>(&mut run.store, steps as u64, fed, |_, _, _| ControlFlow::Continue(())).unwrap();
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
