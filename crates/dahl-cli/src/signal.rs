//! Signals: the first request to stop asks training to stop after the step, the second ends the program at
//! once.
//!
//! Requests are Ctrl-C and what batch systems and terminals send: SIGTERM, SIGHUP and SIGUSR1.
//!
//! They only leave a mark that the loop looks at after each step. What `nohup` has ignored stays ignored. A
//! file that grows past the limit for files is an error like a full disk, and no signal.

#![cfg_attr(unix, expect(unsafe_code, reason = "calls the C library"))]

use std::sync::atomic::{AtomicU64, Ordering};

/// When somebody first asked to stop, in milliseconds of a clock that never goes back; 0 if nobody has.
static ASKED_AT: AtomicU64 = AtomicU64::new(0);

/// A second request within this time is the same one: some programs send it to a process and to its group.
#[cfg(unix)]
const SAME_MILLIS: u64 = 500;

#[cfg(unix)]
const MESSAGE: &[u8] = b"\ndahl: stopping after this step; once more ends it at once\n";

/// From now on, a file that grows past the limit for files is an error of whoever writes it, with a sentence,
/// and not the end of the program.
pub fn take_limits_as_errors() {
    #[cfg(unix)]
    // SAFETY: no handler is installed; to ignore this signal changes nothing but what `write` returns.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// From now on, the first request to stop only leaves a mark.
pub fn listen() {
    #[cfg(unix)]
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
        // SAFETY: `sigaction` is a plain structure for which all zeros is valid, and outlives the calls,
        // which copy it. The handler touches an atomic and calls only what may be called at any moment
        // (signal-safety(7)).
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            // Whoever started us with `nohup` wants us to go on when the terminal is closed. Shells ignore
            // Ctrl-C for what runs in the background; whoever sends it there by hand is heard all the same.
            let may_be_ignored = matches!(signal, libc::SIGHUP | libc::SIGUSR1);
            if may_be_ignored && before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = mark as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether somebody asked to stop.
pub fn is_asked() -> bool {
    ASKED_AT.load(Ordering::Relaxed) != 0
}

#[cfg(unix)]
extern "C" fn mark(signal: libc::c_int) {
    // SAFETY: `timespec` is a plain structure that outlives the call; the message is there for the whole
    // program; all four functions may be called in a handler. The signal that is raised ends the program when
    // this handler returns.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        let now = (time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000).max(1);
        match ASKED_AT.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            }
            Err(first) if now.saturating_sub(first) < SAME_MILLIS => {}
            Err(_) => {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}
