//! Adam and AdamW, which differ in what weight decay does.

use super::{Optimizer, Update, below_one, from_zero, number, other_state, unknown};
use crate::error::{Error, Result};
use crate::layer::Tape;
use crate::op;
use dahl_runtime::codelet::Codelet;
use std::fmt;
use std::str::FromStr;

/// Adam, as in PyTorch; the weight decay is part of the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam(pub Moments);

/// AdamW, as in PyTorch; the weight decay shrinks the weights directly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW(pub Moments);

/// The settings of Adam and AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Share of the mean gradient that is kept from step to step.
    pub beta1: f64,
    /// Share of the mean squared gradient that is kept.
    pub beta2: f64,
    /// What keeps the divisor away from zero.
    pub eps: f64,
    /// How strongly weights are drawn to zero.
    pub weight_decay: f64,
}

impl Moments {
    /// The usual settings with this weight decay.
    pub fn with_decay(weight_decay: f64) -> Self {
        Moments { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay }
    }

    fn check(&self) -> Result<()> {
        below_one("beta1", self.beta1)?;
        below_one("beta2", self.beta2)?;
        from_zero("eps", self.eps)?;
        from_zero("weight decay", self.weight_decay)
    }

    fn record(
        &self,
        optimizer: &dyn Optimizer,
        codelet: &'static Codelet,
        tape: &mut Tape<'_>,
        update: &Update<'_>,
    ) -> Result<()> {
        let &[first, second] = update.state else { return Err(other_state(optimizer, update.state)) };
        let inputs = [update.gradients, update.rate, tape.step_number()];
        let scalars = [self.beta1, self.beta2, self.eps, self.weight_decay];
        tape.task_with(codelet, &inputs, &[update.weights, first, second], &scalars)
    }

    fn read(name: &str, text: &str) -> Result<Self> {
        let (start, weight_decay) = text.split_once(" weight decay ").ok_or_else(|| unknown(text))?;
        match start.split(' ').collect::<Vec<_>>()[..] {
            [found, "betas", beta1, beta2, "eps", eps] if found == name => Ok(Moments {
                beta1: number(text, beta1)?,
                beta2: number(text, beta2)?,
                eps: number(text, eps)?,
                weight_decay: number(text, weight_decay)?,
            }),
            _ => Err(unknown(text)),
        }
    }
}

impl fmt::Display for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moments { beta1, beta2, eps, weight_decay } = self;
        write!(f, "betas {beta1} {beta2} eps {eps} weight decay {weight_decay}")
    }
}

macro_rules! optimizer {
    ($name:ident, $word:literal, $codelet:expr) => {
        impl Optimizer for $name {
            fn state_names(&self) -> Vec<&'static str> {
                vec!["exp_avg", "exp_avg_sq"]
            }

            fn check(&self) -> Result<()> {
                self.0.check()
            }

            fn record(&self, tape: &mut Tape<'_>, update: &Update<'_>) -> Result<()> {
                self.0.record(self, $codelet, tape, update)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", $word, self.0)
            }
        }

        /// Reads what `Display` writes.
        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Moments::read($word, text).map($name)
            }
        }
    };
}

optimizer!(Adam, "adam", &op::adam::CODELET);
optimizer!(AdamW, "adamw", &op::adamw::CODELET);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let adam = Adam(Moments::with_decay(0.0));
        assert_eq!(adam.to_string(), "adam betas 0.9 0.999 eps 0.00000001 weight decay 0");
        assert_eq!(adam.to_string().parse::<Adam>().unwrap(), adam);
        assert!(adam.to_string().parse::<AdamW>().is_err());
        let adamw = AdamW(Moments { beta1: 0.8, ..Moments::with_decay(0.01) });
        assert_eq!(adamw.to_string().parse::<AdamW>().unwrap(), adamw);
        for text in ["", "adam", "adam betas 1 eps 2", "sgd", "adam betas 1 2 eps 3"] {
            assert!(text.parse::<Adam>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let moments = Moments::with_decay(0.01);
        assert!(AdamW(moments).check().is_ok());
        assert!(Adam(Moments { beta2: 1.0, ..moments }).check().is_err());
        assert!(AdamW(Moments { eps: f64::NAN, ..moments }).check().is_err());
    }
}
