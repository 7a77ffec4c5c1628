//! Programs that take turns: round by round, each for a moment, so that all of them meet the same phases of the machine.

use super::contestant::{Contestant, Memory, Turn};
use super::floor::Floor;
use super::settings::Settings;
use super::torch::{Device, Rival};
use anyhow::{Context, Result};
use dahl::tune::Least;
use indicatif::ProgressBar;
use serde_json::Value;
use std::thread;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub rounds: usize,
    /// The time of a turn.
    pub time: Duration,
}

/// Threads of whoever had the last turn look for work for some milliseconds before they sleep.
const PAUSE: Duration = Duration::from_millis(50);

/// What a program took, round by round.
#[derive(Clone, Debug)]
pub struct Score {
    pub turns: Vec<Turn>,
    pub memory: Memory,
    /// What it told about itself.
    pub about: Value,
}

impl Score {
    /// Seconds of the median step, in the median round.
    pub fn step(&self) -> f64 {
        quantile(self.turns.iter().map(|turn| turn.step_seconds).collect(), 0.5)
    }

    /// Seconds per step over whole turns, in the median round.
    pub fn mean(&self) -> f64 {
        quantile(self.turns.iter().map(|turn| turn.mean_seconds).collect(), 0.5)
    }

    /// How many times as long the other takes: the median over the rounds between its quartiles, of what `of` says about a turn.
    pub fn ratio(&self, other: &Score, of: impl Fn(&Turn) -> f64) -> [f64; 3] {
        let ratios = self.turns.iter().zip(&other.turns).map(|(own, other)| of(other) / of(own));
        let ratios: Vec<f64> = ratios.collect();
        [0.25, 0.5, 0.75].map(|at| quantile(ratios.clone(), at))
    }
}

impl From<Contestant> for Score {
    fn from(contestant: Contestant) -> Score {
        let Contestant { turns, memory, about, .. } = contestant;
        Score { turns, memory, about }
    }
}

/// A rival with what it took, or why it could not be measured.
pub type Scored = (Rival, Result<Score, String>);

/// One network, batch, element type and number of workers, measured.
pub struct Case {
    pub settings: Settings,
    /// Where dahl's cut comes from.
    pub origin: String,
    pub least: Least,
    pub floor: Option<Floor>,
    pub dahl: Score,
    pub rivals: Vec<Scored>,
}

impl Case {
    /// The rival on a device that takes the least time.
    pub fn best(&self, device: Device) -> Option<(&Rival, &Score)> {
        let scores = self.rivals.iter().filter(|(rival, _)| rival.device == device);
        let scores = scores.filter_map(|(rival, score)| Some((rival, score.as_ref().ok()?)));
        scores.min_by(|(_, a), (_, b)| a.step().total_cmp(&b.step()))
    }

    /// The devices that rivals computed on, in their order.
    pub fn devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = self.rivals.iter().map(|(rival, _)| rival.device).collect();
        devices.dedup();
        devices
    }
}

/// Lets dahl and its rivals take turns. A rival that fails takes no more part, and the reason is kept.
pub fn rounds(
    mut dahl: Contestant,
    mut rivals: Vec<(Rival, Result<Contestant>)>,
    effort: Effort,
    bar: &ProgressBar,
) -> Result<(Score, Vec<Scored>)> {
    for round in 0..effort.rounds {
        // Every other round the other way round, so that nobody always follows the same one.
        let n = rivals.len() + 1;
        let order = (0..n).map(|place| if round % 2 == 0 { place } else { n - 1 - place });
        for place in order {
            thread::sleep(PAUSE);
            match place.checked_sub(1).map(|i| &mut rivals[i].1) {
                None => dahl.turn(effort.time).context("dahl itself cannot be measured")?,
                Some(rival) => {
                    let failed = rival.as_mut().ok().and_then(|rival| rival.turn(effort.time).err());
                    if let Some(error) = failed {
                        *rival = Err(error);
                    }
                }
            }
            bar.inc(1);
        }
    }
    let score = |(rival, contestant): (Rival, Result<Contestant>)| {
        (rival, contestant.map(Score::from).map_err(|error| format!("{error:#}")))
    };
    Ok((dahl.into(), rivals.into_iter().map(score).collect()))
}

/// The value below which the share `at` of all values lies, between neighbours in proportion; NaN of nothing.
fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    values.sort_unstable_by(f64::total_cmp);
    let place = at * last as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(vec![3.0, 1.0], 0.5), 2.0);
        assert_eq!(quantile(vec![5.0, 1.0, 3.0], 0.25), 2.0);
        assert_eq!(quantile(vec![7.0], 0.75), 7.0);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let score = |steps: [f64; 3]| Score {
            turns: steps.map(|step_seconds| Turn { step_seconds, mean_seconds: 1.0 }).to_vec(),
            memory: Memory::default(),
            about: Value::Null,
        };
        // Everything takes ten times as long in the second round.
        let (own, other) = (score([1.0, 10.0, 1.0]), score([2.0, 30.0, 4.0]));
        assert_eq!(own.ratio(&other, |turn| turn.step_seconds), [2.5, 3.0, 3.5]);
        assert_eq!(own.ratio(&other, |turn| turn.mean_seconds), [1.0; 3]);
        assert_eq!((own.step(), other.step()), (1.0, 4.0));
    }
}
