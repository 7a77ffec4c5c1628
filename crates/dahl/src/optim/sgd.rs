//! Stochastic gradient descent.

use super::{Optimizer, Update, below_one, from_zero, number, other_state, unknown};
use crate::error::{Error, Result};
use crate::layer::Tape;
use crate::op;
use std::fmt;
use std::str::FromStr;

/// Stochastic gradient descent, as in PyTorch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// Share of the velocity that is kept from step to step; 0 for none.
    pub momentum: f64,
    /// What the weights add to their gradients.
    pub weight_decay: f64,
    /// Whether the velocity looks ahead.
    pub nesterov: bool,
}

impl Sgd {
    /// Without momentum and weight decay.
    pub const PLAIN: Sgd = Sgd { momentum: 0.0, weight_decay: 0.0, nesterov: false };
}

impl Optimizer for Sgd {
    fn state_names(&self) -> Vec<&'static str> {
        match self {
            Sgd { momentum: 0.0, weight_decay: 0.0, .. } => Vec::new(),
            _ => vec!["momentum"],
        }
    }

    fn check(&self) -> Result<()> {
        if self.nesterov && self.momentum == 0.0 {
            return Err(Error::setting("Nesterov's momentum needs a momentum above 0"));
        }
        below_one("momentum", self.momentum)?;
        from_zero("weight decay", self.weight_decay)
    }

    fn record(&self, tape: &mut Tape<'_>, update: &Update<'_>) -> Result<()> {
        let inputs = [update.gradients, update.rate];
        match *update.state {
            [] => tape.task(&op::sgd::CODELET, &inputs, &[update.weights], &[]),
            [velocity] => {
                let scalars = [self.momentum, self.weight_decay, f64::from(u8::from(self.nesterov))];
                let outputs = [update.weights, velocity];
                tape.task_with(&op::sgd_momentum::CODELET, &inputs, &outputs, &scalars)
            }
            _ => Err(other_state(self, update.state)),
        }
    }
}

impl fmt::Display for Sgd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sgd { momentum, weight_decay, nesterov } = *self;
        f.write_str("sgd")?;
        if momentum != 0.0 {
            let name = if nesterov { "nesterov" } else { "momentum" };
            write!(f, " {name} {momentum}")?;
        }
        if weight_decay != 0.0 {
            write!(f, " weight decay {weight_decay}")?;
        }
        Ok(())
    }
}

/// Reads what `Display` writes.
impl FromStr for Sgd {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (start, weight_decay) = match text.split_once(" weight decay ") {
            Some((start, weight_decay)) => (start, number(text, weight_decay)?),
            None => (text, 0.0),
        };
        match start.split(' ').collect::<Vec<_>>()[..] {
            ["sgd"] => Ok(Sgd { weight_decay, ..Sgd::PLAIN }),
            ["sgd", name @ ("momentum" | "nesterov"), momentum] => {
                Ok(Sgd { momentum: number(text, momentum)?, weight_decay, nesterov: name == "nesterov" })
            }
            _ => Err(unknown(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for sgd in [
            Sgd::PLAIN,
            Sgd { momentum: 0.9, ..Sgd::PLAIN },
            Sgd { momentum: 0.9, weight_decay: 1e-4, nesterov: true },
            Sgd { weight_decay: 0.5, ..Sgd::PLAIN },
        ] {
            assert_eq!(sgd.to_string().parse::<Sgd>().unwrap(), sgd, "{sgd}");
        }
        for text in ["", "sgd fast", "sgd momentum", "adam betas 0.9 0.999 eps 1e-8 weight decay 0"] {
            assert!(text.parse::<Sgd>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let sgd = |momentum, weight_decay| Sgd { momentum, weight_decay, nesterov: false };
        assert!(Sgd::PLAIN.check().is_ok() && sgd(0.9, 1e-4).check().is_ok());
        for bad in
            [sgd(1.0, 0.0), sgd(-0.1, 0.0), sgd(0.9, -1.0), sgd(f64::NAN, 0.0), sgd(0.0, f64::INFINITY)]
        {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        let nesterov = Sgd { nesterov: true, ..Sgd::PLAIN };
        assert!(nesterov.check().unwrap_err().to_string().contains("needs a momentum"));
    }

    #[test]
    fn only_what_needs_state_has_some() {
        assert!(Sgd::PLAIN.state_names().is_empty());
        assert_eq!(Sgd { weight_decay: 0.1, ..Sgd::PLAIN }.state_names(), ["momentum"]);
    }
}
