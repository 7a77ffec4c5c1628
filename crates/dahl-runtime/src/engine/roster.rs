//! Who does the work of whom.
//!
//! A plan gives every task to a worker. While a worker *rests*, because something else takes its core,
//! another one of the same memory and code *stands in* for it and executes both lists. Memory, order and bits
//! are those of the plan: only the thread is another.
//!
//! The roster may change at any time, also while steps are under way. It says whose turn it is, and protects
//! nothing: who walks a list has its lock (`../progress/replay.rs`).

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// For each worker of a plan, the one that executes its tasks.
pub(super) struct Roster {
    hands: Vec<AtomicUsize>,
    /// Whether anybody rests. Nearly always nobody does, and then one look is enough.
    is_changed: AtomicBool,
    /// Who does not fall asleep, though there may be nothing for it to do.
    awake: AtomicUsize,
}

/// Nobody is kept awake.
const NOBODY: usize = usize::MAX;

impl Roster {
    /// Everybody does what is planned for it.
    pub fn new(n_workers: usize) -> Self {
        Roster {
            hands: (0..n_workers).map(AtomicUsize::new).collect(),
            is_changed: AtomicBool::new(false),
            awake: AtomicUsize::new(NOBODY),
        }
    }

    /// Who executes what is planned for `worker`.
    #[inline]
    pub fn hand(&self, worker: usize) -> usize {
        self.hands[worker].load(Ordering::Relaxed)
    }

    /// The workers whose tasks `worker` executes, itself first.
    #[inline]
    pub fn served_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        let all = if self.is_changed.load(Ordering::Relaxed) { self.hands.len() } else { 0 };
        let others = (0..all).filter(move |&other| other != worker);
        std::iter::once(worker).chain(others).filter(move |&other| self.hand(other) == worker)
    }

    /// Whether this worker does not fall asleep.
    pub fn is_awake(&self, worker: usize) -> bool {
        self.awake.load(Ordering::Relaxed) == worker
    }

    /// Lets at most one worker stay awake. It must be woken afterwards.
    pub fn keep_awake(&self, worker: Option<usize>) {
        self.awake.store(worker.unwrap_or(NOBODY), Ordering::Relaxed);
    }

    /// Says for each worker who does its work. Who may be asleep must be woken afterwards.
    pub fn assign(&self, hands: impl IntoIterator<Item = usize>) {
        let mut is_changed = false;
        for (worker, hand) in hands.into_iter().enumerate() {
            is_changed |= hand != worker;
            self.hands[worker].store(hand, Ordering::Relaxed);
        }
        self.is_changed.store(is_changed, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn who_stands_in_does_its_own_work_first() {
        let roster = Roster::new(4);
        let served = |worker| roster.served_by(worker).collect::<Vec<_>>();
        assert_eq!((0..4).map(served).collect::<Vec<_>>(), [[0], [1], [2], [3]]);
        roster.assign([2, 1, 2, 1]);
        assert_eq!((0..4).map(served).collect::<Vec<_>>(), [vec![], vec![1, 3], vec![2, 0], vec![]]);
        assert_eq!((0..4).filter(|&worker| roster.hand(worker) != worker).collect::<Vec<_>>(), [0, 3]);
        roster.assign(0..4);
        assert_eq!((0..4).map(served).collect::<Vec<_>>(), [[0], [1], [2], [3]]);
    }
}
