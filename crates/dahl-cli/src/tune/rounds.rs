//! Plans measured in turn. Machines that are shared have phases of minutes in which everything takes longer,
//! so plans are compared within a round, in which each of them runs for a moment, and over several rounds.

use crate::measurements::learn;
use crate::output::count;
use anyhow::{Context, Result, bail};
use dahl::tune::Subject;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::{Hardware, Machine};
use dahl_runtime::perf::{Bases, Costs, Models, predict};
use dahl_runtime::plan::Planned;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

/// A plan and what it took, round by round.
pub struct Timed {
    pub cut: CutOptions,
    pub workers: usize,
    planned: Planned,
    /// The median step, in seconds.
    pub steps: Vec<f64>,
    /// What the models said before each round, in seconds, if they were asked.
    pub predictions: Vec<f64>,
    /// Where that came from in the first round.
    pub bases: Bases,
    /// The share of the median step outside of kernels.
    pub overheads: Vec<f64>,
}

/// Steps that are run at least: some to warm up, and some to take the median of.
const MIN_STEPS: u64 = 4;

impl Timed {
    pub fn new(subject: &Subject, cut: &CutOptions, workers: usize) -> Result<Timed> {
        let planned = subject.plan(cut, workers).context("planning failed")?;
        let (steps, predictions, overheads) = (Vec::new(), Vec::new(), Vec::new());
        let bases = Bases::default();
        Ok(Timed { cut: cut.clone(), workers, planned, steps, predictions, bases, overheads })
    }

    pub fn n_tasks(&self) -> usize {
        self.planned.lowered.tasks().len()
    }

    /// Says what the step will take, by these models.
    fn predict(&mut self, models: &Models, costs: Costs) -> Result<()> {
        let Planned { lowered, plan, .. } = &self.planned;
        let machine = Machine::of_hardware(&Hardware::detect(), self.workers);
        let prediction = predict(lowered, plan, &machine, models, costs)?;
        if self.predictions.is_empty() {
            self.bases = prediction.bases;
        }
        self.predictions.push(prediction.step_seconds);
        Ok(())
    }

    /// Runs some steps, and learns from them.
    fn run(&mut self, subject: &Subject, time: Duration, learned: &mut Models) -> Result<()> {
        let trace = subject.time(&self.cut, self.workers, MIN_STEPS, time).context("measuring failed")?;
        let usage = trace.usage();
        if usage.n_steps == 0 {
            let n = count(self.n_tasks(), "task");
            bail!(
                "a step of {n} is more than a trace remembers, so its time is not known: use a smaller batch or larger tiles"
            );
        }
        self.steps.push(usage.median_step_seconds);
        self.overheads.push(usage.median_overhead);
        learn(learned, &trace);
        Ok(())
    }

    pub fn step(&self) -> f64 {
        median(self.steps.clone())
    }

    /// How long it takes compared with another plan: the median over the rounds.
    pub fn ratio_to(&self, other: &Timed) -> f64 {
        median(self.steps.iter().zip(&other.steps).map(|(own, other)| own / other).collect())
    }

    /// How far off the prediction was that knew nothing but earlier runs, and where it had its times from.
    pub fn predicted_at_first(&self) -> Option<(f64, String)> {
        let error = self.predictions.first()? / self.steps.first()? - 1.0;
        let Bases { history, scaled, regression, guess } = self.bases;
        let kinds = [
            (history, "history"),
            (scaled, "other conditions"),
            (regression, "other shapes"),
            (guess, "guesses"),
        ];
        let used: Vec<String> =
            kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{kind} {n}")).collect();
        Some((error, used.join(", ")))
    }

    /// What was predicted for the rounds that came after one that was learned from, and how far off that was
    /// as a share of what was measured; nothing if there was only one round.
    pub fn predicted(&self) -> Option<(f64, f64)> {
        let rounds = || self.predictions.iter().zip(&self.steps).skip(1);
        let errors: Vec<f64> = rounds().map(|(said, was)| said / was - 1.0).collect();
        (!errors.is_empty()).then(|| (median(rounds().map(|(said, _)| *said).collect()), median(errors)))
    }
}

/// Measures all plans in turn, for so many rounds, or for fewer if these take longer than the limit; three at
/// least, if there are to be so many.
pub fn rounds(
    subject: &Subject,
    plans: &mut [Timed],
    n: usize,
    effort: Effort,
    learned: &mut Models,
    bar: &ProgressBar,
) -> Result<()> {
    in_turn(plans, n, effort, false, |plan| {
        bar.inc(1);
        plan.run(subject, effort.time, learned)
    })
}

/// The same, with a prediction before every run, from what is known and what the rounds before have taught.
pub fn predicted_rounds(
    subject: &Subject,
    plans: &mut [Timed],
    n: usize,
    effort: Effort,
    (known, costs): (&Models, Costs),
    learned: &mut Models,
    bar: &ProgressBar,
) -> Result<()> {
    let mut models = known.clone();
    in_turn(plans, n, effort, true, |plan| {
        plan.predict(&models, costs)?;
        let mut new = Models::new();
        plan.run(subject, effort.time, &mut new)?;
        models.merge(&new);
        learned.merge(&new);
        bar.inc(1);
        Ok(())
    })
}

/// Where time is short, plans that are `alike` but far behind after the first round sit out the others.
fn in_turn(
    plans: &mut [Timed],
    n: usize,
    effort: Effort,
    alike: bool,
    mut measure: impl FnMut(&mut Timed) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let mut sits_out = vec![false; plans.len()];
    for round in 0..n {
        if round >= MIN_ROUNDS && start.elapsed() >= effort.limit {
            break;
        }
        if round == 1 && alike && start.elapsed() * MIN_ROUNDS as u32 > effort.limit {
            let best = plans.iter().map(Timed::step).fold(f64::INFINITY, f64::min);
            // The first plan is what others are compared with.
            let is_hopeless = |(i, plan): (usize, &Timed)| i > 0 && plan.step() > HOPELESS * best;
            sits_out = plans.iter().enumerate().map(is_hopeless).collect();
        }
        for (plan, sits_out) in plans.iter_mut().zip(&sits_out) {
            if !sits_out {
                measure(plan)?;
            }
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

/// A plan that takes this much longer than the best after the first round is not looked at again.
pub const HOPELESS: f64 = 1.25;

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
