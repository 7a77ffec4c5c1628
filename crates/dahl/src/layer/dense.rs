//! Fully connected layer.

use super::{Backward, Forward, Init, Layer, Parameter, Setting, Settings, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `y = W x + b`.
#[derive(Clone, Debug)]
pub struct Dense {
    outputs: usize,
    bias: bool,
}

impl Dense {
    /// A layer with this many outputs and a bias.
    pub fn new(outputs: usize) -> Self {
        Dense { outputs, bias: true }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        Ok(Dense::new(settings.count("outputs")?).bias(settings.flag_or("bias", true)?))
    }

    /// With or without a bias.
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
}

impl Layer for Dense {
    fn kind(&self) -> &'static str {
        "dense"
    }

    fn name(&self) -> &'static str {
        "fc"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        let bias = (!self.bias).then_some(("bias", Setting::Flag(false)));
        [("outputs", Setting::Count(self.outputs))].into_iter().chain(bias).collect()
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if self.outputs == 0 {
            return Err(Error::setting("dense needs at least one output"));
        }
        if input.rank() != 1 {
            return Err(Error::setting(format!("dense takes vectors, not {input}: put a flatten before it")));
        }
        Ok(Shape::new(&[self.outputs]))
    }

    fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        let init = Init::Uniform { fan_in: input[0] };
        let weight = Parameter::new("weight", [self.outputs, input[0]], init);
        let bias = self.bias.then(|| Parameter::new("bias", [self.outputs], init));
        Ok([weight].into_iter().chain(bias).collect())
    }

    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let y = tape.array("y", [x.shape()[0], self.outputs]);
        let bias = super::bias(tape, weights, self.outputs)?;
        tape.task(&op::dense::CODELET, &[x, weights.parameters[0], bias], &[y], &[])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        tape.task(&op::dense_dw::CODELET, &[pass.forward.x, pass.dy], &[pass.gradients[0]], &[])?;
        if let Some(&bias) = pass.gradients.get(1) {
            tape.task(&op::dense_db::CODELET, &[pass.dy], &[bias], &[])?;
        }
        if !pass.wants_dx {
            return Ok(None);
        }
        let dx = tape.array("dx", pass.forward.x.shape());
        tape.task(&op::dense_dx::CODELET, &[pass.dy, pass.parameters[0]], &[dx], &[])?;
        Ok(Some(dx))
    }
}
