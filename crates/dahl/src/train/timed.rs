//! Steps that are run to know their time.

use super::Trainer;
use super::fit;
use super::state::Part;
use super::step::{StepInfo, StepKind};
use super::workbench::Workbench;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::model::Sequential;
use crate::op::Float;
use dahl_runtime::trace::Trace;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Some steps in a row.
#[derive(Debug)]
pub struct Turn {
    /// Who executed what, as far as it is remembered.
    pub trace: Trace,
    /// How many there were.
    pub n_steps: u64,
    /// How long they took, from the first image to the last weight.
    pub seconds: f64,
}

/// Runs at least so many steps, and then as many as there are until so much time is over.
pub type Turns<'a> = dyn FnMut(u64, Duration) -> Result<Turn> + 'a;

/// More steps than anybody waits for.
const MANY_STEPS: u64 = 1 << 48;

/// Prepares a full training step and lets `with` run it.
pub(super) fn in_turns<T: Float, R>(
    trainer: &Trainer,
    model: &Sequential,
    data: &Dataset,
    with: impl FnOnce(&mut Turns<'_>) -> R,
) -> Result<R> {
    let mut run = Workbench::<T>::new(trainer, model, data)?;
    let n = run.batches(Part::Train)[0];
    let mut prepared = run.prepare(Part::Train, n, StepKind::Train)?;
    // One order for all steps: what is in it does not matter, that its images lie all over the memory does.
    let order = fit::order(trainer.seed, 1, data.train.len());
    let batches: Vec<&[u32]> = order.chunks_exact(n).collect();
    let mut feed = run.feed(Part::Train, order.clone().into_iter().cycle());
    let mut first = 0;
    Ok(with(&mut |steps, time| {
        let start = Instant::now();
        let n_steps = prepared.run::<T>(
            &mut run.store,
            MANY_STEPS,
            |i, step, ports| {
                let number = first + i;
                // A rate of nothing: weights that grow for thousands of steps would end as infinities.
                let info = StepInfo { number, rate: 0.0, seed: trainer.seed };
                let batch = batches[(number % batches.len() as u64) as usize];
                feed.fill::<T>(step, ports, batch, info)
            },
            |i, _, _| match i + 1 >= steps && start.elapsed() >= time {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        )?;
        let seconds = start.elapsed().as_secs_f64();
        feed.check()?;
        first += n_steps;
        Ok(Turn { trace: prepared.session.take_trace(), n_steps, seconds })
    }))
}
