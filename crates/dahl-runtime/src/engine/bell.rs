//! Sleeping until something happens, without a lost wake-up and without a cost when nobody sleeps.
//!
//! The protocol is Dekker's: a sleeper announces itself and then looks at the condition; a ringer changes the
//! condition and then looks for sleepers. With a sequentially consistent fence between the two steps on both
//! sides, at least one of them sees the other. A ringer that sees a sleeper takes the mutex before it
//! notifies, so the sleeper is either before its look at the condition (and sees it) or already waiting (and
//! is woken).

use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Condvar, Mutex, lock};
use std::time::{Duration, Instant};

/// Something to sleep on and to be woken by.
#[derive(Default)]
pub struct Bell {
    n_sleepers: AtomicUsize,
    mutex: Mutex<()>,
    condvar: Condvar,
}

impl Bell {
    /// Sleeps until `ready` holds. Whoever makes it hold must call [`Bell::ring`] afterwards.
    pub fn sleep_until(&self, ready: impl Fn() -> bool) {
        self.sleep_until_or(None, ready);
    }

    /// The same for at most `limit`, if there is one. Returns whether `ready` holds.
    pub fn sleep_until_or(&self, limit: Option<Duration>, ready: impl Fn() -> bool) -> bool {
        let end = limit.map(|limit| Instant::now() + limit);
        let mut guard = lock(&self.mutex);
        self.n_sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut is_ready = ready();
        while !is_ready {
            guard = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.condvar.wait_timeout(guard, left);
                    woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
            };
            is_ready = ready();
        }
        self.n_sleepers.fetch_sub(1, Ordering::SeqCst);
        is_ready
    }

    /// Wakes whoever sleeps; costs a fence and a load when nobody does.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.n_sleepers.load(Ordering::Relaxed) > 0 {
            drop(lock(&self.mutex));
            self.condvar.notify_all();
        }
    }
}
