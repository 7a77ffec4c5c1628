//! The program's thread, which sleeps until enough steps are finished.

use super::bell::Bell;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// Where the program's thread sleeps, and what it waits for.
pub(super) struct Waiter {
    bell: Bell,
    /// The number of finished steps that it waits for.
    wanted: AtomicU64,
}

impl Waiter {
    /// Nobody waits yet.
    pub fn new() -> Self {
        Waiter { bell: Bell::default(), wanted: AtomicU64::new(u64::MAX) }
    }

    /// Sleeps until `finished` says `steps`, for at most `limit`. Returns whether it does.
    pub fn wait(&self, steps: u64, limit: Option<Duration>, finished: impl Fn() -> u64) -> bool {
        if finished() >= steps {
            return true;
        }
        self.wanted.store(steps, Ordering::SeqCst);
        let done = self.bell.sleep_until_or(limit, || finished() >= steps);
        self.wanted.store(u64::MAX, Ordering::SeqCst);
        done
    }

    /// Wakes it if this many finished steps may be what it waits for, and `finished` says that they are; to
    /// be called after they can be seen. Many tasks may be the last of a step, and waking somebody for
    /// nothing costs as much as a task.
    pub fn tell(&self, steps: u64, finished: impl Fn() -> u64) {
        // Either the program's thread sees what was stored before, or we see that it waits (see `bell`); and
        // of two workers that finish at once, at least one sees both.
        fence(Ordering::SeqCst);
        let wanted = self.wanted.load(Ordering::Relaxed);
        if steps >= wanted && finished() >= wanted {
            self.bell.ring();
        }
    }
}
