//! What a step of a plan will take, before it runs.
//!
//! Each task gets the time that [`Models`] expects under its condition; then some steps are executed on a
//! virtual clock (`simulate.rs`) until steps take equally long. A floating task that another worker takes
//! over is cold there. Where the order is open, the plan's scheduler decides.
//!
//! Noise is not simulated. With several workers, a real step also waits for whoever was slower this time, so
//! a prediction is a few percent too low. Beside the steady step it gives the critical path with the reason
//! of each wait, and how busy the workers are.

use super::key::{Condition, Key};
use super::models::{Basis, Estimate, Models};
use super::simulate::{Execution, OnDemand, Order, Setup, Simulated, Stop, simulate};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Lowered, TaskId};
use crate::machine::{KindId, Machine, MeasuredRates};
use crate::plan::{Interleaved, Order as PlanOrder, Plan};
use crate::schedule::{Allowed, copy_seconds};
use std::collections::HashMap;

pub use super::simulate::Why;

/// What the runtime adds to the time in kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds per task on its worker: finding it, calling it, recording it.
    pub task_seconds: f64,
    /// Seconds until a worker sees what another one has done.
    pub wait_seconds: f64,
}

impl Default for Costs {
    /// What a server core of some gigahertz takes with a trace on, which is also what histories are measured
    /// with.
    fn default() -> Self {
        Costs { task_seconds: 60e-9, wait_seconds: 200e-9 }
    }
}

impl Costs {
    /// A runtime that takes no time.
    pub const NONE: Costs = Costs { task_seconds: 0.0, wait_seconds: 0.0 };

    /// What was measured on a machine; of what was not, the usual.
    pub fn of(measured: &MeasuredRates) -> Costs {
        let usual = Costs::default();
        Costs { task_seconds: measured.task_seconds.unwrap_or(usual.task_seconds), ..usual }
    }
}

/// One task on the critical path, or a copy between memories that is made for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The task.
    pub task: TaskId,
    /// Who executes it.
    pub worker: usize,
    /// Seconds in its kernel, or for copying.
    pub seconds: f64,
    /// Seconds between the end of what it waited for and its start.
    pub wait_seconds: f64,
    /// Why it did not start earlier.
    pub why: Why,
}

/// How many tasks' times come from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bases {
    /// MeasuredRates under this condition.
    pub history: usize,
    /// MeasuredRates under another condition.
    pub scaled: usize,
    /// From other shapes of the same code, by a law or by a ratio.
    pub regression: usize,
    /// Guessed.
    pub guess: usize,
}

impl Bases {
    fn count(&mut self, basis: &Basis) {
        match basis {
            Basis::History { .. } => self.history += 1,
            Basis::Scaled { .. } => self.scaled += 1,
            Basis::Regression { .. } | Basis::Ratio { .. } => self.regression += 1,
            Basis::Guess => self.guess += 1,
        }
    }
}

/// What a step of a plan will take.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds from the end of a step to the end of the next, once steps take equally long.
    pub step_seconds: f64,
    /// Seconds that the first step takes, which overlaps with none before it.
    pub first_step_seconds: f64,
    /// What a step takes at least: tasks of which each waited for the one before, over the length of one
    /// step. It may reach back into earlier steps.
    pub critical_path: Vec<Link>,
    /// The share of its time that each worker spends in kernels.
    pub busy: Vec<f64>,
    /// What each task is expected to take on its own worker.
    pub tasks: Vec<Estimate>,
    /// Where these expectations come from.
    pub bases: Bases,
}

impl Prediction {
    /// Seconds in the kernels of the critical path.
    pub fn critical_seconds(&self) -> f64 {
        self.critical_path.iter().map(|link| link.seconds).sum()
    }
}

/// Steps of the first try.
const MIN_STEPS: usize = 12;
/// Steps of the last.
const MAX_STEPS: usize = 96;
/// Executions of a try after the first, at most: each of them is remembered. Where a step has this many
/// tasks, the first steps tell enough.
const MAX_EXECUTIONS: usize = 1 << 20;
/// Steps after the last that counts, so that the end of the run does not.
const TAIL: usize = 2;
/// Two halves of a run that differ by less than this are alike.
const STEADY: f64 = 1e-3;

/// Predicts the steps of a plan on this machine. Fails for a plan that was not made for the graph or for so
/// many units, and for one whose scheduler breaks a rule.
pub fn predict(
    lowered: &Lowered,
    plan: &Plan,
    machine: &Machine,
    models: &Models,
    costs: Costs,
) -> Result<Prediction> {
    plan.check(lowered)?;
    machine.check()?;
    plan.check_units(machine)?;
    let units = &machine.units;
    let allowed = Allowed::of_codes(lowered, machine)?;
    let (estimates, open_seconds) = estimates(lowered, plan, machine, models);
    let edges = plan.edges(lowered);
    let n_tasks = lowered.tasks().len();
    let order = match plan.order() {
        PlanOrder::Planned(placement) => {
            let with_copies = Interleaved::new(n_tasks, plan.copies());
            let seconds = estimates.iter().map(|[home, away]| [home.seconds, away.seconds]);
            Order::Planned {
                lists: placement.order.iter().map(|tasks| with_copies.of(tasks)).collect(),
                floating: &placement.floating,
                allowed,
                seconds: seconds.chain(copying_seconds(plan, machine).map(|seconds| [seconds; 2])).collect(),
            }
        }
        PlanOrder::Open(policy) => Order::Open {
            appoint: Box::new(|| {
                let appointed = policy.appoint(lowered, machine, &edges, allowed.clone());
                (appointed, (machine.memories.len() > 1).then(|| OnDemand::new(lowered, machine)))
            }),
            seconds: open_seconds,
            kinds: units.iter().map(|unit| unit.kind).collect(),
        },
    };
    let setup = Setup {
        order,
        edges: &edges,
        memories: units.iter().map(|unit| unit.memory).collect(),
        n_tasks,
        depth: lowered.depth(),
        costs,
    };
    let mut bases = Bases::default();
    estimates.iter().for_each(|[home, _]| bases.count(&home.basis));
    let tasks = estimates.into_iter().map(|[home, _]| home).collect();
    let steady = Steady::find(&setup).map_err(|stop| match stop {
        Stop::Fault(fault) => fault.error(|task| format!("{:?}", lowered.tasks()[task as usize])),
        Stop::Circle => {
            let message = "the plan cannot be executed: some of its tasks wait for each other in a circle";
            Error::new(ErrorKind::Plan, message)
        }
    })?;
    let task_of = |node: TaskId| match (node as usize).checked_sub(n_tasks) {
        Some(copy) => plan.copies()[copy].before,
        None => node,
    };
    Ok(Prediction {
        step_seconds: steady.step_seconds,
        first_step_seconds: steady.run.ends.first().copied().unwrap_or(0.0),
        critical_path: steady.critical_path(task_of),
        busy: steady.busy(units.len()),
        tasks,
        bases,
    })
}

/// What each copy of the plan takes.
fn copying_seconds(plan: &Plan, machine: &Machine) -> impl Iterator<Item = f64> {
    let (blocks, _) = plan.replicas();
    plan.copies().iter().map(|copy| {
        let bytes = blocks.blocks[copy.block].range.len();
        copy_seconds(machine, bytes, copy.from, copy.to)
    })
}

/// What each task takes on its own worker, and on another; and, where the order is open, for each kind of
/// units what it takes there.
fn estimates(
    lowered: &Lowered,
    plan: &Plan,
    machine: &Machine,
    models: &Models,
) -> (Vec<[Estimate; 2]>, Vec<Vec<f64>>) {
    let homes = plan.placement().map(|placement| placement.workers());
    let cold = plan.cold(lowered, machine);
    let workers = machine.units.len() as u32;
    let first = |code: &str| (0..machine.units.len()).find(|&unit| machine.runs(unit, code)).unwrap_or(0);
    let mut known: HashMap<(Key, bool), Estimate> = HashMap::new();
    let mut of = |id: usize, kind: KindId, is_cold: bool| {
        let task = &lowered.tasks()[id];
        let key = Key::of_task(task, &machine.kinds[kind].name);
        let estimate = |(key, is_cold): &(Key, bool)| {
            models.estimate(key, Condition { is_cold: *is_cold, workers }, task.flops, task.bytes())
        };
        *known.entry((key, is_cold)).or_insert_with_key(estimate)
    };
    let ids = 0..lowered.tasks().len();
    let kind_of = |id: usize| {
        let unit = homes.as_ref().map_or_else(|| first(lowered.tasks()[id].code), |homes| homes[id]);
        machine.units[unit].kind
    };
    let each = ids.clone().map(|id| [of(id, kind_of(id), cold[id]), of(id, kind_of(id), true)]).collect();
    let mut of_kind = |kind: KindId| ids.clone().map(|id| of(id, kind, cold[id]).seconds).collect();
    let by_kind = match homes {
        Some(_) => Vec::new(),
        None => (0..machine.kinds.len()).map(&mut of_kind).collect(),
    };
    (each, by_kind)
}

/// A run whose steps take equally long in the end.
struct Steady {
    run: Simulated,
    /// The steps that count.
    steps: std::ops::Range<usize>,
    step_seconds: f64,
}

impl Steady {
    fn find(setup: &Setup<'_>) -> std::result::Result<Steady, Stop> {
        let mut n_steps = MIN_STEPS;
        loop {
            let run = simulate(setup, n_steps + TAIL)?;
            let (quarter, half) = (n_steps / 4, n_steps / 2);
            let rate = |from: usize, to: usize| (run.ends[to - 1] - run.ends[from - 1]) / (to - from) as f64;
            let (earlier, step_seconds) = (rate(quarter, half), rate(half, n_steps));
            let is_steady = (earlier - step_seconds).abs() <= STEADY * step_seconds;
            let is_too_long = (2 * n_steps + TAIL).saturating_mul(setup.order.n_nodes()) > MAX_EXECUTIONS;
            if is_steady || n_steps >= MAX_STEPS || is_too_long {
                return Ok(Steady { run, steps: half..n_steps, step_seconds });
            }
            n_steps *= 2;
        }
    }

    fn busy(&self, n_workers: usize) -> Vec<f64> {
        let mut seconds = vec![0.0; n_workers];
        for execution in self.run.executions.iter().filter(|one| self.steps.contains(&one.step)) {
            seconds[execution.worker] += execution.seconds;
        }
        let total = self.step_seconds * self.steps.len() as f64;
        seconds.iter().map(|seconds| if total > 0.0 { seconds / total } else { 0.0 }).collect()
    }

    /// From the last task of the last step that counts, each time to what it waited for, as far back as a
    /// step is long.
    fn critical_path(&self, task_of: impl Fn(TaskId) -> TaskId) -> Vec<Link> {
        let executions = &self.run.executions;
        let of_last = executions.iter().enumerate().filter(|(_, one)| one.step + 1 == self.steps.end);
        let last = of_last.max_by(|(_, a), (_, b)| a.end.total_cmp(&b.end));
        let Some((mut index, Execution { end, .. })) = last else { return Vec::new() };
        let begin = end - self.step_seconds;
        let mut path = Vec::new();
        loop {
            let Execution { node, worker, start, seconds, cause: (cause, why), .. } = executions[index];
            let free = cause.map_or(0.0, |cause| executions[cause].end);
            path.push(Link { task: task_of(node), worker, seconds, wait_seconds: start - free, why });
            // The one that ends where the step begins is not part of it; clocks are not exact.
            match cause {
                Some(cause) if executions[cause].end > begin + 1e-6 * self.step_seconds => index = cause,
                _ => break,
            }
        }
        path.reverse();
        path
    }
}
