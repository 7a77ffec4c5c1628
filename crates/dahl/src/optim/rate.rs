//! The learning rate from step to step.

use crate::error::{Error, Result};
use crate::op::power::whole_power;
use std::f64::consts::FRAC_PI_2;
use std::fmt;
use std::str::FromStr;

/// The learning rate of every step: a base, an optional warm-up, and a decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRate {
    /// The rate after the warm-up, before any decay.
    pub base: f64,
    /// Steps during which the rate rises evenly from `base / warm_up` to `base`.
    pub warm_up: u64,
    /// What happens to it then.
    pub decay: Decay,
}

/// How a learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// It stays.
    Constant,
    /// It is multiplied by `factor` after every so many steps.
    Steps {
        /// Steps between two falls.
        every: u64,
        /// What is left of the rate.
        factor: f64,
    },
    /// Evenly to `floor` at the last step of the run.
    Linear {
        /// The last rate.
        floor: f64,
    },
    /// By half a period of the cosine, to `floor` at the last step of the run.
    Cosine {
        /// The last rate.
        floor: f64,
    },
}

impl LearningRate {
    /// The same rate at every step.
    pub fn constant(base: f64) -> Self {
        LearningRate { base, warm_up: 0, decay: Decay::Constant }
    }

    /// The rate of a step (from 0) in a run of `n_steps`.
    pub fn at(&self, step: u64, n_steps: u64) -> f64 {
        if step < self.warm_up {
            return self.base * (step + 1) as f64 / self.warm_up as f64;
        }
        let since = step - self.warm_up;
        // How much of the way to the last step is behind us.
        let n_after = n_steps.saturating_sub(self.warm_up + 1).max(1);
        let way = (since as f64 / n_after as f64).min(1.0);
        match self.decay {
            Decay::Constant => self.base,
            Decay::Steps { every, factor } => {
                // By squaring, not by a library's power: the same bits on every machine.
                self.base * whole_power(factor, since / every.max(1))
            }
            Decay::Linear { floor } => self.base + (floor - self.base) * way,
            Decay::Cosine { floor } => floor + (self.base - floor) * half_cosine(way),
        }
    }

    /// Refuses rates that make no sense.
    pub fn check(&self) -> Result<()> {
        let from_zero = |name: &str, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(Error::setting(format!("the {name} must be a number from 0 up, not {value}"))),
        };
        from_zero("learning rate", self.base)?;
        match self.decay {
            Decay::Constant => Ok(()),
            Decay::Steps { every: 0, .. } => {
                Err(Error::setting("the learning rate cannot fall every 0 steps"))
            }
            Decay::Steps { factor, .. } => from_zero("factor of the learning rate", factor),
            Decay::Linear { floor } | Decay::Cosine { floor } => from_zero("last learning rate", floor),
        }
    }
}

/// All settings in a line, which checkpoints keep and compare.
impl fmt::Display for LearningRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.base)?;
        if self.warm_up > 0 {
            write!(f, " after {} steps of warm-up", self.warm_up)?;
        }
        match self.decay {
            Decay::Constant => Ok(()),
            Decay::Steps { every, factor } => write!(f, ", times {factor} every {every} steps"),
            Decay::Linear { floor } => write!(f, ", evenly down to {floor}"),
            Decay::Cosine { floor } => write!(f, ", by a cosine down to {floor}"),
        }
    }
}

/// Reads what `Display` writes.
impl FromStr for LearningRate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || Error::setting(format!("'{text}' is no learning rate as checkpoints spell it"));
        let number = |word: &str| word.parse::<f64>().map_err(|_| unknown());
        let count = |word: &str| word.parse::<u64>().map_err(|_| unknown());
        let (start, decay) = text.split_once(", ").unwrap_or((text, ""));
        let (base, warm_up) = match start.split(' ').collect::<Vec<_>>()[..] {
            [base] => (number(base)?, 0),
            [base, "after", steps, "steps", "of", "warm-up"] => (number(base)?, count(steps)?),
            _ => return Err(unknown()),
        };
        let decay = match decay.split(' ').collect::<Vec<_>>()[..] {
            [""] => Decay::Constant,
            ["times", factor, "every", steps, "steps"] => {
                Decay::Steps { every: count(steps)?, factor: number(factor)? }
            }
            ["evenly", "down", "to", floor] => Decay::Linear { floor: number(floor)? },
            ["by", "a", "cosine", "down", "to", floor] => Decay::Cosine { floor: number(floor)? },
            _ => return Err(unknown()),
        };
        Ok(LearningRate { base, warm_up, decay })
    }
}

/// `(1 + cos(π way)) / 2 = cos²(π way / 2)` for `way` in 0..=1. The bits of a library's cosine depend on the
/// machine, so this sums the series, which on a quarter period has all digits after eleven terms.
fn half_cosine(way: f64) -> f64 {
    let x = FRAC_PI_2 * way;
    let square = x * x;
    // Σ (-1)ᵏ x²ᵏ / (2k)!, from the smallest term up, each written as a factor of the one before.
    let mut sum = 1.0;
    for k in (1..=11).rev() {
        sum = 1.0 - sum * square / f64::from((2 * k - 1) * (2 * k));
    }
    sum * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let decays = [
            Decay::Constant,
            Decay::Steps { every: 30, factor: 0.1 },
            Decay::Linear { floor: 0.0 },
            Decay::Cosine { floor: 1e-7 },
        ];
        for (decay, warm_up) in decays.into_iter().flat_map(|decay| [(decay, 0), (decay, 5)]) {
            let rate = LearningRate { base: 0.003, warm_up, decay };
            assert_eq!(rate.to_string().parse::<LearningRate>().unwrap(), rate, "{rate}");
        }
        for text in ["", "fast", "0.1 after", "0.1, slowly", "0.1 after 5 steps of warm-up, evenly down to"] {
            assert!(text.parse::<LearningRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn half_a_cosine_is_that_of_the_library() {
        for i in 0..=1000 {
            let way = f64::from(i) / 1000.0;
            let expected = (1.0 + (std::f64::consts::PI * way).cos()) / 2.0;
            assert!((half_cosine(way) - expected).abs() < 1e-15, "{way}");
        }
    }

    #[test]
    fn rates_warm_up_and_fall() {
        let rate = |decay| LearningRate { base: 0.1, warm_up: 4, decay };
        let constant = rate(Decay::Constant);
        let start: Vec<f64> = (0..6).map(|step| constant.at(step, 10)).collect();
        assert_eq!(start, [0.025, 0.05, 0.1 * 3.0 / 4.0, 0.1, 0.1, 0.1]);
        let steps = rate(Decay::Steps { every: 2, factor: 0.5 });
        assert_eq!([4, 5, 6, 7, 8].map(|step| steps.at(step, 10)), [0.1, 0.1, 0.05, 0.05, 0.025]);
        for decay in [Decay::Linear { floor: 0.01 }, Decay::Cosine { floor: 0.01 }] {
            let rates: Vec<f64> = (4..14).map(|step| rate(decay).at(step, 14)).collect();
            assert_eq!(rates[0], 0.1, "{decay:?}");
            assert!((rates[9] - 0.01).abs() < 1e-12, "{decay:?} {rates:?}");
            assert!(rates.is_sorted_by(|a, b| a > b), "{decay:?} {rates:?}");
            // Beyond the end it stays.
            assert!((rate(decay).at(99, 14) - 0.01).abs() < 1e-12);
        }
        // A run of one step does not divide by zero.
        assert_eq!(LearningRate { base: 0.1, warm_up: 0, decay: Decay::Linear { floor: 0.0 } }.at(0, 1), 0.1);
    }

    #[test]
    fn rates_that_make_no_sense_are_refused() {
        for base in [-0.1, f64::NAN, f64::INFINITY] {
            let message = LearningRate::constant(base).check().unwrap_err().to_string();
            assert!(message.contains("must be a number from 0 up"), "{message}");
        }
        let falls = LearningRate { base: 0.1, warm_up: 0, decay: Decay::Steps { every: 0, factor: 0.5 } };
        assert!(falls.check().is_err());
    }
}
