//! The mean of each channel.

use super::{Backward, Forward, Layer, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// From an image to a vector: the mean of each channel over all of its pixels.
///
/// Square images are one window of `avg_pool`. Others go through `dense` with one output and equal weights, because windows
/// are square.
#[derive(Clone, Debug)]
pub struct GlobalAvgPool;

/// Channels, height and width of the samples in a batch.
fn extents(batch: Shape) -> [usize; 4] {
    [batch[0], batch[1], batch[2], batch[3]]
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
        let [n, c, height, width] = extents(x.shape());
        if height == width {
            let y = tape.array("y", [n, c, 1, 1]);
            tape.task(&op::avg_pool::CODELET, &[x], &[y], &[1, 0, height as i64])?;
            return Ok(Forward::new(x, y.reshape([n, c])?));
        }
        let y = tape.array("y", [n * c, 1]);
        let (share, zero) = (tape.array("share", [1, height * width]), tape.array("no_bias", [1]));
        tape.task_with(&op::fill::CODELET, &[], &[share], &[1.0 / (height * width) as f64])?;
        tape.task_with(&op::fill::CODELET, &[], &[zero], &[0.0])?;
        tape.task(&op::dense::CODELET, &[x.reshape([n * c, height * width])?, share, zero], &[y], &[])?;
        Ok(Forward::new(x, y.reshape([n, c])?).saving(&[share]))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let [n, c, height, width] = extents(pass.forward.x.shape());
        let dx = tape.array("dx", pass.forward.x.shape());
        match pass.forward.saved.first() {
            None => {
                let dy = pass.dy.reshape([n, c, 1, 1])?;
                tape.task(&op::avg_pool_backward::CODELET, &[dy], &[dx], &[1, 0, height as i64])?;
            }
            Some(&share) => {
                let (dy, flat) = (pass.dy.reshape([n * c, 1])?, dx.reshape([n * c, height * width])?);
                tape.task(&op::dense_dx::CODELET, &[dy, share], &[flat], &[])?;
            }
        }
        Ok(Some(dx))
    }
}
