//! Dropout.

use super::{Backward, Forward, Layer, Mode, Setting, Settings, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// In training, sets each element to zero with probability `p` and multiplies the others by `1 / (1 - p)`;
/// otherwise changes nothing. The coins follow from the step's [counter](Tape::counter), the number of the
/// layer among those that toss coins, and the index of the element, so that the backward pass needs no mask.
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f64,
}

impl Dropout {
    /// Drops with this probability, from 0 to below 1.
    pub fn new(p: f64) -> Self {
        Dropout { p }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        Ok(Dropout::new(settings.number_or("p", 0.5)?))
    }
}

impl Layer for Dropout {
    fn kind(&self) -> &'static str {
        "dropout"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("p", Setting::Number(self.p))]
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if !(0.0..1.0).contains(&self.p) {
            let message = format!("dropout takes a probability p from 0 to below 1, not {}", self.p);
            return Err(Error::setting(message));
        }
        Ok(input)
    }

    fn forward(&self, tape: &mut Tape<'_>, _weights: &Weights<'_>, x: Var) -> Result<Forward> {
        if tape.mode() == Mode::Evaluate {
            return Ok(Forward::new(x, x));
        }
        let (y, counter, stream) = (tape.in_place(x, "y"), tape.counter(), tape.random_stream());
        tape.task_with(&op::dropout::CODELET, &[x, counter], &[y], &[self.p, stream as f64])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let (dx, counter, stream) = (tape.in_place(pass.dy, "dx"), tape.counter(), tape.random_stream());
        tape.task_with(&op::dropout_backward::CODELET, &[pass.dy, counter], &[dx], &[self.p, stream as f64])?;
        Ok(Some(dx))
    }
}
