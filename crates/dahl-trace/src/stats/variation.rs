//! Why executions of one codelet vary: which part of their spread goes away when they are grouped by what may
//! matter.
//!
//! The spread is the mean distance of logarithms of times to their median. Factors are taken one after the
//! other, from the work itself to its circumstances: shape, cold or warm, worker, tile, time. Each accounts
//! for what the ones before it left over, so the shares add up, and a tile that always runs on a slow worker
//! is the worker's fault.
//!
//! How much a factor accounts for is corrected for the size of its groups; otherwise any grouping into small
//! groups would explain something.

use super::robust::median;
use super::{Execution, Statistics, grouped};

/// What times may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Shapes, layouts, integer parameters and element type.
    Shape,
    /// Whether data came from outside of the worker's caches.
    Temperature,
    /// Who executed it.
    Worker,
    /// Which task it was, among those of the same shape: its data, or what was executed around it.
    Tile,
    /// When: phases of the machine.
    Time,
    /// Single executions that took more than twice as long as others of their kind.
    Interruption,
}

impl Factor {
    /// The name in a word.
    pub fn name(self) -> &'static str {
        match self {
            Factor::Shape => "shape",
            Factor::Temperature => "temperature",
            Factor::Worker => "worker",
            Factor::Tile => "tile",
            Factor::Time => "time",
            Factor::Interruption => "interruption",
        }
    }
}

/// A factor that matters.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The factor.
    pub factor: Factor,
    /// The share of the spread that it accounts for.
    pub share: f64,
    /// How many times as long the slowest takes as the fastest, in the median.
    pub ratio: f64,
    /// The slowest.
    pub slowest: String,
    /// The fastest.
    pub fastest: String,
}

/// How the times of one codelet, implementation and kind of unit vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// The kind of unit.
    pub unit: String,
    /// Number of executions.
    pub n: usize,
    /// Share of the workers' time within steps.
    pub share: f64,
    /// By what factor an execution is typically off the median.
    pub spread: f64,
    /// What accounts for at least a twentieth of the spread, most first.
    pub causes: Vec<Cause>,
    /// The share of the spread that nothing accounts for.
    pub unexplained: f64,
}

/// Executions below which nothing is said about a group.
const LEAST: usize = 5;
/// Windows into which the time of a trace is divided.
pub(super) const WINDOWS: usize = 16;
/// The least spread and the least share of it that are worth mentioning.
const LEAST_SPREAD: f64 = 0.03;
const LEAST_SHARE: f64 = 0.05;

impl Statistics<'_> {
    /// Why each codelet's executions vary, largest share of the step first. Codelets whose executions are
    /// within some per cent of each other are left out.
    pub fn variations(&self) -> Vec<Variation> {
        let classes = self.classes(|task| (&task.codelet, &task.implementation));
        let groups = grouped(&self.executions, |e| (classes[e.task], self.unit(e.worker)));
        let mut found: Vec<Variation> =
            groups.into_values().filter_map(|group| self.variation(&group)).collect();
        found.sort_by(|a, b| {
            b.share.total_cmp(&a.share).then_with(|| {
                (&a.codelet, &a.implementation, &a.unit).cmp(&(&b.codelet, &b.implementation, &b.unit))
            })
        });
        found
    }

    fn variation(&self, group: &[usize]) -> Option<Variation> {
        let executions: Vec<Execution> = group.iter().map(|&i| self.executions[i]).collect();
        let mut left: Vec<f64> = executions.iter().map(|execution| execution.seconds.ln()).collect();
        let middle = median(&mut left.clone());
        left.iter_mut().for_each(|value| *value -= middle);
        let spread = left.iter().map(|value| value.abs()).sum::<f64>() / left.len() as f64;
        if executions.len() < LEAST || spread < LEAST_SPREAD {
            return None;
        }

        let shapes = self.classes(|task| (&task.version, &task.dtype, &task.footprint));
        let mut causes = Vec::new();
        let mut remaining = 1.0;
        for factor in [Factor::Shape, Factor::Temperature, Factor::Worker, Factor::Tile, Factor::Time] {
            let group_of = |e: &Execution| match factor {
                Factor::Shape => (shapes[e.task], 0),
                Factor::Temperature => (e.kind, 0),
                Factor::Worker => (e.kind, e.worker),
                Factor::Tile => (e.task, e.worker),
                Factor::Time | Factor::Interruption => (self.window(e), e.worker),
            };
            let level_of = |e: &Execution| match factor {
                Factor::Shape => shapes[e.task],
                Factor::Temperature => usize::from(e.is_cold),
                Factor::Worker => e.worker,
                Factor::Tile => e.task,
                Factor::Time | Factor::Interruption => self.window(e),
            };
            let levels = extremes(&executions, &left, level_of);
            let after = take_out(&executions, &mut left, group_of);
            let share = remaining * (1.0 - after).max(0.0);
            remaining -= share;
            if let Some((fastest, slowest, ratio)) = levels
                && share >= LEAST_SHARE
            {
                let name = |e: &Execution| self.level_name(factor, e);
                let (fastest, slowest) = (name(&executions[fastest]), name(&executions[slowest]));
                causes.push(Cause { factor, share, ratio, slowest, fastest });
            }
        }
        let all: f64 = left.iter().map(|value| value.abs()).sum();
        let mut long: Vec<f64> =
            left.iter().copied().filter(|&value| value > std::f64::consts::LN_2).collect();
        let share = remaining * long.iter().sum::<f64>() / all.max(f64::MIN_POSITIVE);
        if share >= LEAST_SHARE {
            remaining -= share;
            let (n, ratio) = (long.len(), median(&mut long).exp());
            let slowest = format!("{n} of {} executions", executions.len());
            let fastest = "the others".to_string();
            causes.push(Cause { factor: Factor::Interruption, share, ratio, slowest, fastest });
        }
        causes.sort_by(|a, b| b.share.total_cmp(&a.share));
        let info = self.info(&executions[0]);
        Some(Variation {
            codelet: info.codelet.clone(),
            implementation: info.implementation.clone(),
            unit: self.unit(executions[0].worker).to_string(),
            n: executions.len(),
            share: self.share(executions.iter().map(|execution| execution.seconds).sum()),
            spread: spread.exp(),
            causes,
            unexplained: remaining,
        })
    }

    /// The window of time that an execution started in.
    pub(super) fn window(&self, execution: &Execution) -> usize {
        let end = self.executions.last().map_or(0.0, |last| last.start);
        let window = (execution.start / end.max(f64::MIN_POSITIVE) * WINDOWS as f64) as usize;
        window.min(WINDOWS - 1)
    }

    fn level_name(&self, factor: Factor, execution: &Execution) -> String {
        let task = self.info(execution);
        match factor {
            Factor::Shape => task.footprint.clone(),
            Factor::Temperature => if execution.is_cold { "cold" } else { "warm" }.to_string(),
            Factor::Worker => format!("worker {}", execution.worker),
            Factor::Tile => format!("tile {} of {} ({})", task.tile.0 + 1, task.tile.1, task.footprint),
            Factor::Time | Factor::Interruption => {
                let end = self.executions.last().map_or(0.0, |last| last.start);
                let window = end / WINDOWS as f64;
                let start = self.window(execution) as f64 * window;
                format!("{:.2} to {:.2} s", start, start + window)
            }
        }
    }
}

/// Subtracts the median of each group, and returns the part of the spread that is left. Groups that are too
/// small to have a median worth the name stay as they are.
fn take_out<K: Ord>(executions: &[Execution], left: &mut [f64], group_of: impl Fn(&Execution) -> K) -> f64 {
    let (mut before, mut after) = (0.0, 0.0);
    for group in grouped(executions, group_of).into_values() {
        let mut values: Vec<f64> = group.iter().map(|&i| left[i]).collect();
        let spread = |values: &[f64]| values.iter().map(|value| value.abs()).sum::<f64>();
        before += spread(&values);
        if group.len() < LEAST {
            after += spread(&values);
            continue;
        }
        let middle = median(&mut values);
        group.iter().for_each(|&i| left[i] -= middle);
        values.iter_mut().for_each(|value| *value -= middle);
        // Values are nearer to their own median than to the true one; without this, any grouping would
        // explain something.
        let n = group.len() as f64;
        after += spread(&values) * (n / (n - 1.0)).sqrt();
    }
    if before > 0.0 { after / before } else { 1.0 }
}

/// An execution of the level with the smallest median, one of that with the largest, and how far apart they
/// are.
fn extremes(
    executions: &[Execution],
    left: &[f64],
    level_of: impl Fn(&Execution) -> usize,
) -> Option<(usize, usize, f64)> {
    let mut levels: Vec<(f64, usize)> = grouped(executions, level_of)
        .into_values()
        .filter(|group| group.len() >= LEAST)
        .map(|group| (median(&mut group.iter().map(|&i| left[i]).collect::<Vec<f64>>()), group[0]))
        .collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (first, last) = (levels.first()?, levels.last()?);
    (first.1 != last.1).then(|| (first.1, last.1, (last.0 - first.0).exp()))
}
