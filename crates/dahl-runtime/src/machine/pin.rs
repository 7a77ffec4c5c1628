//! Pinning a thread to a core or to some, where the operating system can.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "calls the C library"))]

use std::ops::Range;

/// Pins the calling thread to a core. Failure (a core outside the allowed set, a system without affinity) is
/// harmless: the thread then runs where the system puts it.
pub fn pin_current_thread(core: usize) {
    keep_to(core..core.saturating_add(1));
}

/// Keeps the calling thread, and those that it starts from now on, to the first `n` of the cores it may use.
/// Failure is harmless, as for [`pin_current_thread`].
pub fn keep_to_cores(n: usize) {
    keep_to(0..n.max(1));
}

/// The numbers that the system gives to the hardware threads that the calling thread may use, in ascending
/// order; empty where it does not tell.
pub(super) fn allowed_threads() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: `cpu_set_t` is a plain bit set for which all zeros is the empty set; it outlives the calls, its
    // size is passed along, the C library writes at most that many bytes, and all numbers are below it.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&thread| libc::CPU_ISSET(thread, &allowed)).collect()
    }
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// Keeps the calling thread to some of the cores that it may use, which a container may have narrowed; to
/// where it is if there are none of these.
fn keep_to(which: Range<usize>) {
    #[cfg(target_os = "linux")]
    {
        let threads = allowed_threads();
        // SAFETY: all zeros is the empty set, all numbers are below its size, and the C library only reads
        // it.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let chosen = threads.into_iter().skip(which.start).take(which.len());
            chosen.for_each(|thread| libc::CPU_SET(thread, &mut set));
            // The system refuses an empty set.
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = which;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::n_cores;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_and_those_it_starts_keep_to_some_cores() {
        let all = n_cores();
        std::thread::spawn(move || {
            keep_to_cores(all + 1);
            assert_eq!(n_cores(), all);
            keep_to_cores(1);
            assert_eq!(n_cores(), 1);
            assert_eq!(std::thread::spawn(n_cores).join().ok(), Some(1));
        })
        .join()
        .unwrap();
        assert_eq!(n_cores(), all);
    }
}
