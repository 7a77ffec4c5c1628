//! The mean of each channel.

use super::window::Window;
use super::{Backward, Forward, Layer, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// From an image to a vector: the mean of each channel over all of its pixels.
///
/// One window of `avg_pool` covers the image. Windows are square, so that it reaches beyond an image that is
/// not, into padding; then the mean is made that of the pixels alone.
#[derive(Clone, Debug)]
pub struct GlobalAvgPool;

/// The one window that covers images, and by how much its mean is too small.
fn cover(batch: Shape) -> (Window, f64) {
    let (height, width) = (batch[2], batch[3]);
    let padding = height.abs_diff(width);
    let side = height.max(width) + padding;
    (Window { side, stride: side, padding }, (side * side) as f64 / (height * width) as f64)
}

impl Layer for GlobalAvgPool {
    fn kind(&self) -> &'static str {
        "global_avg_pool"
    }

    fn name(&self) -> &'static str {
        "pool"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        match &input[..] {
            &[channels, height, width] if height * width > 0 => Ok(Shape::new(&[channels])),
            _ => Err(Error::setting(format!(
                "global_avg_pool takes images [channels,height,width], not {input}"
            ))),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let (n, channels) = (x.shape()[0], x.shape()[1]);
        let (window, factor) = cover(x.shape());
        let y = tape.array("y", [n, channels, 1, 1]);
        tape.task(&op::avg_pool::CODELET, &[x], &[y], &window.pool_ints())?;
        if factor != 1.0 {
            tape.task_with(&op::scale::CODELET, &[y], &[y], &[factor])?;
        }
        Ok(Forward::new(x, y.reshape([n, channels])?))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let shape = pass.forward.x.shape();
        let (window, factor) = cover(shape);
        let mut dy = pass.dy;
        if factor != 1.0 {
            dy = tape.in_place(pass.dy, "scaled_dy");
            tape.task_with(&op::scale::CODELET, &[pass.dy], &[dy], &[factor])?;
        }
        let dx = tape.array("dx", shape);
        let dy = dy.reshape([shape[0], shape[1], 1, 1])?;
        tape.task(&op::avg_pool_backward::CODELET, &[dy], &[dx], &window.pool_ints())?;
        Ok(Some(dx))
    }
}
