//! Batch normalisation.

use super::{Backward, Forward, Init, Layer, Mode, Parameter, Setting, Settings, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// Gives each channel a mean and a variance that are learnt: `y = weight (x - mean) / √(var + eps) + bias`.
///
/// In training, mean and variance are those of the batch, and the running ones move towards them (the
/// variance unbiased, as in PyTorch). Otherwise the running ones are used. Takes images, and vectors as
/// images of one pixel.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    eps: f64,
    momentum: f64,
}

impl Default for BatchNorm {
    fn default() -> Self {
        BatchNorm::new()
    }
}

impl BatchNorm {
    /// With PyTorch's defaults: `eps` 1e-5, momentum 0.1.
    pub fn new() -> Self {
        BatchNorm { eps: 1e-5, momentum: 0.1 }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        let BatchNorm { eps, momentum } = BatchNorm::new();
        let layer = BatchNorm::new().eps(settings.number_or("eps", eps)?);
        Ok(layer.momentum(settings.number_or("momentum", momentum)?))
    }

    /// What is added to variances, so that none is zero.
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// How far running statistics move towards those of a batch, from 0 to 1.
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }
}

/// A batch as images.
fn as_images(var: Var) -> Result<Var> {
    match var.shape()[..] {
        [n, channels] => Ok(var.reshape([n, channels, 1, 1])?),
        _ => Ok(var),
    }
}

impl Layer for BatchNorm {
    fn kind(&self) -> &'static str {
        "batch_norm"
    }

    fn name(&self) -> &'static str {
        "bn"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        let usual = BatchNorm::new();
        let all = [("eps", self.eps, usual.eps), ("momentum", self.momentum, usual.momentum)];
        let unusual = all.into_iter().filter(|(_, value, usual)| value != usual);
        unusual.map(|(key, value, _)| (key, Setting::Number(value))).collect()
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if !matches!(input.rank(), 1 | 3) {
            return Err(Error::setting(format!("batch_norm takes images or vectors, not {input}")));
        }
        let (eps, momentum) = (self.eps, self.momentum);
        if !(eps.is_finite() && eps > 0.0 && (0.0..=1.0).contains(&momentum)) {
            return Err(Error::setting(format!(
                "batch_norm takes an eps above 0 and a momentum from 0 to 1, not {eps} and {momentum}"
            )));
        }
        Ok(input)
    }

    fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        let parameter = |name: &str, value| Parameter::new(name, [input[0]], Init::Constant(value));
        Ok(vec![parameter("weight", 1.0), parameter("bias", 0.0)])
    }

    fn buffers(&self, input: Shape) -> Result<Vec<Parameter>> {
        let buffer = |name: &str, value| Parameter::new(name, [input[0]], Init::Constant(value));
        Ok(vec![buffer("running_mean", 0.0), buffer("running_var", 1.0)])
    }

    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let (&[gamma, beta], &[running_mean, running_var]) = (weights.parameters, weights.buffers) else {
            return Err(Error::setting("batch_norm needs its two parameters and its running statistics"));
        };
        let images = as_images(x)?;
        if tape.mode() == Mode::Evaluate {
            let y = tape.in_place(x, "y");
            let inputs = [images, running_mean, running_var, gamma, beta];
            tape.task_with(&op::batch_norm_inference::CODELET, &inputs, &[as_images(y)?], &[self.eps])?;
            return Ok(Forward::new(x, y));
        }
        let channels = images.shape()[1];
        let count = (images.shape().len() / channels.max(1)) as f64;
        if count < 2.0 {
            return Err(Error::setting(format!(
                "batch_norm cannot learn from {count} value per channel: use batches of at least two samples"
            )));
        }
        let (mean, var) = (tape.array("mean", [channels]), tape.array("var", [channels]));
        tape.task(&op::batch_norm_mean::CODELET, &[images], &[mean], &[])?;
        tape.task(&op::batch_norm_square_sum::CODELET, &[images, mean], &[var], &[])?;
        let y = tape.array("y", x.shape());
        let inputs = [images, mean, var, gamma, beta];
        tape.task_with(&op::batch_norm_normalise::CODELET, &inputs, &[as_images(y)?], &[self.eps])?;
        let (batch, running) = ([mean, var], [running_mean, running_var]);
        tape.task_with(&op::batch_norm_running::CODELET, &batch, &running, &[self.momentum, count])?;
        Ok(Forward::new(x, y).saving(&[mean, var]))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let (x, dy) = (as_images(pass.forward.x)?, as_images(pass.dy)?);
        let (mean, var) = (pass.forward.saved[0], pass.forward.saved[1]);
        let eps = [self.eps];
        tape.task_with(&op::batch_norm_backward_sums::CODELET, &[x, dy, mean, var], pass.gradients, &eps)?;
        if !pass.wants_dx {
            return Ok(None);
        }
        let dx = tape.in_place(pass.dy, "dx");
        let known = [x, dy, mean, var, pass.parameters[0], pass.gradients[0], pass.gradients[1]];
        tape.task_with(&op::batch_norm_dx::CODELET, &known, &[as_images(dx)?], &eps)?;
        Ok(Some(dx))
    }
}
