//! Workers that are slower than others at the same work, or that lose time to something outside of dahl.
//!
//! A slower worker shows in its medians. A disturbed one does not: it is found by the share of its time that
//! is lost in executions of more than twice their usual length.

use super::robust::{median, weighted_median};
use super::{Execution, Statistics, grouped};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A worker that is slow or disturbed.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowWorker {
    /// The worker.
    pub worker: usize,
    /// How many times as long it takes for the same work as the other workers, in the median. 1 if there is
    /// nobody to compare it with.
    pub ratio: f64,
    /// Codelets that it shares with other workers, and at how many of them it is clearly slower.
    pub n_codelets: usize,
    /// At how many of them it is clearly slower.
    pub n_slower: usize,
    /// The share of its time in kernels that is lost in executions of more than twice their usual time.
    pub lost: f64,
    /// The same share of the other workers, in the median.
    pub lost_by_others: f64,
}

impl SlowWorker {
    /// Whether it is slower all the time, rather than now and then.
    pub fn is_slower(&self) -> bool {
        self.n_codelets > 0 && self.ratio >= LEAST_RATIO && 3 * self.n_slower >= 2 * self.n_codelets
    }
}

/// What is worth mentioning: how much slower, and how much time lost.
const LEAST_RATIO: f64 = 1.1;
const LEAST_LOST: f64 = 0.1;
/// What is worth mentioning whatever the others lose.
const MUCH_LOST: f64 = 0.4;
/// A codelet at which a worker is this much slower counts as one at which it is slower.
const SLOWER: f64 = 1.05;
/// A worker is compared with others only if the work that it has in common with them is this share of an
/// average worker's.
const LEAST_COMMON: f64 = 0.1;
/// Executions of a kind that a worker needs to be compared with others.
const LEAST: usize = 5;

impl Statistics<'_> {
    /// The workers that are slower than others or disturbed.
    pub fn slow_workers(&self) -> Vec<SlowWorker> {
        let all = self.compare_workers();
        all.into_iter()
            .filter(|worker| {
                let is_more = worker.lost >= 3.0 * worker.lost_by_others || worker.lost >= MUCH_LOST;
                let is_disturbed = worker.lost >= LEAST_LOST && is_more;
                worker.is_slower() || is_disturbed
            })
            .collect()
    }

    /// Each worker beside the others.
    pub(super) fn compare_workers(&self) -> Vec<SlowWorker> {
        // The median of each kind of work on each worker. What a worker took over from another found its data
        // elsewhere.
        let own: Vec<Execution> = self.executions.iter().copied().filter(|e| e.is_planned).collect();
        let mut medians: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
        for ((kind, worker), group) in grouped(&own, |e| (e.kind, e.worker)) {
            if group.len() >= LEAST {
                let mut times: Vec<f64> = group.iter().map(|&i| own[i].seconds).collect();
                medians.entry(kind).or_default().insert(worker, median(&mut times));
            }
        }
        let n_workers = self.trace.workers.len();
        // What was usual, what each worker spent, and what of it was lost.
        let (mut spent, mut lost) = (vec![0.0; n_workers], vec![0.0; n_workers]);
        let mut weights: HashMap<(usize, usize), (f64, usize)> = HashMap::new();
        for execution in &own {
            let kind = execution.kind;
            spent[execution.worker] += execution.seconds;
            let weight = weights.entry((kind, execution.worker)).or_insert((0.0, execution.task));
            weight.0 += execution.seconds;
            let usual = medians.get(&kind).and_then(|medians| medians.get(&execution.worker));
            if let Some(usual) = usual.filter(|&&usual| execution.seconds > 2.0 * usual) {
                lost[execution.worker] += execution.seconds - usual;
            }
        }
        let share = |worker: usize| lost[worker] / spent[worker].max(f64::MIN_POSITIVE);
        let busy: Vec<usize> = (0..n_workers).filter(|&worker| spent[worker] > 0.0).collect();
        let beside = |worker: usize| {
            // Per codelet and over all, the ratio to what the others take in the median, by the time it
            // matters for.
            let (mut over_all, mut of_codelet) = (Vec::new(), BTreeMap::<&str, Vec<(f64, f64)>>::new());
            for (kind, medians) in &medians {
                let Some(own) = medians.get(&worker) else { continue };
                let mut others: Vec<f64> =
                    medians.iter().filter(|(other, _)| **other != worker).map(|(_, m)| *m).collect();
                let Some((weight, task)) = weights.get(&(*kind, worker)).filter(|_| !others.is_empty())
                else {
                    continue;
                };
                let ratio = (own / median(&mut others)).ln();
                over_all.push((ratio, *weight));
                let codelet = self.trace.scene.tasks[*task].codelet.as_str();
                of_codelet.entry(codelet).or_default().push((ratio, *weight));
            }
            let common: f64 = over_all.iter().map(|(_, weight)| weight).sum();
            if common * busy.len() as f64 <= LEAST_COMMON * spent.iter().sum::<f64>() {
                over_all.clear();
                of_codelet.clear();
            }
            let is_slower = |ratios: &mut Vec<(f64, f64)>| weighted_median(ratios).exp() >= SLOWER;
            let n_codelets = of_codelet.keys().collect::<HashSet<_>>().len();
            let mut others: Vec<f64> =
                busy.iter().filter(|&&other| other != worker).map(|&w| share(w)).collect();
            SlowWorker {
                worker,
                ratio: weighted_median(&mut over_all).exp(),
                n_codelets,
                n_slower: of_codelet
                    .into_values()
                    .filter_map(|mut r| is_slower(&mut r).then_some(()))
                    .count(),
                lost: share(worker),
                lost_by_others: median(&mut others),
            }
        };
        busy.iter().map(|&worker| beside(worker)).collect()
    }
}
