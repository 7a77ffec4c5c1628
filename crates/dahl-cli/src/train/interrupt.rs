//! Ctrl-C: the first asks training to stop after the step, the second ends the program at once.

#![cfg_attr(unix, expect(unsafe_code, reason = "calls the C library"))]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody has asked to stop.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// From now on, the first Ctrl-C (or request to terminate, as batch systems send it) only leaves a mark.
pub fn listen() {
    #[cfg(unix)]
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: `sigaction` is a plain structure for which all zeros is valid, and outlives the call, which copies it. The
        // handler stores to an atomic and nothing else, which is allowed at any moment. With SA_RESETHAND the signal ends
        // the program when it comes again.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = mark as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether Ctrl-C was pressed.
pub fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

#[cfg(unix)]
extern "C" fn mark(_signal: libc::c_int) {
    IS_ASKED.store(true, Ordering::Relaxed);
}
