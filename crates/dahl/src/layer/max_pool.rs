//! Maximum over windows.

use super::window::Window;
use super::{Backward, Forward, Layer, Setting, Settings, Tape, Weights, batched, sample};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::graph::Var;

/// The largest value of each square.
#[derive(Clone, Debug)]
pub struct MaxPool {
    window: Window,
}

impl MaxPool {
    /// Squares of this side that touch and do not overlap.
    pub fn new(window: usize) -> Self {
        MaxPool { window: Window { side: window, stride: window, padding: 0 } }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        let side = settings.count("window")?;
        let layer = MaxPool::new(side).stride(settings.count_or("stride", side)?);
        Ok(layer.padding(settings.count_or("padding", 0)?))
    }

    /// The step between squares.
    pub fn stride(mut self, stride: usize) -> Self {
        self.window.stride = stride;
        self
    }

    /// How far squares may reach beyond the image, where they find nothing.
    pub fn padding(mut self, padding: usize) -> Self {
        self.window.padding = padding;
        self
    }
}

impl Layer for MaxPool {
    fn kind(&self) -> &'static str {
        "max_pool"
    }

    fn name(&self) -> &'static str {
        "pool"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        self.window.settings("window", self.window.side)
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        self.window.check_padding("max_pool")?;
        let side = self.window.side;
        if side > 16 {
            return Err(Error::setting(format!(
                "max_pool takes windows of at most 16×16, not {side}×{side}"
            )));
        }
        Ok(Shape::new(&self.window.output("max_pool", input)?))
    }

    fn is_maximum(&self) -> bool {
        true
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let shape = batched(x.shape()[0], self.output(sample(x.shape()))?);
        let y = tape.array("y", shape);
        let arg = tape.array_of("arg", Dtype::U8, shape);
        tape.task(&op::max_pool::CODELET, &[x], &[y, arg], &self.window.pool_ints())?;
        Ok(Forward::new(x, y).saving(&[arg]))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let dx = tape.array("dx", pass.forward.x.shape());
        let dy = pass.dy.reshape(pass.forward.y.shape())?;
        let ints = self.window.pool_ints();
        tape.task(&op::max_pool_backward::CODELET, &[pass.forward.saved[0], dy], &[dx], &ints)?;
        Ok(Some(dx))
    }
}
