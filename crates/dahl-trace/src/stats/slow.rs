//! Implementations that are slower than they need to be.

use super::robust::{median, weighted_median};
use super::{By, Row, Statistics, grouped};
use dahl_runtime::codelet::Codelet;
use dahl_runtime::machine::Peaks;
use std::collections::{BTreeMap, BTreeSet};

/// How an implementation shows that it is slow.
#[derive(Clone, Debug, PartialEq)]
pub enum SlowReason {
    /// Another implementation did the same work faster in the same trace.
    Beside {
        /// The other one.
        other: String,
        /// How many times as long this one took, in the median.
        ratio: f64,
    },
    /// It is the scalar reference, and there are others.
    Reference {
        /// The others.
        others: Vec<String>,
    },
    /// It is much further from what the machine can do than the other codelets of the trace.
    FarFromPeak {
        /// How many times further than the other codelets in the median.
        times: f64,
    },
}

/// An implementation that is slower than it needs to be.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowImplementation {
    /// The codelet.
    pub codelet: String,
    /// The implementation.
    pub implementation: String,
    /// Its share of the workers' time within steps.
    pub share: f64,
    /// How that shows.
    pub reason: SlowReason,
}

/// Shares of the step below this are not worth anybody's time.
const LEAST_SHARE: f64 = 0.01;
/// How many times slower than another implementation is worth mentioning.
const LEAST_RATIO: f64 = 1.1;
/// How many times further from the peak than others. Codelets differ a lot by nature; this is beyond nature.
const FAR: f64 = 10.0;
/// Codelets that are needed to say what is usual.
const LEAST_OTHERS: usize = 3;
/// What every task costs beside its work, so that small ones are not blamed for being small.
const TASK_SECONDS: f64 = 1e-6;

impl Statistics<'_> {
    /// Implementations that are slower than they need to be, largest share of the step first. `known` are the
    /// codelets whose implementations are known.
    pub fn slow_implementations(&self, peaks: &Peaks, known: &[&Codelet]) -> Vec<SlowImplementation> {
        let rows = self.rows(By::Codelet, None);
        let mut beside = self.beside();
        let far = self.far_from_peak(peaks);
        let mut found = Vec::new();
        for Row { codelet, implementation, share, .. } in rows {
            let key = (codelet.clone(), implementation.clone());
            let reason = match (beside.remove(&key), reference(&key, self, known), far.get(&key)) {
                (Some((other, ratio)), _, _) => SlowReason::Beside { other, ratio },
                (None, Some(others), _) => SlowReason::Reference { others },
                (None, None, Some(&times)) => SlowReason::FarFromPeak { times },
                (None, None, None) => continue,
            };
            let is_said = found.iter().any(|slow: &SlowImplementation| {
                (&slow.codelet, &slow.implementation) == (&codelet, &implementation)
            });
            if share >= LEAST_SHARE && !is_said {
                found.push(SlowImplementation { codelet, implementation, share, reason });
            }
        }
        found
    }

    /// For each codelet and implementation that another one beats at the same work: the best other one, and
    /// by what ratio.
    fn beside(&self) -> BTreeMap<(String, String), (String, f64)> {
        // Layouts belong to implementations, so footprints differ: the same work is the same operations and
        // tile count, and the same bytes where there are no operations.
        let works = self.classes(|task| {
            let bytes = if task.flops > 0.0 { 0 } else { task.bytes };
            (&task.codelet, &task.dtype, task.flops.to_bits(), bytes, task.tile.1)
        });
        let mut medians: BTreeMap<(usize, &str), (f64, f64, usize)> = BTreeMap::new();
        let key = |e: &super::Execution| (works[e.task], self.info(e).implementation.as_str());
        for (key, group) in grouped(&self.executions, key) {
            let mut times: Vec<f64> = group.iter().map(|&i| self.executions[i].seconds).collect();
            let sum = times.iter().sum();
            medians.insert(key, (median(&mut times), sum, self.executions[group[0]].task));
        }
        let mut ratios: BTreeMap<(String, String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for (&(work, slow), &(time, weight, task)) in &medians {
            for (&(_, fast), &(other, _, _)) in
                medians.range((work, "")..).take_while(|(key, _)| key.0 == work)
            {
                if fast != slow {
                    let codelet = self.trace.scene.tasks[task].codelet.clone();
                    let key = (codelet, slow.to_string(), fast.to_string());
                    ratios.entry(key).or_default().push(((time / other).ln(), weight));
                }
            }
        }
        let mut found: BTreeMap<(String, String), (String, f64)> = BTreeMap::new();
        for ((codelet, slow, fast), mut logs) in ratios {
            let ratio = weighted_median(&mut logs).exp();
            let best = found.get(&(codelet.clone(), slow.clone())).map_or(LEAST_RATIO, |(_, best)| *best);
            if ratio > best {
                found.insert((codelet, slow), (fast, ratio));
            }
        }
        found
    }

    /// How many times further from the peaks than the other codelets each one is, where that is far.
    fn far_from_peak(&self, peaks: &Peaks) -> BTreeMap<(String, String), f64> {
        // Time taken beside the least time, both of the median execution, so that interruptions do not count.
        let classes = self.classes(|task| (&task.codelet, &task.implementation));
        let mut slowness = BTreeMap::new();
        for group in grouped(&self.executions, |e| classes[e.task]).into_values() {
            let ratio = |&i: &usize| {
                let e = &self.executions[i];
                let task = self.info(e);
                let least = peaks.seconds(&task.dtype, task.flops, task.bytes, e.is_cold);
                (e.seconds / (least + TASK_SECONDS)).ln()
            };
            let mut ratios: Vec<f64> = group.iter().map(ratio).collect();
            let info = self.info(&self.executions[group[0]]);
            slowness.insert((info.codelet.clone(), info.implementation.clone()), median(&mut ratios));
        }
        let of_others = |key: &(String, String)| {
            let others = slowness.iter().filter(|(other, _)| *other != key).map(|(_, value)| *value);
            let mut others: Vec<f64> = others.collect();
            (others.len() >= LEAST_OTHERS).then(|| median(&mut others))
        };
        let times = |(key, value): (&(String, String), &f64)| {
            let times = (value - of_others(key)?).exp();
            (times >= FAR).then(|| (key.clone(), times))
        };
        slowness.iter().filter_map(times).collect()
    }
}

/// The other implementations that a reference could be replaced by.
fn reference(
    (codelet, implementation): &(String, String),
    statistics: &Statistics<'_>,
    known: &[&Codelet],
) -> Option<Vec<String>> {
    let tasks = &statistics.trace.scene.tasks;
    let task = tasks.iter().find(|t| t.codelet == *codelet && t.implementation == *implementation)?;
    let codelet = known.iter().find(|known| known.name == codelet)?;
    let reference = codelet.implementations.first().filter(|first| first.name == implementation)?;
    let others: BTreeSet<&str> = codelet
        .implementations
        .iter()
        .filter(|other| other.name != reference.name && other.dtype.to_string() == task.dtype)
        .map(|other| other.name)
        .collect();
    (!others.is_empty()).then(|| others.into_iter().map(str::to_string).collect())
}
