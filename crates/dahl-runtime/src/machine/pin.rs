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

/// Keeps the calling thread to some of the cores that it may use, which a container may have narrowed; to
/// where it is if there are none of these.
fn keep_to(which: Range<usize>) {
    #[cfg(target_os = "linux")]
    keep_thread_to(0, which);
    #[cfg(not(target_os = "linux"))]
    let _ = which;
}

/// The same for any thread of this process, by its number; 0 is the calling one. The cores are those that the
/// calling thread may use.
#[cfg(target_os = "linux")]
pub(super) fn keep_thread_to(thread: libc::pid_t, which: Range<usize>) {
    let mut set = empty_set();
    for core in usable_cores().skip(which.start).take(which.len()) {
        // SAFETY: the core is below the size of the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the set outlives the call, its size is passed along, and the C library only reads it. The
    // system refuses an empty one.
    unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set) };
}

/// The numbers that the system has for the cores that the calling thread may use, in ascending order.
pub fn usable_cores() -> impl Iterator<Item = usize> {
    #[cfg(target_os = "linux")]
    {
        let mut usable = empty_set();
        // SAFETY: the set outlives the call, its size is passed along, and the C library writes at most that
        // many bytes. Where it fails, the set stays empty.
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut usable) };
        // SAFETY: the cores are below the size of the set.
        (0..libc::CPU_SETSIZE as usize).filter(move |&core| unsafe { libc::CPU_ISSET(core, &usable) })
    }
    #[cfg(not(target_os = "linux"))]
    std::iter::empty()
}

#[cfg(target_os = "linux")]
fn empty_set() -> libc::cpu_set_t {
    // SAFETY: `cpu_set_t` is a plain bit set for which all zeros is the empty set.
    unsafe { std::mem::zeroed() }
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
