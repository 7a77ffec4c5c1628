//! The synchronisation primitives of this crate: the standard library's, or others under test.
//!
//! Everything concurrent goes through this module. The `shuttle` feature puts shuttle's primitives here, to
//! explore schedules. `--cfg dahl_tsan` puts plain ones here whose every step ThreadSanitizer sees: it cannot
//! see into the standard library, which is compiled without it, and would report everything that a lock
//! protects.

#[cfg(dahl_tsan)]
mod visible;

use std::sync::TryLockError;

#[cfg(not(feature = "shuttle"))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, atomic},
    thread, thread_local,
};

#[cfg(not(any(feature = "shuttle", dahl_tsan)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(dahl_tsan)]
pub use visible::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(feature = "shuttle")]
pub use shuttle::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread, thread_local,
};

// Shuttle has none; what is initialised once here is not what its tests are about.
#[cfg(feature = "shuttle")]
pub use std::sync::OnceLock;

/// Locks a mutex whose data cannot be left half-changed: no lock of this crate is held while foreign code
/// runs.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Locks a mutex, unless somebody has it; its data, too, cannot be left half-changed.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Keeps what different threads write on different cache lines (two, since lines are fetched in pairs).
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub T);
