//! Fully connected layer.

use super::{Backward, Forward, Layer, Parameter, Tape};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `y = W x + b`.
#[derive(Clone, Debug)]
pub struct Dense {
    /// Number of outputs.
    pub outputs: usize,
}

impl Layer for Dense {
    fn name(&self) -> &'static str {
        "fc"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if input.rank() != 1 {
            return Err(Error::setting(format!("dense takes vectors, not {input}: put a flatten before it")));
        }
        Ok(Shape::new(&[self.outputs]))
    }

    fn parameters(&self, input: Shape) -> Vec<Parameter> {
        let (weight, bias) = (Shape::new(&[self.outputs, input[0]]), Shape::new(&[self.outputs]));
        let fan_in = input[0];
        vec![
            Parameter { name: "weight", shape: weight, fan_in },
            Parameter { name: "bias", shape: bias, fan_in },
        ]
    }

    fn forward(&self, tape: &mut Tape<'_>, parameters: &[Var], x: Var) -> Result<Forward> {
        let y = tape.array("dense", [x.shape()[0], self.outputs]);
        tape.task(&op::dense::CODELET, &[x, parameters[0], parameters[1]], &[y], &[])?;
        Ok(Forward { x, y, saved: Vec::new() })
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        tape.task(&op::dense_dw::CODELET, &[pass.forward.x, pass.dy], &[pass.gradients[0]], &[])?;
        tape.task(&op::dense_db::CODELET, &[pass.dy], &[pass.gradients[1]], &[])?;
        if !pass.wants_dx {
            return Ok(None);
        }
        let dx = tape.array("ddense", pass.forward.x.shape());
        tape.task(&op::dense_dx::CODELET, &[pass.dy, pass.parameters[0]], &[dx], &[])?;
        Ok(Some(dx))
    }
}
