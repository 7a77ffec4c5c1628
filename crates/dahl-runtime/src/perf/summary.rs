//! What the executions of one task took in one run, in a few numbers.
//!
//! Times of tasks have a floor, noise above it, now and then an execution in which the system took the core
//! away, and phases: shared hardware runs the same code at another speed for seconds or minutes. So nothing
//! here is a plain mean over everything.
//!
//! - *Outliers*: executions that take longer than the median and [`OUTLIER_SIGMAS`] deviations are counted
//!   and left out; if more than one in ten does, that is no exception but how it is, and all count.
//! - *Typical*: the median of the means of up to [`N_BLOCKS`] stretches of executions. Steps are sums of
//!   tasks, and means add up where medians do not; the median over stretches follows the phase that lasted
//!   longest, as the median step does.

use crate::robust::{deviation, median, weighted_median};
use crate::words::Words;
use std::fmt;

/// An execution this many deviations above the median is an outlier.
pub const OUTLIER_SIGMAS: f64 = 5.0;
/// The least deviation that outliers are told by, relative to the median: clocks are not exact.
const LEAST_DEVIATION: f64 = 0.02;
/// Stretches of which the typical time is the median.
pub const N_BLOCKS: usize = 15;
/// Executions in a stretch, at least.
const MIN_BLOCK: usize = 4;

/// The executions of one task in one run. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Executions that count.
    pub n: u64,
    /// Executions that took so long that something else must have happened; they are in none of the other
    /// numbers.
    pub n_outliers: u64,
    /// What one execution adds to a step: the median of the means of stretches; of executions in a trace,
    /// scaled so that a step's sum is that of the median step.
    pub typical: f64,
    /// The median execution.
    pub median: f64,
    /// Standard deviation of executions, from the median absolute deviation.
    pub deviation: f64,
    /// The fastest execution.
    pub minimum: f64,
    /// The mean execution.
    pub mean: f64,
}

impl Summary {
    /// Sums up executions in the order in which they happened; nothing if there are none. What is no time
    /// (negative or not finite) is left out.
    pub fn of(seconds: &[f64]) -> Option<Summary> {
        let times: Vec<f64> =
            seconds.iter().copied().filter(|time| time.is_finite() && *time >= 0.0).collect();
        if times.is_empty() {
            return None;
        }
        let middle = median(&mut times.clone());
        let sigma = deviation(&times, middle);
        let limit = middle + OUTLIER_SIGMAS * sigma.max(LEAST_DEVIATION * middle);
        let n_beyond = times.iter().filter(|&&time| time > limit).count();
        let limit = if n_beyond * 10 > times.len() { f64::INFINITY } else { limit };
        let kept: Vec<f64> = times.iter().copied().filter(|&time| time <= limit).collect();
        let block = kept.len().div_ceil(N_BLOCKS).max(MIN_BLOCK);
        // A last stretch that is much shorter than the others would count as much as they do.
        let n_blocks = (kept.len() / block).max(1);
        let blocks = (0..n_blocks).map(|i| &kept[i * kept.len() / n_blocks..(i + 1) * kept.len() / n_blocks]);
        let middle = median(&mut kept.clone());
        Some(Summary {
            n: kept.len() as u64,
            n_outliers: (times.len() - kept.len()) as u64,
            typical: median(&mut blocks.map(mean).collect::<Vec<f64>>()),
            median: middle,
            deviation: deviation(&kept, middle),
            minimum: kept.iter().copied().fold(f64::INFINITY, f64::min),
            mean: mean(&kept),
        })
    }

    /// Sums up what several stretches of one run said; nothing if there are none. A stretch counts as much as
    /// it has executions.
    pub fn combined(parts: &[Summary]) -> Option<Summary> {
        let total: f64 = parts.iter().map(|part| part.n as f64).sum();
        let middle = |of: &dyn Fn(&Summary) -> f64| {
            weighted_median(&mut parts.iter().map(|part| (of(part), part.n as f64)).collect::<Vec<_>>())
        };
        let median = middle(&|part| part.median);
        let between: Vec<f64> = parts.iter().map(|part| part.median).collect();
        (total > 0.0).then(|| Summary {
            n: parts.iter().map(|part| part.n).fold(0, u64::saturating_add),
            n_outliers: parts.iter().map(|part| part.n_outliers).fold(0, u64::saturating_add),
            typical: middle(&|part| part.typical),
            median,
            deviation: middle(&|part| part.deviation).max(deviation(&between, median)),
            minimum: parts.iter().map(|part| part.minimum).fold(f64::INFINITY, f64::min),
            mean: parts.iter().map(|part| part.mean * (part.n as f64 / total)).sum(),
        })
    }

    /// Whether it can be a measurement: there are executions, and no time is negative or not finite.
    pub fn is_sound(&self) -> bool {
        let times = [self.typical, self.median, self.deviation, self.minimum, self.mean];
        self.n > 0 && times.iter().all(|time| time.is_finite() && *time >= 0.0)
    }

    pub(super) fn read(words: &mut Words<'_>) -> Result<Summary, String> {
        let summary = Summary {
            n: words.number("a number of executions")?,
            n_outliers: words.number("a number of outliers")?,
            typical: words.amount("a time")?,
            median: words.amount("a time")?,
            deviation: words.amount("a time")?,
            minimum: words.amount("a time")?,
            mean: words.amount("a time")?,
        };
        if summary.n == 0 { Err("a run without executions".to_string()) } else { Ok(summary) }
    }
}

impl fmt::Display for Summary {
    /// The words of a file; numbers come back as they were, bit by bit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { n, n_outliers, typical, median, deviation, minimum, mean } = self;
        write!(f, "{n} {n_outliers} {typical:e} {median:e} {deviation:e} {minimum:e} {mean:e}")
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
