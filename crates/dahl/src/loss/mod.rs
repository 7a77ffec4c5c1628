//! Losses: how wrong a batch of answers is, and the gradient that training starts from.
//!
//! [`SoftmaxCrossEntropy`] is taken unless a model ends in a softmax, whose outputs go to [`CrossEntropy`]. A
//! program may bring another ([`Trainer::loss`](crate::Trainer::loss)).

mod cross_entropy;

pub use cross_entropy::{CrossEntropy, SoftmaxCrossEntropy};

use crate::error::Result;
use crate::layer::Tape;
use crate::model::Sequential;
use crate::op;
use dahl_runtime::graph::Var;
use std::fmt;
use std::sync::Arc;

/// A loss of any kind.
pub type AnyLoss = Arc<dyn Loss>;

/// The loss of a classifier, as a mean over the batch.
///
/// What it displays is its name and all of its settings in a line: checkpoints keep it, and a run goes on
/// only with a loss that displays the same.
pub trait Loss: fmt::Debug + fmt::Display + Send + Sync {
    /// Records the mean loss and the number of right answers, and returns the gradient of the model's
    /// output, which is an array of the loss's own. Without training, nobody looks at the gradient.
    ///
    /// Tasks on a part of the batch must divide by the number of all samples, so that partial results add up
    /// to a mean.
    fn record(&self, tape: &mut Tape<'_>, answers: &Answers) -> Result<Var>;

    /// Records the probability of each class from the model's output: the softmax of it, unless this says
    /// otherwise.
    fn record_probabilities(&self, tape: &mut Tape<'_>, output: Var, probabilities: Var) -> Result<()> {
        tape.task(&op::softmax::CODELET, &[output], &[probabilities], &[])
    }

    /// About what guessing costs: a run whose losses are a thousand times as large has diverged.
    fn of_guessing(&self, classes: usize) -> f64 {
        (classes.max(2) as f64).ln()
    }
}

/// The answers to a batch, and where it goes what they come to.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// The output of the model, a row per sample.
    pub output: Var,
    /// The class of each sample, as bytes.
    pub label: Var,
    /// A scalar: the mean loss.
    pub loss: Var,
    /// A scalar: how many answers are right.
    pub correct: Var,
}

impl<L: Loss + ?Sized> Loss for Arc<L> {
    fn record(&self, tape: &mut Tape<'_>, answers: &Answers) -> Result<Var> {
        (**self).record(tape, answers)
    }

    fn record_probabilities(&self, tape: &mut Tape<'_>, output: Var, probabilities: Var) -> Result<()> {
        (**self).record_probabilities(tape, output, probabilities)
    }

    fn of_guessing(&self, classes: usize) -> f64 {
        (**self).of_guessing(classes)
    }
}

/// The loss that a model is trained with if nobody says otherwise.
pub fn usual(model: &Sequential) -> AnyLoss {
    match model.ends_in_softmax() {
        true => Arc::new(CrossEntropy),
        false => Arc::new(SoftmaxCrossEntropy),
    }
}
