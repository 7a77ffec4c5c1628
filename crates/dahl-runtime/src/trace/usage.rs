//! How the workers' time was spent.

use super::{Event, Reason, Trace};
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
    /// Share of the workers' time that they waited for a step which the program had not fed yet, over all steps together; a
    /// part of the overhead.
    pub stall: f64,
}

impl Trace {
    /// How the time of complete steps was spent. A worker's time in a step goes from its first event of the step to
    /// its first event of the next; workers without events do not count.
    pub fn usage(&self) -> Usage {
        /// Ticks of all workers in a step: total, inside kernels, waiting for the program; number of workers.
        #[derive(Default)]
        struct Spent {
            total: u64,
            inside: u64,
            stalled: u64,
            workers: usize,
        }
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
                let spent = steps.entry(events[pair[0]].step).or_default();
                spent.total += events[pair[1]].start - events[pair[0]].start;
                spent.inside += kernels;
                spent.stalled += self.stalled(events[pair[1] - 1].end, &events[pair[1]]);
                spent.workers += 1;
            }
        }
        let complete: Vec<Spent> = steps.into_values().filter(|spent| spent.workers == n_workers).collect();
        let part = |part: u64, total: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 };
        let outside = |total: u64, inside: u64| if total == 0 { 0.0 } else { 1.0 - part(inside, total) };
        let sum = |of: fn(&Spent) -> u64| complete.iter().map(of).sum::<u64>();
        let (total, inside) = (sum(|spent| spent.total), sum(|spent| spent.inside));
        let ticks = n_workers as f64 * self.ticks_per_second;
        Usage {
            n_steps: complete.len(),
            overhead: outside(total, inside),
            median_overhead: median(
                complete.iter().map(|spent| outside(spent.total, spent.inside)).collect(),
            ),
            median_step_seconds: median(complete.iter().map(|spent| spent.total as f64 / ticks).collect()),
            stall: part(sum(|spent| spent.stalled), total),
        }
    }

    /// Ticks of the gap between `free` and an event, the first of its step, in which the program had not released the step.
    fn stalled(&self, free: u64, event: &Event) -> u64 {
        let at = self.releases.partition_point(|release| release.steps <= u64::from(event.step));
        // A release after the task began is another one: the one that let it begin is no longer remembered.
        let release = self.releases.get(at).filter(|release| release.ticks <= event.start);
        release.map_or(0, |release| release.ticks.saturating_sub(free))
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
    use crate::trace::Release;

    #[test]
    fn a_stall_is_what_passes_until_the_program_releases_a_step() {
        let event = |step, start, end| Event { step, start, end, ..Event::default() };
        let worker = || vec![event(0, 0, 100), event(1, 100, 200), event(2, 260, 300), event(3, 300, 400)];
        let stall = |releases: &[(u64, u64)]| {
            let releases = releases.iter().map(|&(steps, ticks)| Release { steps, ticks }).collect();
            let workers = vec![worker(), worker()];
            Trace { workers, releases, ticks_per_second: 1.0, ..Trace::default() }.usage().stall
        };
        // Steps 1 and 2 are complete: 200 ticks of each worker. Step 2 was released after 50 of the 60 that nothing was done in.
        assert_eq!(stall(&[(2, 0), (4, 250)]), 0.25);
        // Before the workers were free, and at a time that is not known.
        assert_eq!(stall(&[(2, 0), (4, 150)]), 0.0);
        assert_eq!(stall(&[]), 0.0);
        assert_eq!(stall(&[(4, 290)]), 0.0);
    }

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
