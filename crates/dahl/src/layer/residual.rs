//! A block with a way around it.

use super::{Backward, Chain, Forward, Layer, Mode, Parameter, Setting, Settings, Tape, Weights};
use crate::error::{Error, Result};
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;

/// `body(x) + shortcut(x)`. Without a shortcut, `body(x) + x`.
///
/// Both branches see the same input, and the gradient of the output goes to both: what one of them still
/// needs, the other does not overwrite ([`Tape::keep`]).
#[derive(Clone, Debug)]
pub struct Residual {
    body: Chain,
    shortcut: Chain,
}

impl Residual {
    /// A block with this body.
    pub fn new(body: Chain) -> Self {
        Residual { body, shortcut: Chain::new() }
    }

    pub(super) fn read(settings: &mut Settings<'_>) -> Result<Self> {
        Ok(Residual::new(settings.chain("body")?).shortcut(settings.chain("shortcut")?))
    }

    /// With layers on the way around it, which make its shape that of the body's output.
    pub fn shortcut(mut self, shortcut: Chain) -> Self {
        self.shortcut = shortcut;
        self
    }

    /// The parameters of the branches: the shortcut's come after the body's, with a name of their own.
    fn both(
        &self,
        of: impl Fn(&Chain) -> Result<Vec<Parameter>>,
    ) -> Result<(Vec<Parameter>, Vec<Parameter>)> {
        let shortcut = of(&self.shortcut)?.into_iter().map(|parameter| parameter.within("shortcut"));
        Ok((of(&self.body)?, shortcut.collect()))
    }
}

impl Layer for Residual {
    fn kind(&self) -> &'static str {
        "residual"
    }

    fn name(&self) -> &'static str {
        "block"
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("body", Setting::Layers(&self.body)), ("shortcut", Setting::Layers(&self.shortcut))]
    }

    fn branches(&self) -> Vec<(&'static str, &Chain)> {
        vec![("", &self.body), ("shortcut", &self.shortcut)]
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        let (body, shortcut) = (self.body.output(input)?, self.shortcut.output(input)?);
        if body != shortcut {
            return Err(Error::setting(format!(
                "the body makes {body} of {input}, and the shortcut {shortcut}: they must agree to be added"
            )));
        }
        Ok(body)
    }

    fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        let (body, shortcut) = self.both(|chain| chain.parameters(input))?;
        Ok([body, shortcut].concat())
    }

    fn buffers(&self, input: Shape) -> Result<Vec<Parameter>> {
        let (body, shortcut) = self.both(|chain| chain.buffers(input))?;
        Ok([body, shortcut].concat())
    }

    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward> {
        let input = super::sample(x.shape());
        let n_parameters = self.body.parameters(input)?.len();
        let n_buffers = self.body.buffers(input)?.len();
        let (parameters, buffers) =
            (weights.parameters.split_at(n_parameters), weights.buffers.split_at(n_buffers));
        tape.keep(x);
        let own = Weights { parameters: parameters.0, buffers: buffers.0 };
        let body = self.body.forward(tape, &own, x)?;
        // Where the body does nothing, its result is x.
        tape.keep(body.output);
        let own = Weights { parameters: parameters.1, buffers: buffers.1 };
        let shortcut = tape.inside("shortcut", |tape| self.shortcut.forward(tape, &own, x))?;
        tape.release(body.output);
        let y = tape.in_place(body.output, "y");
        tape.task(&op::add::CODELET, &[body.output, shortcut.output], &[y], &[])?;
        if tape.mode() == Mode::Evaluate {
            tape.release(x);
        }
        Ok(Forward { inner: vec![body, shortcut], ..Forward::new(x, y) })
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let [body, shortcut] = &pass.forward.inner[..] else {
            return Err(Error::setting("a residual block goes backward after it went forward"));
        };
        let n_body = self.body.parameters(super::sample(pass.forward.x.shape()))?.len();
        let (parameters, gradients) = (pass.parameters.split_at(n_body), pass.gradients.split_at(n_body));
        tape.keep(pass.dy);
        let own = Backward { parameters: parameters.0, gradients: gradients.0, ..*pass };
        let through = self.body.backward(tape, &own, body)?;
        tape.release(pass.dy);
        // Where the body does nothing, this is dy, which the shortcut may else overwrite.
        through.iter().for_each(|dx| tape.keep(*dx));
        let own = Backward { parameters: parameters.1, gradients: gradients.1, ..*pass };
        let around = tape.inside("shortcut", |tape| self.shortcut.backward(tape, &own, shortcut))?;
        through.iter().for_each(|dx| tape.release(*dx));
        let (Some(through), Some(around)) = (through, around) else { return Ok(None) };
        let dx = tape.in_place(through, "dx");
        tape.task(&op::add::CODELET, &[through, around], &[dx], &[])?;
        Ok(Some(dx))
    }
}
