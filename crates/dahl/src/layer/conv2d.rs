//! Two-dimensional convolution with bias.

use super::{Backward, Forward, Layer, Parameter, Tape, batched, sample};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// Convolution of images with square kernels (cross-correlation, as everywhere).
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// Number of output channels.
    pub filters: usize,
    /// Side of the kernels.
    pub kernel: usize,
    /// Step between windows.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
}

impl Conv2d {
    fn ints(&self) -> [i64; 2] {
        [self.stride as i64, self.padding as i64]
    }
}

impl Layer for Conv2d {
    fn name(&self) -> &'static str {
        "conv"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        let &[_, height, width] = &input[..] else {
            return Err(Error::setting(format!("conv2d takes images [channels,height,width], not {input}")));
        };
        let side = |extent: usize| {
            let padded = extent + 2 * self.padding;
            (self.kernel > 0 && self.stride > 0 && padded >= self.kernel)
                .then(|| (padded - self.kernel) / self.stride + 1)
        };
        match (side(height), side(width)) {
            (Some(height), Some(width)) => Ok(Shape::new(&[self.filters, height, width])),
            _ => Err(Error::setting(format!("{self:?} does not fit images of {input}"))),
        }
    }

    fn parameters(&self, input: Shape) -> Vec<Parameter> {
        let shape = Shape::new(&[self.filters, input[0], self.kernel, self.kernel]);
        let fan_in = input[0] * self.kernel * self.kernel;
        let bias = Shape::new(&[self.filters]);
        vec![Parameter { name: "weight", shape, fan_in }, Parameter { name: "bias", shape: bias, fan_in }]
    }

    fn forward(&self, tape: &mut Tape<'_>, parameters: &[Var], x: Var) -> Result<Forward> {
        let y = tape.array("conv", batched(x.shape()[0], self.output(sample(x.shape()))?));
        tape.task(&op::conv2d::CODELET, &[x, parameters[0], parameters[1]], &[y], &self.ints())?;
        Ok(Forward { x, y, saved: Vec::new() })
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        if pass.wants_dx {
            return Err(Error::setting(
                "a convolution can only be the first layer with parameters: there is no codelet for its input gradient",
            ));
        }
        tape.task(&op::conv2d_dw::CODELET, &[pass.forward.x, pass.dy], &[pass.gradients[0]], &self.ints())?;
        tape.task(&op::channel_sum::CODELET, &[pass.dy], &[pass.gradients[1]], &[])?;
        Ok(None)
    }
}
