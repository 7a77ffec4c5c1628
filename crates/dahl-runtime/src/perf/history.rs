//! What runs said about one key under one condition, newest first.
//!
//! A history keeps the newest [`N_RUNS`] runs. Merging takes the union, so it does not matter in which order,
//! how often or in which groups histories are merged; where two say different things about one run, the later
//! and longer one counts.
//!
//! **The estimate** is a weighted median over runs. A run counts 3/4 as much as the one after it, because the
//! machine is more likely to be as it was lately than as it was last month; and a run of few executions
//! counts less than one of many. Of three or more runs that are long alike, no single one, not even the
//! newest, has half of the weight, so one noisy run cannot spoil the estimate; and after a change (other
//! clocks, a busy neighbour) two or three runs bring it to where the machine is now. Of one or two runs, or
//! of a long one among very short ones, the heaviest decides alone.

use super::date::Date;
use super::summary::Summary;
use crate::hash::Fingerprint;
use crate::robust::{deviation, median, weighted_median};
use crate::words::Words;
use std::fmt;

/// Runs that a history keeps.
pub const N_RUNS: usize = 8;
/// How much less each older run counts.
const AGEING: f64 = 0.75;
/// A run with this many executions counts half.
const HALF_WEIGHT: f64 = 4.0;

/// Tells runs apart: whoever learns from a trace gives it one of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl RunId {
    /// The id of a run that this text describes and no other: when it began, in which process, which trace of
    /// it.
    pub fn of(text: impl fmt::Display) -> RunId {
        let digits = Fingerprint::of(text).to_string();
        RunId(u64::from_str_radix(&digits[..16], 16).unwrap_or(0))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What one run said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Which run.
    pub id: RunId,
    /// When.
    pub date: Date,
    /// What it said.
    pub summary: Summary,
}

impl Run {
    /// A total order, the newest last. Times are compared as well, so that it is one.
    fn order(&self, other: &Run) -> std::cmp::Ordering {
        let times = |run: &Run| {
            let Summary { typical, median, deviation, minimum, mean, .. } = run.summary;
            [typical, median, deviation, minimum, mean].map(f64::to_bits)
        };
        let place = |run: &Run| (run.date, run.id, run.summary.n, run.summary.n_outliers, times(run));
        place(self).cmp(&place(other))
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<Run, String> {
        let id = words.word("the id of a run")?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(id, 16).ok().filter(|_| is_id);
        Ok(Run {
            id: RunId(id.ok_or("the id of a run is not 16 hexadecimal digits")?),
            date: Date(words.number("a date in nanoseconds")?),
            summary: Summary::read(words)?,
        })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.id, self.date.0, self.summary)
    }
}

/// The newest runs, newest first, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(Vec<Run>);

impl History {
    /// The runs, newest first.
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run) {
        self.0.push(run);
        self.tidy();
    }

    /// Adds all runs of another history.
    pub fn merge(&mut self, other: &History) {
        self.0.extend_from_slice(&other.0);
        self.tidy();
    }

    /// All runs at once, in any order.
    pub(super) fn of(runs: Vec<Run>) -> History {
        let mut history = History(runs);
        history.tidy();
        history
    }

    fn tidy(&mut self) {
        self.0.sort_by(|a, b| b.order(a));
        let mut seen = Vec::with_capacity(self.0.len());
        self.0.retain(|run| {
            let is_new = !seen.contains(&run.id);
            seen.push(run.id);
            is_new
        });
        self.0.truncate(N_RUNS);
    }

    /// Only the runs from this date on.
    pub fn since(&self, date: Date) -> History {
        History(self.0.iter().filter(|run| run.date >= date).copied().collect())
    }

    /// All runs as one of this id and date.
    pub fn condensed(&self, id: RunId, date: Date) -> History {
        let parts: Vec<Summary> = self.0.iter().map(|run| run.summary).collect();
        History(Summary::combined(&parts).map(|summary| Run { id, date, summary }).into_iter().collect())
    }

    /// Runs that are dated later than this count as the oldest from now on, or they would stay the newest for
    /// ever. Returns how many there were.
    pub(super) fn distrust_after(&mut self, date: Date) -> usize {
        let late = self.0.iter_mut().filter(|run| run.date > date);
        let n_late = late.map(|run| run.date = Date::UNKNOWN).count();
        if n_late > 0 {
            self.tidy();
        }
        n_late
    }

    /// When it was last added to.
    pub fn newest(&self) -> Date {
        self.0.first().map_or(Date::UNKNOWN, |run| run.date)
    }

    /// Executions that count, of all runs.
    pub fn n(&self) -> u64 {
        self.0.iter().map(|run| run.summary.n).fold(0, u64::saturating_add)
    }

    /// The weighted median over runs of what `of` says about each.
    fn weighted(&self, of: impl Fn(&Summary) -> f64) -> Option<f64> {
        let mut weight = 1.0;
        let mut values = Vec::new();
        for run in &self.0 {
            let n = run.summary.n as f64;
            values.push((of(&run.summary), weight * n / (n + HALF_WEIGHT)));
            weight *= AGEING;
        }
        (!values.is_empty()).then(|| weighted_median(&mut values))
    }

    /// What an execution is expected to take; nothing if there is no run.
    pub fn seconds(&self) -> Option<f64> {
        self.weighted(|summary| summary.typical)
    }

    /// How far executions are from that, usually: the larger of the deviation within runs and that between
    /// them.
    pub fn deviation(&self) -> f64 {
        let mut typical: Vec<f64> = self.0.iter().map(|run| run.summary.typical).collect();
        let middle = median(&mut typical);
        self.weighted(|summary| summary.deviation).unwrap_or(0.0).max(deviation(&typical, middle))
    }
}
