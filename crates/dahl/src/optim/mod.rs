//! Optimisers: how gradients become new weights, and how the learning rate changes along the way.
//!
//! An [`Optimizer`] records one update of all weights of a group of layers at once, since they lie in one
//! flat array, as do the gradients and each array of its own state. [`Sgd`], [`Adam`] and [`AdamW`] are
//! there; a program may bring others ([`Trainer::optimizer`](crate::Trainer::optimizer)), which are saved in
//! checkpoints and resumed alike.

mod adam;
mod rate;
mod sgd;

pub use adam::{Adam, AdamW, Moments};
pub use rate::{Decay, LearningRate};
pub use sgd::Sgd;

use crate::error::{Error, Result};
use crate::layer::Tape;
use dahl_runtime::graph::Var;
use std::fmt;
use std::sync::Arc;

/// An optimiser of any kind.
pub type AnyOptimizer = Arc<dyn Optimizer>;

/// How gradients become new weights.
///
/// What it displays is its name and all of its settings in a line: checkpoints keep it, and a run goes on
/// only with an optimiser that displays the same.
pub trait Optimizer: fmt::Debug + fmt::Display + Send + Sync {
    /// The names of the arrays it keeps between steps, each as long as the weights and zero at first. In
    /// checkpoints their parts are called after them: `optimizer.momentum.conv1.weight`.
    fn state_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Refuses settings that make no sense.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Records the update of the weights of a group. Where it matters how many steps there were before,
    /// [`Tape::step_number`] says so.
    fn record(&self, tape: &mut Tape<'_>, update: &Update<'_>) -> Result<()>;
}

/// The arrays of an update. All but the rate are equally long and have one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The gradients.
    pub gradients: Var,
    /// The weights, which change.
    pub weights: Var,
    /// The arrays that the optimiser keeps, in the order of [`Optimizer::state_names`].
    pub state: &'a [Var],
    /// The learning rate of the step, a scalar.
    pub rate: Var,
}

impl<O: Optimizer + ?Sized> Optimizer for Arc<O> {
    fn state_names(&self) -> Vec<&'static str> {
        (**self).state_names()
    }

    fn check(&self) -> Result<()> {
        (**self).check()
    }

    fn record(&self, tape: &mut Tape<'_>, update: &Update<'_>) -> Result<()> {
        (**self).record(tape, update)
    }
}

/// Refuses a share that is not from 0 to below 1.
fn below_one(name: &str, value: f64) -> Result<()> {
    match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(Error::setting(format!("{name} must be from 0 to below 1, not {value}"))),
    }
}

/// Refuses a negative number and one that is not finite.
fn from_zero(name: &str, value: f64) -> Result<()> {
    match value.is_finite() && value >= 0.0 {
        true => Ok(()),
        false => Err(Error::setting(format!("{name} must be a number from 0 up, not {value}"))),
    }
}

/// Another number of arrays than an optimiser keeps.
fn other_state(optimizer: &dyn Optimizer, state: &[Var]) -> Error {
    let (n, expected) = (state.len(), optimizer.state_names().len());
    Error::setting(format!("{optimizer} keeps {expected} arrays between steps, not {n}"))
}

/// What was to be an optimiser as it displays itself.
fn unknown(text: &str) -> Error {
    Error::setting(format!("'{text}' is no optimiser as checkpoints spell it"))
}

/// A number of such a line.
fn number(text: &str, word: &str) -> Result<f64> {
    word.parse().map_err(|_| unknown(text))
}
