//! Where a number went wrong: names step, layer and tensor after a loss that is not finite. Losses that are,
//! and yet astronomical, end a run as well.
//!
//! Steps are the same whenever they are repeated. So training only looks at the loss, which costs nothing,
//! and when that is not finite, goes back to a copy of the weights some hundred steps ago, repeats the steps
//! up to the one before, and then runs two steps that copy out whatever is computed.

use super::fit::Slice;
use super::position::Position;
use super::state::Part;
use super::step::StepKind;
use super::workbench::{Prepared, Workbench};
use crate::error::{Error, Result};
use crate::model::NamedParameter;
use crate::op::Float;
use dahl_runtime::graph::Var;
use std::ops::ControlFlow;

/// The error for a slice in which the loss of one step was not finite.
pub(super) fn explain<T: Float>(
    run: &mut Workbench<'_, T>,
    prepared: &mut Prepared,
    before: &[Vec<T>],
    order: &[u32],
    slice: &Slice,
    (bad, loss): (u64, f64),
    n_steps: u64,
) -> Error {
    let (step, batch) = (slice.at.step + bad + 1, slice.at.batch as u64 + bad + 1);
    let place = match find(run, prepared, before, order, slice, bad, n_steps) {
        Ok(Some(place)) => place,
        Ok(None) => "repeating the step gave finite numbers".to_string(),
        Err(error) => format!("what came first could not be found out: {error:#}"),
    };
    let rate = run.trainer.rate.at(step - 1, n_steps);
    Error::setting(format!(
        "the loss is {} at step {step} (epoch {}, batch {batch}): {place}; use a smaller learning rate than {rate:?}, or \
         look at the images of this batch",
        loss, slice.at.epoch
    ))
}

/// Refuses weights and statistics that are not finite: what comes of them is not either, and nobody wants to
/// save them.
pub(super) fn check<T: Float>(run: &Workbench<'_, T>, step: u64) -> Result<()> {
    let (parameters, buffers) = (run.model.parameters()?, run.model.buffers()?);
    let weights = weights_not_finite(run, &parameters);
    let statistics = run.state.statistics.map(|id| run.store.get::<T>(id));
    let found = weights.or_else(|| not_finite("weights", statistics.unwrap_or_default(), &buffers));
    found.map_or(Ok(()), |found| {
        Err(Error::setting(format!("{found} after step {step}; use a smaller learning rate")))
    })
}

/// Beyond so many times what guessing gives, a loss is that of weights that have left all bounds. A network
/// that is too sure of itself, or was for a few steps, stays far below.
const ASTRONOMICAL: f64 = 1000.0;

/// Refuses the losses of an epoch, on average and at its end on the test images, that no training comes back
/// from. Both must be astronomical: the first may come from steps that are overcome, the second from running
/// statistics that are still those of the first steps.
pub(super) fn check_losses<T>(run: &Workbench<'_, T>, position: &Position, test_loss: f64) -> Result<()> {
    let (epoch, (loss, _)) = (position.epoch, position.sums.means());
    if !test_loss.is_finite() {
        let message = format!(
            "the loss on the test images is {test_loss} after epoch {epoch}; use a smaller learning rate"
        );
        return Err(Error::setting(message));
    }
    let guessing = run.loss.of_guessing(run.data.classes);
    if loss.min(test_loss) <= ASTRONOMICAL * guessing {
        return Ok(());
    }
    Err(Error::setting(format!(
        "the loss is {loss:.2e} in epoch {epoch}, and {test_loss:.2e} on the test images, where guessing gives {guessing:.2}: \
         training has diverged; use a smaller learning rate than {:?}",
        run.trainer.rate.base
    )))
}

/// The first array that holds a number that is not finite.
fn find<T: Float>(
    run: &mut Workbench<'_, T>,
    prepared: &mut Prepared,
    before: &[Vec<T>],
    order: &[u32],
    slice: &Slice,
    bad: u64,
    n_steps: u64,
) -> Result<Option<String>> {
    let (parameters, trainer) = (run.model.parameters()?, run.trainer);
    run.restore(before);
    let ahead = order[slice.first_image(0)..].to_vec();
    let mut feed = run.feed(Part::Train, ahead.into_iter());
    let repeated = bad.saturating_sub(1);
    prepared.run::<T>(
        &mut run.store,
        repeated,
        |i, step, ports| feed.fill::<T>(step, ports, slice.images(order, i), slice.info(trainer, n_steps, i)),
        |_, _, _| ControlFlow::Continue(()),
    )?;
    let mut looking = run.prepare(Part::Train, slice.n, StepKind::Diagnose)?;
    let arrays = looking.step.exposed.clone();
    for i in repeated..=bad {
        let number = slice.at.step + i + 1;
        if let Some(found) = weights_not_finite(run, &parameters) {
            return Ok(Some(format!("{found} before step {number}")));
        }
        let mut found = None;
        looking.run::<T>(
            &mut run.store,
            1,
            |_, step, ports| {
                feed.fill::<T>(step, ports, slice.images(order, i), slice.info(trainer, n_steps, i))
            },
            |_, _, outputs| {
                let not_finite =
                    |(name, var): &(String, Var)| not_finite(name, outputs.get::<T>(var), &parameters);
                found = arrays.iter().find_map(not_finite);
                ControlFlow::Continue(())
            },
        )?;
        if let Some(found) = found {
            return Ok(Some(format!("{found} in step {number}")));
        }
    }
    Ok(None)
}

/// A sentence about the first of the weights that is not finite.
fn weights_not_finite<T: Float>(run: &Workbench<'_, T>, parameters: &[NamedParameter]) -> Option<String> {
    let mut groups = run.state.groups.iter();
    groups.find_map(|group| not_finite("weights", run.store.get::<T>(group.weights), &group.own(parameters)))
}

/// A sentence about the first number in an array that is not finite.
fn not_finite<T: Float>(name: &str, values: &[T], parameters: &[NamedParameter]) -> Option<String> {
    let at = values.iter().position(|value| !value.widen().is_finite())?;
    let n = values.iter().filter(|value| !value.widen().is_finite()).count();
    let value = values[at].widen();
    let owner = parameters.iter().rfind(|named| name == "weights" && named.offset <= at);
    let of = owner.map_or(name, |named| named.name.as_str());
    Some(format!("the first that is not finite is {of}, with {n} such numbers (the first {value})"))
}
