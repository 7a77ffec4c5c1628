//! Programs that take turns: round by round, each for a moment, so that all of them meet the same phases of
//! the machine.

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

    /// How many times as long the other takes: the median over the rounds between its quartiles, of what `of`
    /// says about a turn.
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

/// A turn was disturbed if its median step took so many times as long as is usual for its program, or its
/// mean step so many times as long as its median one: somebody else had the cores. What phases of a shared
/// machine come to is far less.
const DISTURBED: f64 = 1.5;

/// The rounds to keep, `n` of all that there were, and how many of those were disturbed: whoever waits for
/// others at every step loses far more by that than whoever does not, so their ratio says nothing. `programs`
/// have their turns round by round.
fn calmest(programs: &[&[Turn]], n: usize) -> (Vec<usize>, usize) {
    let n_rounds = programs.iter().map(|turns| turns.len()).min().unwrap_or(0);
    let mut strains = vec![0.0_f64; n_rounds];
    for turns in programs {
        // Some rounds are calm, as a rule.
        let usual = quantile(turns.iter().map(|turn| turn.step_seconds).collect(), 0.25);
        for (strain, turn) in strains.iter_mut().zip(*turns) {
            *strain = strain.max(turn.step_seconds / usual).max(turn.mean_seconds / turn.step_seconds);
        }
    }
    let mut kept: Vec<usize> = (0..n_rounds).collect();
    kept.sort_by(|&a, &b| strains[a].total_cmp(&strains[b]));
    kept.truncate(n);
    kept.sort_unstable();
    let n_disturbed = kept.iter().filter(|&&round| strains[round] > DISTURBED).count();
    (kept, n_disturbed)
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
    /// Rounds that were disturbed, although others were measured in place of such.
    pub n_disturbed: usize,
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

/// What everybody took, and how many rounds of it were disturbed.
pub struct Found {
    pub dahl: Score,
    pub rivals: Vec<Scored>,
    pub n_disturbed: usize,
}

/// Lets dahl and its rivals take turns. A rival that fails takes no more part, and the reason is kept. For
/// disturbed rounds there are others, as many again at most.
pub fn rounds(
    mut dahl: Contestant,
    mut rivals: Vec<(Rival, Result<Contestant>)>,
    effort: Effort,
    bar: &ProgressBar,
) -> Result<Found> {
    for round in 0..2 * effort.rounds {
        if round >= effort.rounds {
            if calmest(&turns(&dahl, &rivals), effort.rounds).1 == 0 {
                break;
            }
            bar.inc_length(rivals.len() as u64 + 1);
        }
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
    let (kept, n_disturbed) = calmest(&turns(&dahl, &rivals), effort.rounds);
    for contestant in rivals.iter_mut().filter_map(|(_, rival)| rival.as_mut().ok()).chain([&mut dahl]) {
        contestant.turns = kept.iter().map(|&round| contestant.turns[round]).collect();
    }
    let score = |(rival, contestant): (Rival, Result<Contestant>)| {
        (rival, contestant.map(Score::from).map_err(|error| format!("{error:#}")))
    };
    Ok(Found { dahl: dahl.into(), rivals: rivals.into_iter().map(score).collect(), n_disturbed })
}

/// The turns of all that take part.
fn turns<'a>(dahl: &'a Contestant, rivals: &'a [(Rival, Result<Contestant>)]) -> Vec<&'a [Turn]> {
    let rivals = rivals.iter().filter_map(|(_, rival)| rival.as_ref().ok());
    rivals.chain([dahl]).map(|contestant| contestant.turns.as_slice()).collect()
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
    fn disturbed_rounds_are_left_out_as_long_as_there_are_others() {
        let turn = |step_seconds: f64, mean_seconds: f64| Turn { step_seconds, mean_seconds };
        let calm = [turn(1.0, 1.0), turn(1.3, 1.4), turn(1.0, 1.0), turn(1.0, 1.1)];
        // In one round three times as slow, in another interrupted for half of the time.
        let waiting = [turn(2.0, 2.0), turn(2.1, 2.1), turn(6.0, 6.0), turn(2.0, 4.0)];
        assert_eq!(calmest(&[&calm, &waiting], 2), (vec![0, 1], 0));
        assert_eq!(calmest(&[&calm, &waiting], 3), (vec![0, 1, 3], 1));
        assert_eq!(calmest(&[&calm, &waiting], 4), (vec![0, 1, 2, 3], 2));
        assert_eq!(calmest(&[&calm], 4), (vec![0, 1, 2, 3], 0));
        assert_eq!(calmest(&[&[]], 4), (vec![], 0));
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
