//! Where a run of training is: everything beside arrays that a checkpoint must hold to go on.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// What a step came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Metrics {
    /// Mean loss.
    pub loss: f64,
    /// Images answered correctly.
    pub correct: f64,
    pub n_images: usize,
}

/// Sums over the images of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub loss: f64,
    pub correct: f64,
    pub n_images: usize,
}

impl Sums {
    pub fn add(&mut self, step: Metrics) {
        self.loss += step.loss * step.n_images as f64;
        self.correct += step.correct;
        self.n_images += step.n_images;
    }

    /// Mean loss and share of correct answers.
    pub fn means(&self) -> (f64, f64) {
        let n = self.n_images.max(1) as f64;
        (self.loss / n, self.correct / n)
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    /// The epoch that is under way, from 1.
    pub epoch: usize,
    /// Batches of it that are done.
    pub batch: usize,
    /// Steps since the beginning.
    pub step: u64,
    /// What the epoch came to so far.
    pub sums: Sums,
    /// Whether that was evaluated and told.
    pub is_told: bool,
}

impl Position {
    pub const START: Position = Position {
        epoch: 1,
        batch: 0,
        step: 0,
        sums: Sums { loss: 0.0, correct: 0.0, n_images: 0 },
        is_told: false,
    };

    /// The first batch of the epoch after this one.
    pub fn next_epoch(&self) -> Self {
        Position { epoch: self.epoch + 1, step: self.step, ..Position::START }
    }

    /// Writes itself into the settings of a checkpoint. Numbers are printed so that they are read back to the last bit.
    pub fn save(&self, settings: &mut BTreeMap<String, String>) {
        let mut put = |key: &str, value: &dyn Display| settings.insert(key.into(), value.to_string());
        put("position.epoch", &self.epoch);
        put("position.batch", &self.batch);
        put("position.step", &self.step);
        put("position.loss", &self.sums.loss);
        put("position.correct", &self.sums.correct);
        put("position.images", &self.sums.n_images);
        put("position.is_told", &self.is_told);
    }

    /// Reads itself from the settings of a checkpoint.
    pub fn load(settings: &BTreeMap<String, String>) -> Result<Self> {
        Ok(Position {
            epoch: number(settings, "position.epoch")?,
            batch: number(settings, "position.batch")?,
            step: number(settings, "position.step")?,
            sums: Sums {
                loss: number(settings, "position.loss")?,
                correct: number(settings, "position.correct")?,
                n_images: number(settings, "position.images")?,
            },
            is_told: number(settings, "position.is_told")?,
        })
    }
}

fn number<N: FromStr>(settings: &BTreeMap<String, String>, key: &str) -> Result<N> {
    let value = settings.get(key).map(String::as_str).unwrap_or_default();
    let wrong = || {
        let message = format!("the checkpoint has '{value}' for {key}, where a number should be");
        Error::setting(format!("{message}: it was not written by this version of dahl"))
    };
    value.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_to_the_last_bit() {
        let sums = Sums { loss: 0.1 + 0.2, correct: 1e15 / 3.0, n_images: 97 };
        let position = Position { epoch: 3, batch: 17, step: 1 << 40, sums, is_told: true };
        let mut settings = BTreeMap::new();
        position.save(&mut settings);
        assert_eq!(Position::load(&settings).unwrap(), position);
        settings.insert("position.step".into(), "many".into());
        assert!(Position::load(&settings).unwrap_err().to_string().contains("'many' for position.step"));
    }
}
