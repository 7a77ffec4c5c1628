//! Optimisers: how gradients become new weights, and how the learning rate changes along the way.
//!
//! An optimiser records one update of all weights of a group of layers at once, since they lie in one flat
//! array, as do the gradients and each array of its own state. To add one, add a variant here with its
//! codelet in `op/`.

mod rate;

pub use rate::{Decay, LearningRate};

use crate::error::{Error, Result};
use crate::layer::Tape;
use crate::op;
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::Var;
use std::fmt;
use std::str::FromStr;

/// How gradients become new weights, as in PyTorch's optimiser of the same name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// Share of the velocity that is kept from step to step; 0 for none.
        momentum: f64,
        /// What the weights add to their gradients.
        weight_decay: f64,
        /// Whether the velocity looks ahead.
        nesterov: bool,
    },
    /// Adam; the weight decay is part of the gradient.
    Adam(Moments),
    /// AdamW; the weight decay shrinks the weights directly.
    AdamW(Moments),
}

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
}

impl Optimizer {
    /// Plain stochastic gradient descent.
    pub const SGD: Optimizer = Optimizer::Sgd { momentum: 0.0, weight_decay: 0.0, nesterov: false };

    /// The names of the arrays it keeps between steps, each as long as the weights and zero at first.
    pub fn state_names(&self) -> &'static [&'static str] {
        match self {
            Optimizer::Sgd { momentum: 0.0, weight_decay: 0.0, .. } => &[],
            Optimizer::Sgd { .. } => &["momentum"],
            Optimizer::Adam(_) | Optimizer::AdamW(_) => &["exp_avg", "exp_avg_sq"],
        }
    }

    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<()> {
        let below_one = |name: &str, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::setting(format!("{name} must be from 0 to below 1, not {value}"))),
        };
        let from_zero = |name: &str, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(Error::setting(format!("{name} must be a number from 0 up, not {value}"))),
        };
        match *self {
            Optimizer::Sgd { momentum, weight_decay, nesterov } => {
                if nesterov && momentum == 0.0 {
                    return Err(Error::setting("Nesterov's momentum needs a momentum above 0"));
                }
                below_one("momentum", momentum)?;
                from_zero("weight decay", weight_decay)
            }
            Optimizer::Adam(m) | Optimizer::AdamW(m) => {
                below_one("beta1", m.beta1)?;
                below_one("beta2", m.beta2)?;
                from_zero("eps", m.eps)?;
                from_zero("weight decay", m.weight_decay)
            }
        }
    }

    /// Records the update of the weights. The number of steps before this one comes through `number`, a port
    /// that is made where it matters and is not there yet.
    #[track_caller]
    pub(crate) fn record(
        &self,
        tape: &mut Tape<'_>,
        gradients: Var,
        weights: Var,
        state: &[Var],
        rate: Var,
        number: &mut Option<Var>,
    ) -> Result<()> {
        let dtype = tape.dtype();
        let graph = tape.graph();
        match (*self, state) {
            (Optimizer::Sgd { .. }, []) => {
                graph.task(&op::sgd::CODELET, dtype, &[gradients, rate], &[weights], &[], &[])?;
                Ok(())
            }
            (Optimizer::Sgd { momentum, weight_decay, nesterov }, &[velocity]) => {
                let scalars = [momentum, weight_decay, f64::from(u8::from(nesterov))];
                let outputs = [weights, velocity];
                graph.task(&op::sgd_momentum::CODELET, dtype, &[gradients, rate], &outputs, &[], &scalars)?;
                Ok(())
            }
            (Optimizer::Adam(m) | Optimizer::AdamW(m), &[first, second]) => {
                let step = *number.get_or_insert_with(|| graph.port("step", Dtype::U32, []));
                let scalars = [m.beta1, m.beta2, m.eps, m.weight_decay];
                let codelet = match self {
                    Optimizer::AdamW(_) => &op::adamw::CODELET,
                    _ => &op::adam::CODELET,
                };
                let (inputs, outputs) = ([gradients, rate, step], [weights, first, second]);
                graph.task(codelet, dtype, &inputs, &outputs, &[], &scalars)?;
                Ok(())
            }
            (_, state) => {
                let (n, expected) = (state.len(), self.state_names().len());
                Err(Error::setting(format!("{self} keeps {expected} arrays between steps, not {n}")))
            }
        }
    }
}

/// All settings in a line, which checkpoints keep and compare.
impl fmt::Display for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, m) = match self {
            Optimizer::Sgd { momentum, weight_decay, nesterov } => {
                f.write_str("sgd")?;
                if *momentum != 0.0 {
                    let name = if *nesterov { "nesterov" } else { "momentum" };
                    write!(f, " {name} {momentum}")?;
                }
                if *weight_decay != 0.0 {
                    write!(f, " weight decay {weight_decay}")?;
                }
                return Ok(());
            }
            Optimizer::Adam(m) => ("adam", m),
            Optimizer::AdamW(m) => ("adamw", m),
        };
        write!(f, "{name} betas {} {} eps {} weight decay {}", m.beta1, m.beta2, m.eps, m.weight_decay)
    }
}

/// Reads what `Display` writes.
impl FromStr for Optimizer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::setting(format!("'{text}' is no optimiser as checkpoints spell it"));
        let number = |word: &str| word.parse::<f64>().map_err(|_| unknown());
        let (start, weight_decay) = match text.split_once(" weight decay ") {
            Some((start, weight_decay)) => (start, number(weight_decay)?),
            None => (text, 0.0),
        };
        let sgd = |momentum, nesterov| Optimizer::Sgd { momentum, weight_decay, nesterov };
        match start.split(' ').collect::<Vec<_>>()[..] {
            ["sgd"] => Ok(sgd(0.0, false)),
            ["sgd", name @ ("momentum" | "nesterov"), momentum] => {
                Ok(sgd(number(momentum)?, name == "nesterov"))
            }
            [name @ ("adam" | "adamw"), "betas", beta1, beta2, "eps", eps] => {
                let (beta1, beta2, eps) = (number(beta1)?, number(beta2)?, number(eps)?);
                let moments = Moments { beta1, beta2, eps, weight_decay };
                Ok(if name == "adam" { Optimizer::Adam(moments) } else { Optimizer::AdamW(moments) })
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sgd = |momentum, weight_decay, nesterov| Optimizer::Sgd { momentum, weight_decay, nesterov };
        let all = [
            Optimizer::SGD,
            sgd(0.9, 0.0, false),
            sgd(0.9, 1e-4, true),
            sgd(0.0, 0.5, false),
            Optimizer::Adam(Moments::with_decay(0.0)),
            Optimizer::AdamW(Moments { beta1: 0.8, ..Moments::with_decay(0.01) }),
        ];
        for optimizer in all {
            assert_eq!(optimizer.to_string().parse::<Optimizer>().unwrap(), optimizer, "{optimizer}");
        }
        for text in ["", "sgd fast", "sgd momentum", "adam", "adam betas 1 eps 2"] {
            assert!(text.parse::<Optimizer>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let sgd = |momentum, weight_decay| Optimizer::Sgd { momentum, weight_decay, nesterov: false };
        assert!(Optimizer::SGD.check().is_ok() && sgd(0.9, 1e-4).check().is_ok());
        for bad in
            [sgd(1.0, 0.0), sgd(-0.1, 0.0), sgd(0.9, -1.0), sgd(f64::NAN, 0.0), sgd(0.0, f64::INFINITY)]
        {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        let nesterov = Optimizer::Sgd { momentum: 0.0, weight_decay: 0.0, nesterov: true };
        assert!(nesterov.check().unwrap_err().to_string().contains("needs a momentum"));
        let moments = Moments::with_decay(0.01);
        assert!(Optimizer::AdamW(moments).check().is_ok());
        assert!(Optimizer::Adam(Moments { beta2: 1.0, ..moments }).check().is_err());
    }

    #[test]
    fn only_what_needs_state_has_some() {
        assert!(Optimizer::SGD.state_names().is_empty());
        let decayed = Optimizer::Sgd { momentum: 0.0, weight_decay: 0.1, nesterov: false };
        assert_eq!(decayed.state_names(), ["momentum"]);
        assert_eq!(Optimizer::Adam(Moments::with_decay(0.0)).state_names().len(), 2);
    }
}
