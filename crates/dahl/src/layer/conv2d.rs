//! Two-dimensional convolution.

use super::window::Window;
use super::{Backward, Forward, Init, Layer, Parameter, Setting, Settings, Tape, Weights, batched, sample};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// Convolution of images with square kernels (cross-correlation, as everywhere).
#[derive(Clone, Debug)]
pub struct Conv2d {
    filters: usize,
    window: Window,
    bias: bool,
}

impl Conv2d {
    /// A convolution with this many kernels of this side; stride 1, no padding, with a bias.
    pub fn new(filters: usize, kernel: usize) -> Self {
        Conv2d { filters, window: Window { side: kernel, stride: 1, padding: 0 }, bias: true }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        let layer = Conv2d::new(settings.count("filters")?, settings.count("kernel")?);
        let layer = layer.stride(settings.count_or("stride", 1)?).padding(settings.count_or("padding", 0)?);
        Ok(layer.bias(settings.flag_or("bias", true)?))
    }

    /// The step between windows.
    pub fn stride(mut self, stride: usize) -> Self {
        self.window.stride = stride;
        self
    }

    /// Zeros around the image.
    pub fn padding(mut self, padding: usize) -> Self {
        self.window.padding = padding;
        self
    }

    /// With or without a bias.
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
}

impl Layer for Conv2d {
    fn kind(&self) -> &'static str {
        "conv2d"
    }

    fn name(&self) -> &'static str {
        "conv"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        let mut settings = vec![("filters", Setting::Count(self.filters))];
        settings.extend(self.window.settings("kernel", 1));
        settings.extend((!self.bias).then_some(("bias", Setting::Flag(false))));
        settings
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if self.filters == 0 {
            return Err(Error::setting("conv2d needs at least one filter"));
        }
        let [_, height, width] = self.window.output("conv2d", input)?;
        Ok(Shape::new(&[self.filters, height, width]))
    }

    fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        let (channels, side) = (input[0], self.window.side);
        let init = Init::Uniform { fan_in: channels.saturating_mul(side).saturating_mul(side) };
        let weight = Parameter::new("weight", [self.filters, channels, side, side], init);
        let bias = self.bias.then(|| Parameter::new("bias", [self.filters], init));
        Ok([weight].into_iter().chain(bias).collect())
    }

    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let y = tape.array("y", batched(x.shape()[0], self.output(sample(x.shape()))?));
        let bias = super::bias(tape, weights, self.filters)?;
        tape.task(&op::conv2d::CODELET, &[x, weights.parameters[0], bias], &[y], &self.window.ints())?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let ints = self.window.ints();
        tape.task(&op::conv2d_dw::CODELET, &[pass.forward.x, pass.dy], &[pass.gradients[0]], &ints)?;
        if let Some(&bias) = pass.gradients.get(1) {
            tape.task(&op::channel_sum::CODELET, &[pass.dy], &[bias], &[])?;
        }
        if !pass.wants_dx {
            return Ok(None);
        }
        let dx = tape.array("dx", pass.forward.x.shape());
        tape.task(&op::conv2d_dx::CODELET, &[pass.dy, pass.parameters[0]], &[dx], &ints)?;
        Ok(Some(dx))
    }
}
