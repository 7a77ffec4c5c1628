//! The rectifier.

use super::{Backward, Forward, Layer, Tape};
use crate::error::Result;
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `max(x, 0)`, in place: no layer needs the output of the one before it for its backward pass.
#[derive(Clone, Debug)]
pub struct Relu;

impl Layer for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(input)
    }

    fn is_monotone(&self) -> bool {
        true
    }

    fn forward(&self, tape: &mut Tape<'_>, _parameters: &[Var], x: Var) -> Result<Forward> {
        tape.task(&op::relu::CODELET, &[x], &[x], &[])?;
        Ok(Forward { x, y: x, saved: Vec::new() })
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        tape.task(&op::relu_backward::CODELET, &[pass.forward.y, pass.dy], &[pass.dy], &[])?;
        Ok(Some(pass.dy))
    }
}
