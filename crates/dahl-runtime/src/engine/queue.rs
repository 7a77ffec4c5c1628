//! A bounded queue that any thread may push to and pop from without a lock.
//!
//! Executors put the numbers of ready tasks here. The queue is a ring of slots, each with a stamp that says
//! whose turn it is: a slot with stamp `p` waits for the push of position `p`, with stamp `p + 1` for the pop
//! of position `p`, after which it waits for the push of position `p + capacity`. A thread first claims a
//! position by advancing `tail` or `head`, then fills or empties the slot, then moves the stamp on. The
//! stamp's release store and acquire load hand the value over, together with everything that the pushing
//! thread did before; no other ordering is relied on.
//!
//! Order is first in, first out by claimed position. A pop reports "empty" while the oldest push is claimed
//! but not yet filled; whoever pushes rings the workers' bell afterwards, so nothing is lost by that.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::spin_loop;

/// A bounded first-in-first-out queue of numbers for many producers and many consumers.
pub struct Queue {
    slots: Box<[Slot]>,
    mask: usize,
    tail: Padded,
    head: Padded,
}

struct Slot {
    stamp: AtomicUsize,
    value: AtomicUsize,
}

/// A counter on a cache line (a pair of lines, as lines are fetched in pairs) of its own.
#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicUsize);

impl Queue {
    /// A queue that holds at least `capacity` values (rounded up to a power of two, at least 2).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(2).next_power_of_two();
        let slot = |position| Slot { stamp: AtomicUsize::new(position), value: AtomicUsize::new(0) };
        Queue {
            slots: (0..capacity).map(slot).collect(),
            mask: capacity - 1,
            tail: Padded::default(),
            head: Padded::default(),
        }
    }

    /// How many values fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Appends a value; gives it back when the queue is full.
    pub fn push(&self, value: usize) -> Result<(), usize> {
        let mut position = self.tail.0.load(Ordering::Relaxed);
        loop {
            let slot = &self.slots[position & self.mask];
            let stamp = slot.stamp.load(Ordering::Acquire);
            match stamp.wrapping_sub(position) as isize {
                0 => match advance(&self.tail.0, position) {
                    Ok(()) => {
                        slot.value.store(value, Ordering::Relaxed);
                        slot.stamp.store(position.wrapping_add(1), Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => position = now,
                },
                // The value pushed one round ago is still there.
                ..0 => return Err(value),
                // Another thread took this position; look again where the tail is now.
                _ => {
                    spin_loop();
                    position = self.tail.0.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes the oldest value, if there is one.
    pub fn pop(&self) -> Option<usize> {
        let mut position = self.head.0.load(Ordering::Relaxed);
        loop {
            let slot = &self.slots[position & self.mask];
            let stamp = slot.stamp.load(Ordering::Acquire);
            match stamp.wrapping_sub(position.wrapping_add(1)) as isize {
                0 => match advance(&self.head.0, position) {
                    Ok(()) => {
                        let value = slot.value.load(Ordering::Relaxed);
                        slot.stamp.store(position.wrapping_add(self.slots.len()), Ordering::Release);
                        return Some(value);
                    }
                    Err(now) => position = now,
                },
                ..0 => return None,
                _ => {
                    spin_loop();
                    position = self.head.0.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// Whether a pop would find nothing just now.
    pub fn is_empty(&self) -> bool {
        let position = self.head.0.load(Ordering::Acquire);
        let stamp = self.slots[position & self.mask].stamp.load(Ordering::Acquire);
        // A stamp beyond the position means that others are popping right now; what follows may be there.
        (stamp.wrapping_sub(position.wrapping_add(1)) as isize) < 0
    }
}

fn advance(counter: &AtomicUsize, from: usize) -> Result<(), usize> {
    let to = from.wrapping_add(1);
    counter.compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn values_come_out_in_order_and_a_full_queue_says_so() {
        let queue = Queue::new(4);
        for round in 0..10 {
            assert!(queue.is_empty() && queue.pop().is_none());
            for i in 0..4 {
                assert_eq!(queue.push(10 * round + i), Ok(()));
            }
            assert_eq!(queue.push(99), Err(99));
            for i in 0..4 {
                assert!(!queue.is_empty());
                assert_eq!(queue.pop(), Some(10 * round + i));
            }
        }
    }

    #[test]
    fn many_threads_lose_and_duplicate_nothing() {
        const N: u64 = 20_000;
        let queue = Queue::new(64);
        let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for producer in 0..2 {
                let queue = &queue;
                scope.spawn(move || {
                    for i in 0..N {
                        while queue.push((2 * i + producer) as usize).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while count.load(Ordering::Relaxed) < 2 * N {
                        match queue.pop() {
                            Some(value) => {
                                sum.fetch_add(value as u64, Ordering::Relaxed);
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), (0..2 * N).sum());
    }
}
