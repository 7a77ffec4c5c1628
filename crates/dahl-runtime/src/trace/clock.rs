//! A cheap clock: the processor's time-stamp counter where there is one that all cores share.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "reads the time-stamp counter"))]

use std::time::Instant;

/// The current time in ticks of the cheapest clock.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    {
        use crate::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Relates ticks to seconds: started before a stretch of work, read after it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks: u64,
    instant: Instant,
}

impl Clock {
    /// Starts counting.
    pub fn start() -> Self {
        Clock { ticks: ticks(), instant: Instant::now() }
    }

    /// Ticks per second since the start.
    pub fn ticks_per_second(&self) -> f64 {
        let seconds = self.instant.elapsed().as_secs_f64();
        (ticks() - self.ticks) as f64 / seconds.max(1e-9)
    }
}
