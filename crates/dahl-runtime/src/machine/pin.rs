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
    {
        // SAFETY: `cpu_set_t` is a plain bit set for which all zeros is the empty set; both sets outlive the
        // calls and their size is passed along; the C library writes at most that many bytes.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
                return;
            }
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let cores = (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed));
            cores.skip(which.start).take(which.len()).for_each(|core| libc::CPU_SET(core, &mut set));
            // The system refuses an empty set.
            libc::sched_setaffinity(0, size, &set);
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
