//! Plans measured in turn. Machines that are shared have phases of minutes in which everything takes longer, so plans are compared
//! within a round, in which each of them runs for a moment, and over several rounds.

use crate::measured::learn;
use anyhow::{Context, Result};
use dahl::tune::Subject;
use dahl_runtime::machine::Machine;
use dahl_runtime::perf::{Costs, Models, Sources, predict};
use dahl_runtime::plan::{CutOptions, Planned};
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

/// A plan and what it took, round by round.
pub struct Timed {
    pub cut: CutOptions,
    pub workers: usize,
    planned: Planned,
    /// The median step, in seconds.
    pub steps: Vec<f64>,
    /// What the models said before each round, in seconds.
    pub predictions: Vec<f64>,
    /// Where that came from in the first round.
    pub sources: Sources,
    /// The share of the median step outside of kernels.
    pub overheads: Vec<f64>,
}

/// Steps that are run at least: some to warm up, and some to take the median of.
const MIN_STEPS: u64 = 4;

impl Timed {
    pub fn new(subject: &Subject, cut: &CutOptions, workers: usize) -> Result<Timed> {
        let planned = subject.plan(cut, workers).context("planning failed")?;
        let (steps, predictions, overheads) = (Vec::new(), Vec::new(), Vec::new());
        let sources = Sources::default();
        Ok(Timed { cut: cut.clone(), workers, planned, steps, predictions, sources, overheads })
    }

    pub fn n_tasks(&self) -> usize {
        self.planned.lowered.tasks().len()
    }

    /// Predicts the step, runs some, and learns from them.
    pub fn round(&mut self, subject: &Subject, time: Duration, models: &mut Models) -> Result<()> {
        let Planned { lowered, plan, .. } = &self.planned;
        let units = Machine::with_workers(self.workers).units;
        let prediction = predict(lowered, plan, &units, models, Costs::default())?;
        if self.steps.is_empty() {
            self.sources = prediction.sources;
        }
        let trace = subject.time(&self.cut, self.workers, MIN_STEPS, time).context("measuring failed")?;
        let usage = trace.usage();
        self.predictions.push(prediction.step_seconds);
        self.steps.push(usage.median_step_seconds);
        self.overheads.push(usage.median_overhead);
        learn(models, &trace);
        Ok(())
    }

    pub fn step(&self) -> f64 {
        median(self.steps.clone())
    }

    /// How long it takes compared with another plan: the median over the rounds.
    pub fn ratio_to(&self, other: &Timed) -> f64 {
        median(self.steps.iter().zip(&other.steps).map(|(own, other)| own / other).collect())
    }

    /// How far predictions were from what was measured, as a share of it, after each of the first rounds had been learned from.
    pub fn error(&self) -> f64 {
        let errors = self.predictions.iter().zip(&self.steps).skip(1).map(|(said, was)| said / was - 1.0);
        median(errors.collect())
    }
}

/// Measures all plans in turn, for so many rounds, or for fewer if these take longer than the limit; three at least.
pub fn rounds(
    subject: &Subject,
    plans: &mut [Timed],
    n: usize,
    effort: Effort,
    models: &mut Models,
    bar: &ProgressBar,
) -> Result<()> {
    let start = Instant::now();
    for round in 0..n {
        if round >= MIN_ROUNDS && start.elapsed() >= effort.limit {
            break;
        }
        for plan in plans.iter_mut() {
            plan.round(subject, effort.time, models)?;
            bar.inc(1);
        }
    }
    Ok(())
}

/// How much time to spend.
#[derive(Clone, Copy)]
pub struct Effort {
    /// On one plan in one round.
    pub time: Duration,
    /// On all of them.
    pub limit: Duration,
}

/// With fewer there is nothing to take the median of.
const MIN_ROUNDS: usize = 3;

/// The middle of some numbers; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
