//! Pinning a thread to a core or to some, where the operating system can.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "calls the C library"))]

/// Pins the calling thread to a core. Failure (a core outside the allowed set, a system without affinity) is
/// harmless: the thread then runs where the system puts it.
pub fn pin_current_thread(core: usize) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: `cpu_set_t` is a plain bit set for which all zeros is the empty set; `allowed` outlives both
        // calls and its size is passed along; the C library writes at most that many bytes.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
                return;
            }
            // The `core`-th of the cores this process may use, which a container may have narrowed.
            let nth = (0..libc::CPU_SETSIZE as usize).filter(|&c| libc::CPU_ISSET(c, &allowed)).nth(core);
            if let Some(nth) = nth {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(nth, &mut set);
                libc::sched_setaffinity(0, size, &set);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = core;
}

/// Keeps the calling thread, and those that it starts from now on, to the first `n` of the cores it may use. Failure is harmless, as
/// for [`pin_current_thread`].
pub fn keep_to_cores(n: usize) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: as in `pin_current_thread`: plain bit sets that outlive the calls, with their size.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
                return;
            }
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let cores = (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed));
            cores.take(n.max(1)).for_each(|core| libc::CPU_SET(core, &mut set));
            libc::sched_setaffinity(0, size, &set);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = n;
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
