//! Looking at training without doing it: its plans, its speed, and single steps with everything that they
//! compute.

use super::fit;
use super::report::StepDump;
use super::running::in_dtype;
use super::saved;
use super::state::Part;
use super::step::{StepInfo, StepKind};
use super::timed::{self, Turns};
use super::trainer::Trainer;
use super::workbench::Workbench;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::op::Float;
use dahl_runtime::plan::{PlanFile, Planned};
use dahl_runtime::shape::Dtype;
use dahl_runtime::trace::Trace;
use std::ops::ControlFlow;
use std::time::Duration;

impl Trainer {
    /// The plans that training a model on a data set would execute, for a file.
    pub fn make_plans(&self, model: &Sequential, data: &Dataset) -> Result<PlanFile> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => Workbench::<T>::new(&planned, &model, data)?.into_plans())
    }

    /// The plan of a full training step, for a look at its tasks and its memory.
    pub fn plan_step(&self, model: &Sequential, data: &Dataset) -> Result<Planned> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => Workbench::<T>::new(&planned, &model, data)?.plan_full())
    }

    /// Runs training steps for as long as it takes to know their time, and returns their trace; see
    /// [`Trace::usage`](dahl_runtime::trace::Trace::usage). The model stays as it is. At least `steps` steps
    /// are run, and then as many as there are until `time` is over.
    pub fn time_steps(
        &self,
        model: &Sequential,
        data: &Dataset,
        steps: u64,
        time: Duration,
    ) -> Result<Trace> {
        Ok(self.time_in_turns(model, data, |turn| turn(steps, time))??.trace)
    }

    /// The same for a program that does something else in between: everything is prepared once, and `with`
    /// gets a function that runs steps whenever it is called. Between two calls the workers sleep.
    pub fn time_in_turns<R>(
        &self,
        model: &Sequential,
        data: &Dataset,
        with: impl FnOnce(&mut Turns<'_>) -> R,
    ) -> Result<R> {
        self.check(model, data)?;
        let mut model = model.clone();
        self.initialise(&mut model)?;
        in_dtype!(self, T => timed::in_turns::<T, R>(self, &model, data, with))
    }

    /// What the first step of [`Trainer::fit`] comes to. The model stays as it is.
    pub fn first_step(&self, model: &Sequential, data: &Dataset) -> Result<StepDump> {
        let mut order = fit::order(self.seed, 1, data.train.len());
        order.truncate(self.batch);
        self.replay_batches(&mut model.clone(), data, &[order])
    }

    /// Trains on exactly these batches (indices into the training images), one step each.
    pub fn replay_batches(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<StepDump> {
        self.check(model, data)?;
        self.initialise(model)?;
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
        let (dump, (weights, statistics)) = in_dtype!(self, T => self.replay_in::<T>(model, data, batches))?;
        model.set_weights(weights)?;
        model.set_statistics(statistics)?;
        Ok(dump)
    }

    #[expect(clippy::type_complexity, reason = "a dump, and the weights and statistics after it")]
    fn replay_in<T: Float>(
        &self,
        model: &Sequential,
        data: &Dataset,
        batches: &[Vec<u32>],
    ) -> Result<(StepDump, (Vec<f64>, Vec<f64>))> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut prepared = run.prepare(Part::Train, batches[0].len(), StepKind::TrainDumped)?;
        let (mut dump, mut bad) = (StepDump::default(), None);
        let (logits, gradients) = (prepared.step.dumped[0], prepared.step.dumped[1..].to_vec());
        let n_steps = batches.len() as u64;
        let mut feed = run.feed(Part::Train, batches.concat().into_iter());
        let ran = prepared.run::<T>(
            &mut run.store,
            n_steps,
            |i, step, ports| {
                let info = StepInfo { number: i, rate: self.rate.at(i, n_steps), seed: self.seed };
                feed.fill::<T>(step, ports, &batches[i as usize], info)
            },
            |i, metrics, outputs| {
                if bad.is_some() || !metrics.loss.is_finite() {
                    bad.get_or_insert((i + 1, metrics.loss));
                    return ControlFlow::Break(());
                }
                dump.losses.push(metrics.loss);
                if i == 0 {
                    let wide = |var| outputs.get::<T>(var).iter().map(|value| value.widen());
                    dump.logits = wide(&logits).collect();
                    dump.gradients = gradients.iter().flat_map(wide).collect();
                }
                ControlFlow::Continue(())
            },
        );
        feed.check()?;
        ran?;
        if let Some((step, loss)) = bad {
            return Err(Error::setting(format!(
                "the loss is {loss} at step {step}; use a smaller learning rate"
            )));
        }
        Ok((dump, run.values()))
    }
}
