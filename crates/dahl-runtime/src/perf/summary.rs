//! What the executions of one task took in one run, in a few numbers.
//!
//! Times of tasks have a floor, noise above it, now and then an execution in which the system took the core away, and phases:
//! shared hardware runs the same code at another speed for seconds or minutes. So nothing here is a plain mean over
//! everything.
//!
//! - *Outliers*: executions that take longer than the median and [`OUTLIER_SIGMAS`] deviations are counted and left out; if more
//!   than one in ten does, that is no exception but how it is, and all count.
//! - *Typical*: the median of the means of up to [`N_BLOCKS`] stretches of executions. Steps are sums of tasks, and means add up
//!   where medians do not; the median over stretches follows the phase that lasted longest, as the median step does.

use super::words::Words;
use std::fmt;

/// An execution this many deviations above the median is an outlier.
pub const OUTLIER_SIGMAS: f64 = 5.0;
/// The least deviation that outliers are told by, relative to the median: clocks are not exact.
const LEAST_DEVIATION: f64 = 0.02;
/// Stretches of which the typical time is the median.
pub const N_BLOCKS: usize = 15;
/// Executions in a stretch, at least.
const MIN_BLOCK: usize = 4;
/// What a median absolute deviation is multiplied with to be the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;

/// The executions of one task in one run. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Executions that count.
    pub n: u64,
    /// Executions that took so long that something else must have happened; they are in none of the other numbers.
    pub n_outliers: u64,
    /// What one execution adds to a step: the median of the means of stretches; of executions in a trace, scaled so that a
    /// step's sum is that of the median step.
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
    /// Sums up executions in the order in which they happened; nothing if there are none. What is no time (negative or not finite)
    /// is left out.
    pub fn of(seconds: &[f64]) -> Option<Summary> {
        let times: Vec<f64> =
            seconds.iter().copied().filter(|time| time.is_finite() && *time >= 0.0).collect();
        let (middle, sigma) = (median(times.clone())?, deviation(&times));
        let limit = middle + OUTLIER_SIGMAS * sigma.max(LEAST_DEVIATION * middle);
        let n_beyond = times.iter().filter(|&&time| time > limit).count();
        let limit = if n_beyond * 10 > times.len() { f64::INFINITY } else { limit };
        let kept: Vec<f64> = times.iter().copied().filter(|&time| time <= limit).collect();
        let block = kept.len().div_ceil(N_BLOCKS).max(MIN_BLOCK);
        // A last stretch that is much shorter than the others would count as much as they do.
        let n_blocks = (kept.len() / block).max(1);
        let blocks = (0..n_blocks).map(|i| &kept[i * kept.len() / n_blocks..(i + 1) * kept.len() / n_blocks]);
        Some(Summary {
            n: kept.len() as u64,
            n_outliers: (times.len() - kept.len()) as u64,
            typical: median(blocks.map(mean).collect())?,
            median: median(kept.clone())?,
            deviation: deviation(&kept),
            minimum: kept.iter().copied().fold(f64::INFINITY, f64::min),
            mean: mean(&kept),
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

/// The value in the middle, or the mean of the two that are.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}

/// Standard deviation by the median absolute deviation.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let Some(middle) = median(values.to_vec()) else { return 0.0 };
    MAD_TO_SIGMA * median(values.iter().map(|value| (value - middle).abs()).collect()).unwrap_or(0.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
