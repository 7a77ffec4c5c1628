//! Means over windows.

use super::window::Window;
use super::{Backward, Forward, Layer, Setting, Settings, Tape, Weights, batched, sample};
use crate::error::Result;
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// The mean of each square; padding counts as zeros, as in PyTorch by default.
#[derive(Clone, Debug)]
pub struct AvgPool {
    window: Window,
}

impl AvgPool {
    /// Squares of this side that touch and do not overlap.
    pub fn new(window: usize) -> Self {
        AvgPool { window: Window { side: window, stride: window, padding: 0 } }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        let side = settings.count("window")?;
        let layer = AvgPool::new(side).stride(settings.count_or("stride", side)?);
        Ok(layer.padding(settings.count_or("padding", 0)?))
    }

    /// The step between squares.
    pub fn stride(mut self, stride: usize) -> Self {
        self.window.stride = stride;
        self
    }

    /// Zeros around the image.
    pub fn padding(mut self, padding: usize) -> Self {
        self.window.padding = padding;
        self
    }
}

impl Layer for AvgPool {
    fn kind(&self) -> &'static str {
        "avg_pool"
    }

    fn name(&self) -> &'static str {
        "pool"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        self.window.settings("window", self.window.side)
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        self.window.check_padding("avg_pool")?;
        Ok(Shape::new(&self.window.output("avg_pool", input)?))
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let y = tape.array("y", batched(x.shape()[0], self.output(sample(x.shape()))?));
        tape.task(&op::avg_pool::CODELET, &[x], &[y], &self.window.pool_ints())?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let dx = tape.array("dx", pass.forward.x.shape());
        tape.task(&op::avg_pool_backward::CODELET, &[pass.dy], &[dx], &self.window.pool_ints())?;
        Ok(Some(dx))
    }
}
