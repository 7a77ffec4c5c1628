//! Maximum over windows.

use super::{Backward, Forward, Layer, Tape, batched, sample};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::graph::Var;

/// The largest value of each `window` × `window` square; squares do not overlap.
#[derive(Clone, Debug)]
pub struct MaxPool {
    /// Side of the windows, and the step between them.
    pub window: usize,
}

impl MaxPool {
    fn ints(&self) -> [i64; 3] {
        [self.window as i64, 0, self.window as i64]
    }
}

impl Layer for MaxPool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        match &input[..] {
            &[channels, height, width] if (1..=height.min(width)).contains(&self.window) => {
                Ok(Shape::new(&[channels, height / self.window, width / self.window]))
            }
            _ => Err(Error::setting(format!("{self:?} does not fit an input of {input}"))),
        }
    }

    fn is_maximum(&self) -> bool {
        true
    }

    fn forward(&self, tape: &mut Tape<'_>, _parameters: &[Var], x: Var) -> Result<Forward> {
        let shape = batched(x.shape()[0], self.output(sample(x.shape()))?);
        let y = tape.array("pool", shape);
        let arg = tape.array_of("arg", Dtype::U8, shape);
        tape.task(&op::max_pool::CODELET, &[x], &[y, arg], &self.ints())?;
        Ok(Forward { x, y, saved: vec![arg] })
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let dx = tape.array("dpool", pass.forward.x.shape());
        let dy = pass.dy.reshape(pass.forward.y.shape())?;
        tape.task(&op::max_pool_backward::CODELET, &[pass.forward.saved[0], dy], &[dx], &self.ints())?;
        Ok(Some(dx))
    }
}
