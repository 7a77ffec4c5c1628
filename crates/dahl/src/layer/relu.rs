//! The rectifier.

use super::{Backward, Forward, Layer, Tape, Weights};
use crate::error::Result;
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `max(x, 0)`, in place where nobody needs `x`.
#[derive(Clone, Debug)]
pub struct Relu;

impl Layer for Relu {
    fn kind(&self) -> &'static str {
        "relu"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(input)
    }

    fn is_monotone(&self) -> bool {
        true
    }

    fn needs_output(&self) -> bool {
        true
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let y = tape.in_place(x, "y");
        tape.task(&op::relu::CODELET, &[x], &[y], &[])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let dx = tape.in_place(pass.dy, "dx");
        tape.task(&op::relu_backward::CODELET, &[pass.forward.y, pass.dy], &[dx], &[])?;
        Ok(Some(dx))
    }
}
