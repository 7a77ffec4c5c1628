//! Losses: how wrong a batch of answers is, and the gradient that training starts from.

use crate::error::Result;
use crate::layer::Tape;
use crate::op;
use dahl_runtime::graph::Var;

/// The loss of a classifier, as a mean over the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Cross-entropy of the softmax of the outputs, in one task: more exact than the two apart.
    SoftmaxCrossEntropy,
    /// Cross-entropy of outputs that are probabilities already, for models that end in a softmax.
    CrossEntropy,
}

impl Loss {
    /// Records the mean loss and the number of correct answers; returns the gradient of the model's output.
    #[track_caller]
    pub(crate) fn record(
        self,
        tape: &mut Tape<'_>,
        output: Var,
        label: Var,
        loss: Var,
        correct: Var,
    ) -> Result<Var> {
        let gradient = tape.array("loss.dx", output.shape());
        let inputs = [output, label];
        match self {
            Loss::SoftmaxCrossEntropy => {
                tape.task(&op::softmax_ce::CODELET, &inputs, &[loss, correct, gradient], &[])?;
            }
            Loss::CrossEntropy => {
                tape.task(&op::cross_entropy::CODELET, &inputs, &[loss], &[])?;
                tape.task(&op::accuracy::CODELET, &inputs, &[correct], &[])?;
                tape.task(&op::cross_entropy_backward::CODELET, &inputs, &[gradient], &[])?;
            }
        }
        Ok(gradient)
    }
}
