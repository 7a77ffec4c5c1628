//! What happened when: every executed task with its worker, start and end.
//!
//! Workers write into buffers of their own that were allocated before the run; when one is full, its oldest
//! events are overwritten, so that a trace can stay on for a run of any length.

mod clock;

pub use clock::{Clock, ticks};

use crate::graph::TaskId;
use std::collections::BTreeMap;

/// One execution of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The task.
    pub task: TaskId,
    /// The step it belongs to (its low 32 bits).
    pub step: u32,
    /// Start in clock ticks.
    pub start: u64,
    /// End in clock ticks.
    pub end: u64,
}

/// The events of one worker, the newest `capacity` of them.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Room for all of them, a power of two, or none.
    events: Vec<Event>,
    /// Events pushed since the last `take`.
    count: usize,
}

impl Recorder {
    /// Room for `capacity` events (rounded up to a power of two), or none.
    pub fn new(capacity: usize) -> Self {
        let capacity = if capacity == 0 { 0 } else { capacity.next_power_of_two() };
        // Filled with something other than zeros, so that the memory is there before the run and not only when
        // the first events arrive.
        Recorder { events: vec![Event { task: TaskId::MAX, ..Event::default() }; capacity], count: 0 }
    }

    /// Adds an event.
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        let mask = self.events.len().wrapping_sub(1);
        if let Some(slot) = self.events.get_mut(self.count & mask) {
            *slot = event;
            self.count += 1;
        }
    }

    /// The events, oldest first, and forgets them.
    pub fn take(&mut self) -> Vec<Event> {
        let capacity = self.events.len();
        let first = if self.count > capacity { self.count % capacity } else { 0 };
        let events = [&self.events[first..self.count.min(capacity)], &self.events[..first]].concat();
        self.count = 0;
        events
    }
}

/// The trace of a run: the events of each worker, in order.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Events per worker.
    pub workers: Vec<Vec<Event>>,
    /// Ticks per second.
    pub ticks_per_second: f64,
}

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
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_recorder_keeps_the_newest_events_in_order() {
        let mut recorder = Recorder::new(4);
        for step in 0..6 {
            recorder.push(Event { step, ..Event::default() });
        }
        let steps: Vec<u32> = recorder.take().iter().map(|event| event.step).collect();
        assert_eq!(steps, [2, 3, 4, 5]);
        assert!(recorder.take().is_empty());
    }

    #[test]
    fn overhead_is_what_kernels_leave_of_complete_steps() {
        let event = |step, start, end| Event { step, start, end, ..Event::default() };
        // Three steps of 100 ticks; of the middle one, the first worker waits 10 and the second 30.
        let first = vec![event(0, 0, 100), event(1, 100, 140), event(1, 150, 200), event(2, 200, 300)];
        let second = vec![event(0, 0, 100), event(1, 100, 170), event(2, 200, 300)];
        let usage = Trace { workers: vec![first, second, Vec::new()], ticks_per_second: 1.0 }.usage();
        assert_eq!(usage.n_steps, 1);
        assert!((usage.overhead - 0.2).abs() < 1e-12 && (usage.median_overhead - 0.2).abs() < 1e-12);
        assert!((usage.median_step_seconds - 100.0).abs() < 1e-9);
        assert_eq!(Trace::default().usage(), Usage::default());
    }
}
