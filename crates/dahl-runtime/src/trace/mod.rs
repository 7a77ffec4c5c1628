//! What happened when: every executed task with its worker, start and end.
//!
//! Workers write into buffers of their own that were allocated before the run; when one is full, its oldest
//! events are overwritten, so that a trace can stay on for a run of any length.

mod clock;

pub use clock::{Clock, ticks};

use crate::graph::TaskId;

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
    events: Vec<Event>,
    next: usize,
    capacity: usize,
}

impl Recorder {
    /// Room for `capacity` events (rounded up to a power of two), or none.
    pub fn new(capacity: usize) -> Self {
        let capacity = if capacity == 0 { 0 } else { capacity.next_power_of_two() };
        Recorder { events: Vec::with_capacity(capacity), next: 0, capacity }
    }

    /// Adds an event.
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        if self.events.len() < self.capacity {
            self.events.push(event);
        } else if self.capacity > 0 {
            self.events[self.next & (self.capacity - 1)] = event;
        }
        self.next += 1;
    }

    /// The events, oldest first, and forgets them.
    pub fn take(&mut self) -> Vec<Event> {
        let mut events = self.events.clone();
        if self.next > self.events.len() && self.capacity > 0 {
            events.rotate_left(self.next & (self.capacity - 1));
        }
        self.events.clear();
        self.next = 0;
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
    /// Seconds inside kernels, summed over workers.
    pub kernel_seconds: f64,
    /// Seconds from the first start to the last end, times the number of workers.
    pub worker_seconds: f64,
    /// Number of events.
    pub n_tasks: usize,
}

impl Usage {
    /// The share of the workers' time that was not spent inside kernels: waiting, scheduling, tracing.
    pub fn overhead(&self) -> f64 {
        if self.worker_seconds == 0.0 { 0.0 } else { 1.0 - self.kernel_seconds / self.worker_seconds }
    }
}

impl Trace {
    /// How the time was spent between the latest of the workers' first events and the earliest of their last
    /// ones, that is, in the window that all of them have events for.
    pub fn usage(&self) -> Usage {
        let workers = || self.workers.iter().filter(|events| !events.is_empty());
        let start = workers().map(|events| events[0].start).max().unwrap_or(0);
        let end = workers().map(|events| events[events.len() - 1].end).min().unwrap_or(0);
        let inside = |event: &&Event| event.start >= start && event.end <= end;
        let ticks: u64 = workers().flatten().filter(inside).map(|event| event.end - event.start).sum();
        Usage {
            kernel_seconds: ticks as f64 / self.ticks_per_second,
            worker_seconds: end.saturating_sub(start) as f64 / self.ticks_per_second
                * self.workers.len() as f64,
            n_tasks: workers().flatten().filter(inside).count(),
        }
    }
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
    fn overhead_is_what_kernels_leave_of_the_common_window() {
        let event = |start, end| Event { start, end, ..Event::default() };
        let workers = vec![vec![event(0, 40), event(50, 100)], vec![event(0, 90), event(95, 100)]];
        let usage = Trace { workers, ticks_per_second: 1.0 }.usage();
        assert_eq!(usage.n_tasks, 4);
        assert!((usage.overhead() - 15.0 / 200.0).abs() < 1e-12);
    }
}
