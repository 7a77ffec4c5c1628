//! What a step of a plan will take, before it runs.
//!
//! Each task gets the time that [`Models`] expects under its condition; then some steps are executed on a
//! virtual clock (`simulate.rs`) until steps take equally long. A floating task that another worker takes
//! over is cold there.
//!
//! Noise is not simulated. With several workers, a real step also waits for whoever was slower this time, so
//! a prediction is a few percent too low. Beside the steady step it gives the critical path with the reason
//! of each wait, and how busy the workers are.

use super::key::{Condition, Key};
use super::models::{Basis, Estimate, Models};
use super::simulate::{Execution, Setup, Simulated, simulate};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Edge, Lowered, TaskId};
use crate::machine::{Machine, MeasuredRates};
use crate::plan::{Order, Plan};
use crate::schedule::{Classes, steps_under_way};
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

/// One task on the critical path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The task.
    pub task: TaskId,
    /// Who executes it.
    pub worker: usize,
    /// Seconds in its kernel.
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
/// many units.
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
    let estimates = estimates(lowered, plan, machine, models);
    let edges: Vec<Edge> = plan.task_edges(lowered, true);
    let copying = copying_seconds(lowered, plan, machine);
    let n_tasks = lowered.tasks().len();
    let (lists, depth) = match plan.order() {
        Order::Planned(placement) => (Some(&placement.order[..]), lowered.depth()),
        Order::Open(_) => (None, lowered.depth().min(steps_under_way(&edges))),
    };
    let is_floating = |task: usize| plan.placement().is_some_and(|plan| plan.is_floating(task as TaskId));
    let setup = Setup {
        lists,
        floating: (0..n_tasks).map(is_floating).collect(),
        edges: &edges,
        memories: units.iter().map(|unit| unit.memory).collect(),
        classes: Classes::new(lowered, machine)?,
        seconds: estimates
            .iter()
            .zip(copying)
            .map(|([home, away], copying)| [home.seconds + copying, away.seconds + copying])
            .collect(),
        depth,
        costs,
    };
    let mut bases = Bases::default();
    estimates.iter().for_each(|[home, _]| bases.count(&home.basis));
    let tasks = estimates.into_iter().map(|[home, _]| home).collect();
    let Some(steady) = Steady::find(&setup) else {
        let message = "the plan cannot be executed: some of its tasks wait for each other in a circle";
        return Err(Error::new(ErrorKind::Plan, message));
    };
    Ok(Prediction {
        step_seconds: steady.step_seconds,
        first_step_seconds: steady.run.ends.first().copied().unwrap_or(0.0),
        critical_path: steady.critical_path(),
        busy: steady.busy(units.len()),
        tasks,
        bases,
    })
}

/// What the copies take that are made right before each task.
fn copying_seconds(lowered: &Lowered, plan: &Plan, machine: &Machine) -> Vec<f64> {
    let mut seconds = vec![0.0; lowered.tasks().len()];
    let (blocks, _) = plan.replicas();
    for copy in plan.copies() {
        if let Some(link) = machine.link(copy.from, copy.to) {
            seconds[copy.before as usize] += link.seconds(blocks.blocks[copy.block].range.len());
        }
    }
    seconds
}

/// What each task takes on its own worker, and on another.
fn estimates(lowered: &Lowered, plan: &Plan, machine: &Machine, models: &Models) -> Vec<[Estimate; 2]> {
    let homes = plan.placement().map(|placement| placement.workers());
    let cold = plan.cold(lowered, machine);
    let workers = machine.units.len() as u32;
    let first = |code: &str| (0..machine.units.len()).find(|&unit| machine.runs(unit, code)).unwrap_or(0);
    let mut known: HashMap<(Key, bool), Estimate> = HashMap::new();
    let mut of = |id: usize, is_cold: bool| {
        let task = &lowered.tasks()[id];
        let unit = homes.as_ref().map_or_else(|| first(task.code), |homes| homes[id]);
        let key = Key::of_task(task, &machine.kind_of(unit).name);
        let estimate = |(key, is_cold): &(Key, bool)| {
            models.estimate(key, Condition { is_cold: *is_cold, workers }, task.flops, task.bytes())
        };
        *known.entry((key, is_cold)).or_insert_with_key(estimate)
    };
    (0..lowered.tasks().len()).map(|id| [of(id, cold[id]), of(id, true)]).collect()
}

/// A run whose steps take equally long in the end.
struct Steady {
    run: Simulated,
    /// The steps that count.
    steps: std::ops::Range<usize>,
    step_seconds: f64,
}

impl Steady {
    fn find(setup: &Setup<'_>) -> Option<Steady> {
        let mut n_steps = MIN_STEPS;
        loop {
            let run = simulate(setup, n_steps + TAIL)?;
            let (quarter, half) = (n_steps / 4, n_steps / 2);
            let rate = |from: usize, to: usize| (run.ends[to - 1] - run.ends[from - 1]) / (to - from) as f64;
            let (earlier, step_seconds) = (rate(quarter, half), rate(half, n_steps));
            let is_steady = (earlier - step_seconds).abs() <= STEADY * step_seconds;
            let is_too_long = (2 * n_steps + TAIL).saturating_mul(setup.seconds.len()) > MAX_EXECUTIONS;
            if is_steady || n_steps >= MAX_STEPS || is_too_long {
                return Some(Steady { run, steps: half..n_steps, step_seconds });
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
    fn critical_path(&self) -> Vec<Link> {
        let executions = &self.run.executions;
        let of_last = executions.iter().enumerate().filter(|(_, one)| one.step + 1 == self.steps.end);
        let last = of_last.max_by(|(_, a), (_, b)| a.end.total_cmp(&b.end));
        let Some((mut index, Execution { end, .. })) = last else { return Vec::new() };
        let begin = end - self.step_seconds;
        let mut path = Vec::new();
        loop {
            let Execution { task, worker, start, seconds, cause: (cause, why), .. } = executions[index];
            let free = cause.map_or(0.0, |cause| executions[cause].end);
            path.push(Link { task, worker, seconds, wait_seconds: start - free, why });
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
