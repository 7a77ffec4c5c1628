//! Where a worker writes down what it does: a ring of the newest events.
//!
//! Only the worker writes its ring, with relaxed stores, which are plain ones; recording costs two looks at
//! the clock and three stores. Because the fields are atomics, others may look at any time, also while a run
//! is under way: the slot of the task that is being executed has its start already, but still the end of
//! something earlier.

use super::{Event, Transfer, ticks};
use crate::graph::TaskId;
use crate::machine::MemoryId;
// The standard atomics also under shuttle: nothing is decided by what is recorded, so no schedule depends on
// it.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set in the task number of a slot that holds a transfer: then come 5 bits for the memory it came from and
/// 26 for the block.
const TRANSFER: u32 = 1 << 31;
const BLOCK_BITS: u32 = 26;
/// Blocks that transfers can be recorded of.
pub(crate) const MAX_BLOCKS: usize = 1 << BLOCK_BITS;

/// One event.
#[derive(Default)]
pub(crate) struct Slot {
    /// The task, and the low half of the step above it.
    what: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

/// What a worker is doing, seen from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Tasks and transfers finished so far.
    pub count: u64,
    /// The task that is being executed, its step, and since when.
    pub running: Option<(TaskId, u32, u64)>,
    /// The last task that was finished, and its step, if that is still known.
    pub last: Option<(TaskId, u32)>,
}

/// What was recorded since the last time it was taken.
#[derive(Default)]
pub(crate) struct Taken {
    pub events: Vec<Event>,
    pub transfers: Vec<Transfer>,
    pub n_dropped: u64,
}

/// The events of one worker, the newest `capacity` of them.
pub(crate) struct Recorder {
    /// A power of two of them; not there while nobody wants to know.
    slots: OnceLock<Box<[Slot]>>,
    capacity: usize,
    /// Events since the beginning.
    count: AtomicU64,
    /// Events that were there when they were taken the last time.
    taken: AtomicU64,
}

impl Recorder {
    /// Room for `capacity` events (rounded up to a power of two), or none.
    pub fn new(capacity: usize) -> Self {
        let slots = OnceLock::new();
        if capacity > 0 {
            let _ = slots.set(slots_for(capacity));
        }
        Recorder { slots, capacity, count: AtomicU64::new(0), taken: AtomicU64::new(0) }
    }

    /// Whether events are kept.
    pub fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Writes down at least what is going on now, for [`Recorder::look`].
    pub fn watch(&self) {
        self.slots.get_or_init(|| slots_for(1));
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> Option<&Slot> {
        let slots = self.slots.get()?;
        slots.get(number as usize & slots.len().wrapping_sub(1))
    }

    /// Notes that a task starts. What is returned goes to [`Recorder::end`].
    #[inline(always)]
    pub fn begin(&self, task: TaskId, step: u64) -> Option<&Slot> {
        let slot = self.slot(self.count.load(Ordering::Relaxed))?;
        slot.what.store(u64::from(task) | step << 32, Ordering::Relaxed);
        slot.start.store(ticks(), Ordering::Relaxed);
        Some(slot)
    }

    /// Notes that the task has ended.
    #[inline(always)]
    pub fn end(&self, slot: Option<&Slot>) {
        if let Some(slot) = slot {
            slot.end.store(ticks(), Ordering::Relaxed);
            self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }

    /// Notes that what was begun last has ended, and when both happened, for somebody who is told of it
    /// afterwards.
    pub fn end_between(&self, start: u64, end: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(slot) = self.slot(count) {
            slot.start.store(start, Ordering::Relaxed);
            slot.end.store(end, Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Release);
        }
    }

    /// Notes that a copy of a block out of memory `from` starts.
    pub fn begin_transfer(&self, block: usize, from: MemoryId, step: u64) -> Option<&Slot> {
        self.begin(TRANSFER | (from as u32) << BLOCK_BITS | block as u32, step)
    }

    /// Does something that copies a block out of memory `from`, and notes how long it took.
    pub fn transfer(&self, block: usize, from: MemoryId, step: u64, copy: impl FnOnce()) {
        let slot = self.begin_transfer(block, from, step);
        copy();
        self.end(slot);
    }

    /// What is going on.
    pub fn look(&self) -> Look {
        let count = self.count.load(Ordering::Acquire);
        let what = |number: u64| {
            let what = self.slot(number)?.what.load(Ordering::Relaxed);
            (what as u32 & TRANSFER == 0).then_some((what as u32, (what >> 32) as u32))
        };
        let times = |slot: &Slot| (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
        let since = self.slot(count).map(times).filter(|(start, end)| end < start).map(|(start, _)| start);
        let running = since.and_then(|since| what(count).map(|(task, step)| (task, step, since)));
        let last = if count > 0 { what(count - 1) } else { None };
        Look { count, running, last }
    }

    /// The events since the last call, oldest first. `to` is the memory that transfers went to. What a
    /// worker overwrites meanwhile counts as dropped.
    pub fn take(&self, to: MemoryId) -> Taken {
        let (count, seen) = (self.count.load(Ordering::Acquire), self.taken.load(Ordering::Relaxed));
        self.taken.store(count, Ordering::Relaxed);
        let capacity = if self.is_on() { self.slots.get().map_or(0, |slots| slots.len() as u64) } else { 0 };
        let first = seen.max(count.saturating_sub(capacity));
        let mut events = Vec::with_capacity((count - first) as usize);
        for slot in (first..count).filter_map(|number| self.slot(number)) {
            let (what, start, end) = (&slot.what, &slot.start, &slot.end);
            let [what, start, end] = [what, start, end].map(|word| word.load(Ordering::Relaxed));
            events.push(Event { task: what as u32, step: (what >> 32) as u32, start, end });
        }
        // What was overwritten meanwhile, or is just being overwritten, is no event.
        let now = self.count.load(Ordering::Acquire);
        let intact = if now == count { first } else { first.max((now + 1).saturating_sub(capacity)) };
        events.drain(..events.len().min((intact - first) as usize));
        let mut taken = Taken::default();
        // In place: a ring is large, and so is a second copy of it.
        events.retain(|&Event { task, step, start, end }| {
            if task & TRANSFER != 0 && end >= start {
                let block = task & ((1 << BLOCK_BITS) - 1);
                let from = ((task & !TRANSFER) >> BLOCK_BITS) as MemoryId;
                taken.transfers.push(Transfer { block, from, to, step, start, end });
            }
            task & TRANSFER == 0 && end >= start
        });
        taken.events = events;
        let kept = (taken.events.len() + taken.transfers.len()) as u64;
        taken.n_dropped = if self.is_on() { count - seen - kept } else { 0 };
        taken
    }
}

/// The ring, filled with something other than zeros, so that its memory is there before the run and not only
/// when the first events arrive.
fn slots_for(capacity: usize) -> Box<[Slot]> {
    let empty = || Slot { what: AtomicU64::new(u64::MAX), start: AtomicU64::new(0), end: AtomicU64::new(1) };
    (0..capacity.next_power_of_two()).map(|_| empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(recorder: &Recorder, steps: std::ops::Range<u64>) {
        for step in steps {
            let slot = recorder.begin(7, step);
            recorder.end(slot);
        }
    }

    #[test]
    fn a_full_ring_keeps_the_newest_events_in_order_and_counts_the_others() {
        let recorder = Recorder::new(4);
        record(&recorder, 0..6);
        let taken = recorder.take(0);
        assert_eq!(taken.events.iter().map(|event| event.step).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(taken.n_dropped, 2);
        assert!(recorder.take(0).events.is_empty());
        record(&recorder, 6..8);
        let taken = recorder.take(0);
        assert_eq!(taken.events.iter().map(|event| event.step).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(taken.n_dropped, 0);
        assert!(taken.events.iter().all(|event| event.task == 7 && event.start <= event.end));
    }

    #[test]
    fn what_is_running_can_be_seen_and_is_not_yet_an_event() {
        for capacity in [0, 1, 4] {
            let recorder = Recorder::new(capacity);
            assert_eq!(recorder.look(), Look::default());
            recorder.watch();
            assert_eq!(recorder.look(), Look::default());
            record(&recorder, 0..3);
            assert_eq!(recorder.look(), Look { count: 3, running: None, last: Some((7, 2)) });
            let slot = recorder.begin(8, 3);
            let look = recorder.look();
            assert_eq!((look.count, look.running.map(|(task, step, _)| (task, step))), (3, Some((8, 3))));
            recorder.end(slot);
            assert_eq!(recorder.look(), Look { count: 4, running: None, last: Some((8, 3)) });
            assert_eq!(recorder.take(0).events.len(), capacity);
        }
    }

    #[test]
    fn what_is_told_afterwards_has_the_times_that_are_told() {
        let recorder = Recorder::new(4);
        recorder.begin(7, 1);
        assert_eq!(recorder.look().running.map(|(task, step, _)| (task, step)), Some((7, 1)));
        recorder.end_between(10, 20);
        recorder.begin_transfer(3, 1, 1);
        assert_eq!(recorder.look(), Look { count: 1, running: None, last: Some((7, 1)) });
        recorder.end_between(20, 25);
        let taken = recorder.take(2);
        assert_eq!(taken.events, [Event { task: 7, step: 1, start: 10, end: 20 }]);
        let expected = Transfer { block: 3, from: 1, to: 2, step: 1, start: 20, end: 25 };
        assert_eq!(taken.transfers, [expected]);
    }

    #[test]
    fn a_recorder_that_nobody_wants_records_nothing() {
        let recorder = Recorder::new(0);
        assert!(recorder.begin(1, 1).is_none());
        assert!(recorder.take(0).events.is_empty());
    }

    #[test]
    fn transfers_are_told_apart_from_tasks() {
        let recorder = Recorder::new(8);
        let mut copied = false;
        recorder.transfer(MAX_BLOCKS - 1, 30, 5, || copied = true);
        record(&recorder, 5..6);
        let taken = recorder.take(3);
        let (start, end) = (taken.transfers[0].start, taken.transfers[0].end);
        let expected = Transfer { block: MAX_BLOCKS as u32 - 1, from: 30, to: 3, step: 5, start, end };
        assert!(copied && start <= end);
        assert_eq!(taken.transfers, [expected]);
        assert_eq!(taken.events.len(), 1);
    }
}
