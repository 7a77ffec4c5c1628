//! How the workers' time was spent.

use super::{Event, Reason, Trace};
use crate::robust::median;
use std::collections::BTreeMap;

/// How the time of all workers was spent, from a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Number of complete steps in the trace.
    pub n_steps: usize,
    /// Share of the workers' time outside kernels (waiting, scheduling, tracing), over all steps together.
    pub overhead: f64,
    /// The same share in the median step. Where the system takes a core away for milliseconds, the others
    /// wait; that is in the mean, and hardly in the median.
    pub median_overhead: f64,
    /// Seconds of the median step.
    pub median_step_seconds: f64,
    /// Share of the workers' time that they waited for a step which the program had not fed yet, over all
    /// steps together; a part of the overhead.
    pub stall: f64,
}

impl Trace {
    /// How the time of complete steps was spent. A worker's time in a step goes from its first event of the
    /// step to its first event of the next. One that had nothing to do in a step waited: the time between two
    /// steps of its own is that of all steps from the one to the other, in equal parts. Workers that hardly
    /// ever had anything to do do not count.
    pub fn usage(&self) -> Usage {
        let workers: Vec<BTreeMap<u32, Spent>> =
            self.workers.iter().map(|events| self.spent(events)).collect();
        let most = workers.iter().map(BTreeMap::len).max().unwrap_or(0);
        let counted: Vec<_> =
            workers.into_iter().filter(|steps| !steps.is_empty() && 2 * steps.len() >= most).collect();
        let n_workers = counted.len();
        let mut steps: BTreeMap<u32, (Spent, usize)> = BTreeMap::new();
        for (step, spent) in counted.into_iter().flatten() {
            let (sum, workers) = steps.entry(step).or_default();
            sum.total += spent.total;
            sum.inside += spent.inside;
            sum.stalled += spent.stalled;
            *workers += 1;
        }
        let complete: Vec<Spent> =
            steps.into_values().filter(|(_, workers)| *workers == n_workers).map(|(sum, _)| sum).collect();
        let part = |part: u64, total: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 };
        let outside = |total: u64, inside: u64| if total == 0 { 0.0 } else { 1.0 - part(inside, total) };
        let sum = |of: fn(&Spent) -> u64| complete.iter().map(of).sum::<u64>();
        let (total, inside) = (sum(|spent| spent.total), sum(|spent| spent.inside));
        let ticks = n_workers as f64 * self.ticks_per_second;
        let mut shares: Vec<f64> = complete.iter().map(|spent| outside(spent.total, spent.inside)).collect();
        let mut seconds: Vec<f64> = complete.iter().map(|spent| spent.total as f64 / ticks).collect();
        Usage {
            n_steps: complete.len(),
            overhead: outside(total, inside),
            median_overhead: median(&mut shares),
            median_step_seconds: median(&mut seconds),
            stall: part(sum(|spent| spent.stalled), total),
        }
    }

    /// What a worker spent in each of its steps but the first, which may have lost its beginning, and the
    /// last, which has no next.
    fn spent(&self, events: &[Event]) -> BTreeMap<u32, Spent> {
        // Where it first works on a later step than before.
        let mut newest = None;
        let is_first = |&i: &usize| {
            let is_newer = newest.is_none_or(|newest| events[i].step > newest);
            newest = newest.max(Some(events[i].step));
            is_newer
        };
        let firsts: Vec<usize> = (0..events.len()).filter(is_first).skip(1).collect();
        let mut steps = BTreeMap::new();
        for pair in firsts.windows(2) {
            let (from, to) = (&events[pair[0]], &events[pair[1]]);
            let kernels = events[pair[0]..pair[1]].iter().map(|event| event.end - event.start).sum();
            let stalled = self.stalled(events[pair[1] - 1].end, to);
            let (total, n) = (to.start - from.start, u64::from(to.step - from.step));
            for i in 0..n {
                let (inside, stalled) = if i == 0 { (kernels, stalled) } else { (0, 0) };
                let total = total * (i + 1) / n - total * i / n;
                steps.insert(from.step + i as u32, Spent { total, inside, stalled });
            }
        }
        steps
    }

    /// Ticks of the gap between `free` and an event, the first of its step, in which the program had not
    /// released the step.
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

/// Ticks in a step: in all, inside kernels, waiting for the program.
#[derive(Clone, Copy, Default)]
struct Spent {
    total: u64,
    inside: u64,
    stalled: u64,
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
        // Steps 1 and 2 are complete: 200 ticks of each worker. Step 2 was released after 50 of the 60 that
        // nothing was done in.
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
    #[test]
    fn workers_that_sometimes_have_nothing_to_do_wait() {
        let busy = |step: u32| Event {
            step,
            start: 100 * u64::from(step),
            end: 100 * u64::from(step) + 100,
            ..Event::default()
        };
        let half = |step: u32| Event { end: 100 * u64::from(step) + 50, ..busy(step) };
        // One works always, one in every third step, one twice in all.
        let workers = vec![
            (0..32).map(busy).collect(),
            (0..32).step_by(3).map(half).collect(),
            vec![busy(10), busy(12)],
        ];
        let usage = Trace { workers, ticks_per_second: 1.0, ..Trace::default() }.usage();
        assert_eq!(usage.n_steps, 27, "the second worker's steps 3 to 29");
        // It works 50 ticks of 300.
        assert!((usage.overhead - 0.5 * (1.0 - 1.0 / 6.0)).abs() < 1e-12, "{usage:?}");
        assert!((usage.median_step_seconds - 100.0).abs() < 1e-9);
    }
}
