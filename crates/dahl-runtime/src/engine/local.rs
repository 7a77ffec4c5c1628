//! Data that belongs to one worker at a time.

#![expect(unsafe_code, reason = "hands out unsynchronised data to the one worker that owns it")]

use crate::sync::Padded;
use std::cell::UnsafeCell;

/// One value per worker.
pub(crate) struct PerWorker<T>(Vec<Padded<UnsafeCell<T>>>);

// SAFETY: `with` is only called as its contract demands, so no two threads touch the same value at a time.
unsafe impl<T: Send> Sync for PerWorker<T> {}

impl<T> PerWorker<T> {
    /// One value for each worker.
    pub fn new(n_workers: usize, mut value: impl FnMut(usize) -> T) -> Self {
        PerWorker((0..n_workers).map(|worker| Padded(UnsafeCell::new(value(worker)))).collect())
    }

    /// Gives access to a worker's value.
    ///
    /// # Safety
    /// Only the thread of this worker may call it while a run is under way; between runs, after it has seen
    /// that all workers have finished, also the program's thread. Calls for the same worker must not be
    /// nested.
    #[inline(always)]
    pub unsafe fn with<R>(&self, worker: usize, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller guarantees that nobody else accesses this worker's value.
        f(unsafe { &mut *self.0[worker].0.get() })
    }
}
