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
        Position { epoch: self.epoch.saturating_add(1), step: self.step, ..Position::START }
    }

    /// Writes itself into the settings of a checkpoint. Numbers are printed so that they are read back to the
    /// last bit.
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

    /// Refuses a position that no run is ever in that has `n_images` training images and takes `batch` of
    /// them in a step.
    pub fn check(&self, n_images: usize, batch: usize) -> Result<()> {
        let wrong = |why: String| {
            Err(Error::setting(format!(
                "the checkpoint is of no run on these images: {why}; take another one"
            )))
        };
        let Position { epoch, batch: n_done, step, sums, is_told } = *self;
        let n_batches = n_images.div_ceil(batch.max(1));
        if epoch == 0 {
            return wrong("its epoch is 0, and they are counted from 1".into());
        }
        if n_done > n_batches {
            return wrong(format!("{n_done} batches of its epoch are done, and an epoch has {n_batches}"));
        }
        if n_done == n_batches && is_told {
            return wrong(format!(
                "its epoch has no batch left after {n_done}, and yet it is not the next one"
            ));
        }
        let expected = (epoch as u64 - 1).checked_mul(n_batches as u64);
        if expected.and_then(|steps| steps.checked_add(n_done as u64)) != Some(step) {
            return wrong(format!(
                "it is at step {step}, which is not after {n_done} of {n_batches} batches of epoch {epoch}"
            ));
        }
        let seen = n_done.saturating_mul(batch).min(n_images);
        if sums.n_images != seen {
            return wrong(format!("its epoch has seen {} images, and not {seen}", sums.n_images));
        }
        if !(0.0..=seen as f64).contains(&sums.correct) {
            return wrong(format!("{} of {seen} images were answered correctly", sums.correct));
        }
        if !sums.loss.is_finite() {
            return wrong(format!("the losses of its epoch add up to {}", sums.loss));
        }
        Ok(())
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

    #[test]
    fn a_position_that_no_run_is_in_is_refused() {
        // 10 images, 4 at a time: three batches, the last of two.
        let sums = Sums { loss: 1.0, correct: 3.0, n_images: 8 };
        let good = Position { epoch: 3, batch: 2, step: 8, sums, is_told: true };
        let check = |position: Position| position.check(10, 4);
        check(good).unwrap();
        check(Position::START).unwrap();
        let end = Position { batch: 3, step: 9, sums: Sums { n_images: 10, ..sums }, is_told: false, ..good };
        check(end).unwrap();
        check(end.next_epoch()).unwrap();
        for wrong in [
            Position { epoch: 0, ..good },
            Position { epoch: 2, ..good },
            Position { epoch: usize::MAX, ..good },
            Position { batch: 1, ..good },
            Position { batch: 4, step: 10, ..end },
            Position { batch: usize::MAX, ..end },
            Position { step: 9, ..good },
            Position { step: u64::MAX, ..good },
            Position { is_told: true, ..end },
            Position { sums: Sums { n_images: 7, ..sums }, ..good },
            Position { sums: Sums { correct: 9.0, ..sums }, ..good },
            Position { sums: Sums { correct: -1.0, ..sums }, ..good },
            Position { sums: Sums { correct: f64::NAN, ..sums }, ..good },
            Position { sums: Sums { loss: f64::INFINITY, ..sums }, ..good },
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains("of no run on these images"), "{wrong:?}: {error}");
        }
    }
}
