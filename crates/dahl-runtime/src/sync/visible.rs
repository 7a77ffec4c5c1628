//! Locks made of atomics and nothing else, for ThreadSanitizer. They spin, and are not for use.

#![expect(unsafe_code, reason = "locks")]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// A mutual exclusion.
#[derive(Default)]
pub struct Mutex<T> {
    locked: AtomicBool,
    data: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the data, so sharing the mutex moves the data between threads.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(data: T) -> Self {
        Mutex { locked: AtomicBool::new(false), data: UnsafeCell::new(data) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            if let Ok(guard) = self.try_lock() {
                return Ok(guard);
            }
            yield_now();
        }
    }

    /// Takes the lock, unless somebody has it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(MutexGuard(self)),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }
}

/// Holds the lock.
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar {
    generation: AtomicU64,
}

impl Condvar {
    /// Gives the lock up until somebody notifies.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let seen = self.generation.load(Ordering::Acquire);
        let mutex = guard.0;
        drop(guard);
        while self.generation.load(Ordering::Acquire) == seen {
            yield_now();
        }
        mutex.lock()
    }

    /// The same, for at most `limit`. Returns whether somebody notified.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let (seen, end) = (self.generation.load(Ordering::Acquire), Instant::now() + limit);
        let mutex = guard.0;
        drop(guard);
        while self.generation.load(Ordering::Acquire) == seen && Instant::now() < end {
            yield_now();
        }
        let notified = self.generation.load(Ordering::Acquire) != seen;
        mutex.lock().map(|guard| (guard, notified)).map_err(|_| unreachable!("this lock is never poisoned"))
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// A value that is set once.
pub struct OnceLock<T> {
    /// 0 is empty, 1 is being set, 2 is set.
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by one thread and then only shared.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty one.
    pub const fn new() -> Self {
        OnceLock { state: AtomicU8::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: in state 2 the value is set and does not change.
        (self.state.load(Ordering::Acquire) == 2).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, set by `init` if it was not.
    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        if self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire).is_ok() {
            let value = init();
            // SAFETY: state 1 is ours alone.
            unsafe { (*self.value.get()).write(value) };
            self.state.store(2, Ordering::Release);
        }
        loop {
            if let Some(value) = self.get() {
                return value;
            }
            yield_now();
        }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        if *self.state.get_mut() == 2 {
            // SAFETY: the value is set and this is its end.
            unsafe { self.value.get_mut().assume_init_drop() };
        }
    }
}
