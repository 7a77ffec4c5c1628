//! What executions cost, why they vary, and what changed between two runs: numbers from traces.
//!
//! Everything is computed from the events of a [`Trace`] and nothing is remembered. Medians and distances to
//! medians are used throughout, on logarithms where times are compared: a core that is taken away for
//! milliseconds makes a few executions a hundred times as long, and must not decide about the rest.
//!
//! The opposite holds too: a core that is taken away now and then does not change medians at all. So a
//! disturbed worker is found by the time it lost (`workers.rs`), a slow one by its medians. A task that
//! another worker took over counts as cold, whatever the plan says.

mod rows;
mod scopes;
mod variation;
mod workers;
mod phases;
mod slow;
mod against;

pub use against::{Against, Change, Match, Only};
pub use phases::Phase;
pub use rows::{By, Row};
pub use scopes::ScopeRow;
pub use slow::{SlowImplementation, SlowReason};
pub use variation::{Cause, Factor, Variation};
pub use workers::SlowWorker;

use dahl_runtime::robust;
use dahl_runtime::trace::{Reason, TaskInfo, Trace};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// One execution of a task.
#[derive(Clone, Copy, Debug)]
struct Execution {
    task: usize,
    worker: usize,
    /// Executions of the same kind do the same work under the same conditions, and should take equally long.
    kind: usize,
    /// By plan, or because another worker took the task over, in whose caches nothing was planned to be.
    is_cold: bool,
    /// Whether the worker was the planned one, where that was planned.
    is_planned: bool,
    step: u32,
    /// Since the beginning of the trace.
    start: f64,
    /// Never 0: at least one tick.
    seconds: f64,
}

/// The executions of a trace, to be asked about.
#[derive(Clone, Debug)]
pub struct Statistics<'a> {
    trace: &'a Trace,
    /// In order of their start.
    executions: Vec<Execution>,
    kernel_seconds: f64,
    idle_seconds: f64,
}

impl<'a> Statistics<'a> {
    /// The statistics of a trace.
    pub fn of(trace: &'a Trace) -> Self {
        let tick = 1.0 / trace.ticks_per_second.max(1e-9);
        let origin = trace.origin();
        let works = classes(&trace.scene.tasks, |task| {
            let TaskInfo { codelet, implementation, algorithm, version, dtype, footprint, .. } = task;
            (codelet, implementation, algorithm, version, dtype, footprint)
        });
        let mut executions = Vec::new();
        for (worker, events) in trace.workers.iter().enumerate() {
            executions.extend(events.iter().map(|event| {
                let task = event.task as usize;
                let info = &trace.scene.tasks[task];
                let is_planned = info.worker.is_none_or(|planned| planned == worker);
                let is_cold = info.is_cold || !is_planned;
                Execution {
                    task,
                    worker,
                    kind: 2 * works[task] + usize::from(is_cold),
                    is_cold,
                    is_planned,
                    step: event.step,
                    start: (event.start - origin) as f64 * tick,
                    seconds: (event.end - event.start).max(1) as f64 * tick,
                }
            }));
        }
        executions.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.worker.cmp(&b.worker)));
        let (kernel_seconds, idle) = trace.seconds();
        // Between epochs the workers wait for the program; that is not part of any step.
        let idle_seconds = idle.iter().sum::<f64>() - idle[Reason::NotReleased as usize];
        Statistics { trace, executions, kernel_seconds, idle_seconds }
    }

    /// Number of executions.
    pub fn n_executions(&self) -> usize {
        self.executions.len()
    }

    /// Number of workers that executed something.
    pub fn n_workers(&self) -> usize {
        self.busy_workers().len()
    }

    /// The workers that executed something.
    pub fn busy_workers(&self) -> Vec<usize> {
        let workers = self.trace.workers.iter().enumerate();
        workers.filter(|(_, events)| !events.is_empty()).map(|(worker, _)| worker).collect()
    }

    /// Seconds that all workers together spent in kernels.
    pub fn kernel_seconds(&self) -> f64 {
        self.kernel_seconds
    }

    /// Seconds that all workers together spent between kernels, within steps.
    pub fn idle_seconds(&self) -> f64 {
        self.idle_seconds
    }

    /// Share of the workers' time within steps that `seconds` of it are.
    fn share(&self, seconds: f64) -> f64 {
        let all = self.kernel_seconds + self.idle_seconds;
        if all > 0.0 { seconds / all } else { 0.0 }
    }

    fn info(&self, execution: &Execution) -> &'a TaskInfo {
        &self.trace.scene.tasks[execution.task]
    }

    /// What kind of unit a worker is.
    fn unit(&self, worker: usize) -> &'a str {
        self.trace.scene.workers.get(worker).map_or("cpu", |worker| worker.kind.as_str())
    }

    /// For each task, the number of its class.
    fn classes<K: Eq + Hash>(&self, key: impl Fn(&'a TaskInfo) -> K) -> Vec<usize> {
        classes(&self.trace.scene.tasks, key)
    }
}

/// For each task, the number of its class; classes are numbered in the order of their first task.
fn classes<'a, K: Eq + Hash>(tasks: &'a [TaskInfo], key: impl Fn(&'a TaskInfo) -> K) -> Vec<usize> {
    let mut numbers = HashMap::new();
    let number = |task| {
        let next = numbers.len();
        *numbers.entry(key(task)).or_insert(next)
    };
    tasks.iter().map(number).collect()
}

/// Indices of `items` by key, in order. Keys have an order too: sums over groups must not depend on chance.
fn grouped<T, K: Ord>(items: &[T], key: impl Fn(&T) -> K) -> BTreeMap<K, Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        groups.entry(key(item)).or_default().push(i);
    }
    groups
}

#[cfg(test)]
mod planted;
