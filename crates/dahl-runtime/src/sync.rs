//! The synchronisation primitives of this crate: the standard library's, or shuttle's under test.
//!
//! Everything concurrent goes through this module, so that the `shuttle` feature can explore its schedules.

#[cfg(not(feature = "shuttle"))]
pub use std::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread, thread_local,
};

#[cfg(feature = "shuttle")]
pub use shuttle::{
    hint::spin_loop,
    sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, atomic},
    thread, thread_local,
};

/// Locks a mutex whose data cannot be left half-changed: no lock of this crate is held while foreign code runs.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
