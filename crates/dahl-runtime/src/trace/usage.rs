//! How the workers' time was spent.

use super::{Reason, Trace};
use std::collections::BTreeMap;

/// How the time of all workers was spent, from a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Number of complete steps in the trace.
    pub n_steps: usize,
    /// Share of the workers' time outside kernels (waiting, scheduling, tracing), over all steps together.
    pub overhead: f64,
    /// The same share in the median step. Where the system takes a core away for milliseconds, the others wait;
    /// that is in the mean, and hardly in the median.
    pub median_overhead: f64,
    /// Seconds of the median step.
    pub median_step_seconds: f64,
}

impl Trace {
    /// How the time of complete steps was spent. A worker's time in a step goes from its first event of the step to
    /// its first event of the next; workers without events do not count.
    pub fn usage(&self) -> Usage {
        /// Ticks of all workers in a step: total, inside kernels; number of workers.
        type Spent = (u64, u64, usize);
        let mut steps: BTreeMap<u32, Spent> = BTreeMap::new();
        let n_workers = self.workers.iter().filter(|events| !events.is_empty()).count();
        for events in &self.workers {
            // Where a worker first works on a later step than before. The first step may have lost its beginning, and
            // the last one has no next: `skip` and `windows` leave them out.
            let mut newest = None;
            let is_first = |&i: &usize| {
                let is_newer = newest.is_none_or(|newest| events[i].step > newest);
                newest = newest.max(Some(events[i].step));
                is_newer
            };
            let firsts: Vec<usize> = (0..events.len()).filter(is_first).skip(1).collect();
            for pair in firsts.windows(2) {
                let kernels: u64 = events[pair[0]..pair[1]].iter().map(|event| event.end - event.start).sum();
                let (total, inside, workers) = steps.entry(events[pair[0]].step).or_default();
                *total += events[pair[1]].start - events[pair[0]].start;
                *inside += kernels;
                *workers += 1;
            }
        }
        let complete: Vec<Spent> =
            steps.into_values().filter(|(_, _, workers)| *workers == n_workers).collect();
        let share =
            |total: u64, inside: u64| if total == 0 { 0.0 } else { 1.0 - inside as f64 / total as f64 };
        let sum = complete.iter().fold((0, 0), |sum, spent| (sum.0 + spent.0, sum.1 + spent.1));
        let ticks = n_workers as f64 * self.ticks_per_second;
        Usage {
            n_steps: complete.len(),
            overhead: share(sum.0, sum.1),
            median_overhead: median(
                complete.iter().map(|&(total, inside, _)| share(total, inside)).collect(),
            ),
            median_step_seconds: median(complete.iter().map(|&(total, _, _)| total as f64 / ticks).collect()),
        }
    }

    /// Seconds that all workers together spent in kernels, and between them for each of [`Reason::ALL`].
    pub fn seconds(&self) -> (f64, [f64; Reason::ALL.len()]) {
        let seconds = |ticks: u64| ticks as f64 / self.ticks_per_second;
        let kernels = self.workers.iter().flatten().map(|event| event.end - event.start).sum();
        let mut idle = [0_u64; Reason::ALL.len()];
        for gap in self.idle().iter().flatten() {
            idle[gap.reason as usize] += gap.end - gap.start;
        }
        (seconds(kernels), idle.map(seconds))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Event;

    #[test]
    fn overhead_is_what_kernels_leave_of_complete_steps() {
        let event = |step, start, end| Event { step, start, end, ..Event::default() };
        // Three steps of 100 ticks; of the middle one, the first worker waits 10 and the second 30.
        let first = vec![event(0, 0, 100), event(1, 100, 140), event(1, 150, 200), event(2, 200, 300)];
        let second = vec![event(0, 0, 100), event(1, 100, 170), event(2, 200, 300)];
        let workers = vec![first, second, Vec::new()];
        let usage = Trace { workers, ticks_per_second: 1.0, ..Trace::default() }.usage();
        assert_eq!(usage.n_steps, 1);
        assert!((usage.overhead - 0.2).abs() < 1e-12 && (usage.median_overhead - 0.2).abs() < 1e-12);
        assert!((usage.median_step_seconds - 100.0).abs() < 1e-9);
        assert_eq!(Trace::default().usage(), Usage::default());
    }
}
