//! What tasks cost, from everything that was measured.
//!
//! [`Models::estimate`] answers for one task: from the history of the same key and condition, else of another
//! condition, else by a law over other shapes of the same code, else by a guess. Each estimate says which of
//! these it is ([`Basis`]) and how far off it may be.

use super::date::Date;
use super::history::{History, Run, RunId};
use super::key::{Condition, Key};
use super::observe::observe;
use super::regression::{Point, Regression, guess};
use crate::robust::median;
use crate::trace::Trace;
use std::collections::BTreeMap;
use std::fmt;

/// What is known about one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Floating-point operations of an execution.
    pub flops: f64,
    /// Bytes that an execution moves.
    pub bytes: usize,
    /// What was measured under each condition.
    pub histories: BTreeMap<Condition, History>,
}

impl Entry {
    /// Adds what another entry knows. Sizes follow from the key, so they are the same; should they not be,
    /// the larger count.
    pub(super) fn merge(&mut self, other: &Entry) {
        self.flops = self.flops.max(other.flops);
        self.bytes = self.bytes.max(other.bytes);
        for (condition, history) in &other.histories {
            self.histories.entry(*condition).or_default().merge(history);
        }
    }

    /// When it was last added to.
    pub fn newest(&self) -> Date {
        self.histories.values().map(History::newest).max().unwrap_or_default()
    }

    /// What an execution is expected to take under exactly this condition.
    fn seconds(&self, condition: Condition) -> Option<f64> {
        self.histories.get(&condition)?.seconds()
    }
}

/// Where an estimate comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// This key was measured under this condition: so many executions in so many runs.
    History {
        /// Executions.
        n: u64,
        /// Runs.
        runs: usize,
    },
    /// This key was measured under another condition only, and what the condition changes was measured for
    /// other keys.
    Scaled {
        /// Executions.
        n: u64,
        /// The condition they were measured under.
        from: Condition,
        /// What their time was multiplied with.
        factor: f64,
    },
    /// Other shapes of the same code were measured.
    Regression {
        /// How many.
        n: usize,
        /// The median relative error of the law for shapes that it was not fitted to.
        error: f64,
    },
    /// So few other shapes of the same code were measured that all they gave is a factor for the rough guess.
    Ratio {
        /// How many.
        n: usize,
        /// The median relative error, likewise; 1 where nothing is known about it.
        error: f64,
    },
    /// Nothing of the like was measured.
    Guess,
}

impl Basis {
    /// The kind of basis in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Basis::History { .. } => "history",
            Basis::Scaled { .. } => "scaled",
            Basis::Regression { .. } => "regression",
            Basis::Ratio { .. } => "ratio",
            Basis::Guess => "guess",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |error: &f64| 100.0 * error;
        match self {
            Basis::History { n, runs } => write!(f, "history ({n} executions, {runs} runs)"),
            Basis::Scaled { n, from, factor } => {
                write!(f, "history ({n} executions, {from} workers) times {factor:.2}")
            }
            Basis::Regression { n, error } => {
                write!(f, "regression ({n} shapes, error {:.0} %)", percent(error))
            }
            Basis::Ratio { n, error } => write!(f, "ratio ({n} shapes, error {:.0} %)", percent(error)),
            Basis::Guess => f.write_str("guess"),
        }
    }
}

/// What an execution is expected to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds.
    pub seconds: f64,
    /// How far an execution may well be from that, in seconds.
    pub deviation: f64,
    /// Where that comes from.
    pub basis: Basis,
}

/// The relative deviation of what is only guessed.
const GUESS_ERROR: f64 = 1.0;

/// Everything that was measured, by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Models {
    pub(super) entries: BTreeMap<Key, Entry>,
}

impl Models {
    /// Models that know nothing.
    pub fn new() -> Models {
        Models::default()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is known, by key.
    pub fn entries(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// What is known about a key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Learns from a trace. Every trace needs a run id of its own; learning twice from the same one changes
    /// nothing.
    pub fn learn(&mut self, trace: &Trace, run: RunId, date: Date) {
        for (key, observed) in observe(trace) {
            for (condition, summary) in observed.summaries {
                let run = Run { id: run, date, summary };
                self.add(key.clone(), observed.flops, observed.bytes, condition, run);
            }
        }
    }

    /// Adds what one run said about one key under one condition. What is no measurement is left out.
    pub fn add(&mut self, key: Key, flops: f64, bytes: usize, condition: Condition, run: Run) {
        if !run.summary.is_sound() {
            return;
        }
        let flops = if flops.is_finite() { flops.max(0.0) } else { 0.0 };
        let mut added = Entry { flops, bytes, ..Entry::default() };
        added.histories.entry(condition).or_default().add(run);
        self.entries.entry(key).or_default().merge(&added);
    }

    /// Adds everything that other models know. In which order and how often models are merged makes no
    /// difference.
    pub fn merge(&mut self, other: &Models) {
        for (key, entry) in &other.entries {
            self.entries.entry(key.clone()).or_default().merge(entry);
        }
    }

    /// Only what runs from this date on said.
    pub fn since(&self, date: Date) -> Models {
        self.with_histories(|history| history.since(date))
    }

    /// All runs of each key and condition as one. A history keeps few runs: what many short traces of one
    /// command said should not push out what all others did.
    pub fn condensed(&self, run: RunId, date: Date) -> Models {
        self.with_histories(|history| history.condensed(run, date))
    }

    fn with_histories(&self, change: impl Fn(&History) -> History) -> Models {
        let mut models = Models::new();
        for (key, entry) in &self.entries {
            let changed = entry.histories.iter().map(|(condition, history)| (*condition, change(history)));
            let histories: BTreeMap<_, _> =
                changed.filter(|(_, history)| !history.runs().is_empty()).collect();
            if !histories.is_empty() {
                models.entries.insert(key.clone(), Entry { histories, ..*entry });
            }
        }
        models
    }

    /// What a task is expected to take: its history; else its history under the nearest other condition,
    /// scaled; else by other shapes of the same code; else a guess. Whatever the numbers, the answer is
    /// finite and not negative.
    pub fn estimate(&self, key: &Key, condition: Condition, flops: f64, bytes: usize) -> Estimate {
        self.by_history(key, condition)
            .or_else(|| self.by_other_condition(key, condition))
            .or_else(|| self.by_other_shapes(key, condition, flops, bytes))
            .unwrap_or_else(|| self.guess(key, condition, flops, bytes))
    }

    fn by_history(&self, key: &Key, condition: Condition) -> Option<Estimate> {
        let history = self.entries.get(key)?.histories.get(&condition)?;
        let basis = Basis::History { n: history.n(), runs: history.runs().len() };
        Some(Estimate { seconds: history.seconds()?, deviation: history.deviation(), basis })
    }

    fn by_other_condition(&self, key: &Key, condition: Condition) -> Option<Estimate> {
        let entry = self.entries.get(key)?;
        let (from, history) = nearest(entry, condition)?;
        let (factor, error) = self.factor(key, from, condition);
        let seconds = history.seconds()? * factor;
        let deviation = (history.deviation() * factor).max(error * seconds);
        Some(Estimate { seconds, deviation, basis: Basis::Scaled { n: history.n(), from, factor } })
    }

    /// How much longer executions take under `to` than under `from`, and how much that differs from key to
    /// key: for the same code, else for any code of the same unit; else nothing is changed.
    fn factor(&self, key: &Key, from: Condition, to: Condition) -> (f64, f64) {
        let ratio = |entry: &Entry| Some(entry.seconds(to)? / entry.seconds(from)?);
        let ratios = |is_like: &dyn Fn(&Key) -> bool| -> Vec<f64> {
            let entries = self.entries.iter().filter(|(other, _)| is_like(other));
            entries.filter_map(|(_, entry)| ratio(entry)).filter(|x| x.is_finite() && *x > 0.0).collect()
        };
        let same = ratios(&|other| other.is_same_code(key));
        let mut found = if same.is_empty() { ratios(&|other| other.unit == key.unit) } else { same };
        if found.is_empty() {
            return (1.0, 0.5);
        }
        let factor = median(&mut found);
        found.iter_mut().for_each(|ratio| *ratio = (*ratio / factor - 1.0).abs());
        (factor, median(&mut found))
    }

    fn by_other_shapes(&self, key: &Key, to: Condition, flops: f64, bytes: usize) -> Option<Estimate> {
        let fit = self.fit(to, |other| other.is_same_code(key))?;
        let Regression { n, error, .. } = fit;
        let seconds = fit.seconds(flops, bytes as f64);
        let basis = if fit.is_ratio() { Basis::Ratio { n, error } } else { Basis::Regression { n, error } };
        let is_sound = seconds.is_finite() && seconds > 0.0;
        is_sound.then_some(Estimate { seconds, deviation: error * seconds, basis })
    }

    /// The law of the keys that are alike, from histories under this condition; where there are too few,
    /// under conditions of the same warmth, or at last any.
    fn fit(&self, condition: Condition, is_like: impl Fn(&Key) -> bool) -> Option<Regression> {
        let like: Vec<&Entry> =
            self.entries.iter().filter(|(other, _)| is_like(other)).map(|(_, entry)| entry).collect();
        let points = |is_near: &dyn Fn(Condition) -> bool| -> Vec<Point> {
            let point = |entry: &&Entry| {
                let (_, history) = nearest(entry, condition).filter(|(from, _)| is_near(*from))?;
                Some(Point { flops: entry.flops, bytes: entry.bytes as f64, seconds: history.seconds()? })
            };
            like.iter().filter_map(point).collect()
        };
        let nearer: [&dyn Fn(Condition) -> bool; 3] =
            [&|from| from == condition, &|from| from.is_cold == condition.is_cold, &|_| true];
        let fits: Vec<Regression> =
            nearer.iter().filter_map(|is_near| Regression::fit(&points(is_near))).collect();
        fits.iter().find(|fit| !fit.is_ratio()).or_else(|| fits.first()).copied()
    }

    /// The rough guess; what is known about other code says whether this machine is faster or slower than
    /// that.
    fn guess(&self, key: &Key, condition: Condition, flops: f64, bytes: usize) -> Estimate {
        let ratio = |(other, entry): (&Key, &Entry)| {
            let (_, history) = nearest(entry, condition).filter(|_| other.unit == key.unit)?;
            Some(history.seconds()? / guess(entry.flops, entry.bytes as f64))
        };
        let ratios = self.entries.iter().filter_map(ratio).filter(|x| x.is_finite() && *x > 0.0);
        let mut ratios: Vec<f64> = ratios.collect();
        let ratio = if ratios.is_empty() { 1.0 } else { median(&mut ratios) };
        let seconds = ratio * guess(flops, bytes as f64);
        Estimate { seconds, deviation: GUESS_ERROR * seconds, basis: Basis::Guess }
    }
}

/// The history whose condition is the most like this one; of two that are equally unlike it, the smaller
/// condition.
fn nearest(entry: &Entry, condition: Condition) -> Option<(Condition, &History)> {
    let histories = entry.histories.iter().filter(|(_, history)| !history.runs().is_empty());
    // With the same workers rather than with the same warmth.
    let unlike = |other: Condition| (condition.distance(other), other.workers != condition.workers);
    histories
        .map(|(other, history)| (*other, history))
        .min_by(|(a, _), (b, _)| unlike(*a).partial_cmp(&unlike(*b)).unwrap_or(std::cmp::Ordering::Equal))
}
