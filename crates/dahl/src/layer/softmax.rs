//! Softmax: from scores to probabilities.

use super::{Backward, Forward, Layer, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `exp(x) / Σ exp(x)` over the elements of each vector. At the end of a model it is trained with the
/// cross-entropy of probabilities; without it the loss does both at once, which is faster and more accurate.
#[derive(Clone, Debug)]
pub struct Softmax;

impl Layer for Softmax {
    fn kind(&self) -> &'static str {
        "softmax"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if input.rank() != 1 {
            let message = format!("softmax takes vectors, not {input}: put a flatten before it");
            return Err(Error::setting(message));
        }
        Ok(input)
    }

    fn needs_output(&self) -> bool {
        true
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let y = tape.in_place(x, "y");
        tape.task(&op::softmax::CODELET, &[x], &[y], &[])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let dx = tape.in_place(pass.dy, "dx");
        tape.task(&op::softmax_backward::CODELET, &[pass.forward.y, pass.dy], &[dx], &[])?;
        Ok(Some(dx))
    }
}
