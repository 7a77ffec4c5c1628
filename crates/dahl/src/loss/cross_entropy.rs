//! Cross-entropy of scores, and of probabilities.

use super::{Answers, Loss};
use crate::error::Result;
use crate::layer::Tape;
use crate::op;
use dahl_runtime::graph::Var;
use std::fmt;

/// Cross-entropy of the softmax of the outputs, in one task: more exact than the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxCrossEntropy;

/// Cross-entropy of outputs that are probabilities already, for models that end in a softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossEntropy;

impl Loss for SoftmaxCrossEntropy {
    fn record(&self, tape: &mut Tape<'_>, answers: &Answers) -> Result<Var> {
        let Answers { output, label, loss, correct } = *answers;
        let gradient = tape.array("loss.dx", output.shape());
        tape.task(&op::softmax_ce::CODELET, &[output, label], &[loss, correct, gradient], &[])?;
        Ok(gradient)
    }
}

impl fmt::Display for SoftmaxCrossEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("softmax cross-entropy")
    }
}

impl Loss for CrossEntropy {
    fn record(&self, tape: &mut Tape<'_>, answers: &Answers) -> Result<Var> {
        let Answers { output, label, loss, correct } = *answers;
        let gradient = tape.array("loss.dx", output.shape());
        let inputs = [output, label];
        tape.task(&op::cross_entropy::CODELET, &inputs, &[loss], &[])?;
        tape.task(&op::accuracy::CODELET, &inputs, &[correct], &[])?;
        tape.task(&op::cross_entropy_backward::CODELET, &inputs, &[gradient], &[])?;
        Ok(gradient)
    }

    fn record_probabilities(&self, tape: &mut Tape<'_>, output: Var, probabilities: Var) -> Result<()> {
        tape.task(&op::copy::CODELET, &[output], &[probabilities], &[])
    }
}

impl fmt::Display for CrossEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cross-entropy")
    }
}
