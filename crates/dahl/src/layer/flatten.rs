//! From images to vectors.

use super::{Backward, Forward, Layer, Tape, Weights};
use crate::error::Result;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// The same elements as one vector per sample; nothing moves.
#[derive(Clone, Debug)]
pub struct Flatten;

impl Layer for Flatten {
    fn kind(&self) -> &'static str {
        "flatten"
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        Ok(Shape::new(&[input.len()]))
    }

    fn forward(&self, _tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let n = x.shape()[0];
        let y = x.reshape([n, x.shape().len() / n.max(1)])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, _tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        Ok(Some(pass.dy.reshape(pass.forward.x.shape())?))
    }
}
