//! Kinds of units: what code they run, and roughly how fast.
//!
//! Units of one kind are alike. A kind has a name, by which performance models, traces and machine files tell
//! it from others; the *code* that its units run, which implementations of codelets name; and a rough
//! [`Speed`], by which work is shared out where nothing was measured.

pub use crate::codelet::CPU;

/// What units of one kind have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Its name, such as `cpu`.
    pub name: String,
    /// The code that its units run, such as [`CPU`]. They execute implementations for this code and no
    /// others.
    pub code: String,
    /// Roughly how fast its units are.
    pub speed: Speed,
}

impl Kind {
    /// An ordinary core.
    pub fn cpu() -> Kind {
        Kind { name: CPU.to_string(), code: CPU.to_string(), speed: Speed::NOMINAL }
    }

    /// The same under another name.
    pub fn named(self, name: &str) -> Kind {
        Kind { name: name.to_string(), ..self }
    }

    /// The same, so many times as fast.
    pub fn times_as_fast(self, factor: f64) -> Kind {
        Kind { speed: self.speed.times(factor), ..self }
    }
}

/// Roughly how fast a unit is: good enough to compare tasks with each other, and units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Floating-point operations per second.
    pub flops_per_second: f64,
    /// Bytes per second from and to its memory.
    pub bytes_per_second: f64,
    /// Seconds that each task takes beside that.
    pub task_seconds: f64,
    /// What its own caches hold: what it has touched since, within this many bytes, is near.
    pub cache_bytes: u64,
}

impl Speed {
    /// Round numbers of an ordinary core, with the second-level cache that is common.
    pub const NOMINAL: Speed =
        Speed { flops_per_second: 50e9, bytes_per_second: 20e9, task_seconds: 200e-9, cache_bytes: 1 << 20 };

    /// A rough guess of the time that so many operations on so many bytes take.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        flops / self.flops_per_second + bytes / self.bytes_per_second + self.task_seconds
    }

    /// So many times as fast, with the same caches.
    pub fn times(self, factor: f64) -> Speed {
        Speed {
            flops_per_second: self.flops_per_second * factor,
            bytes_per_second: self.bytes_per_second * factor,
            task_seconds: self.task_seconds / factor,
            cache_bytes: self.cache_bytes,
        }
    }

    /// Whether times can be computed from it: everything is positive and finite.
    pub(super) fn is_sound(&self) -> bool {
        let is_positive = |x: f64| x.is_finite() && x > 0.0;
        is_positive(self.flops_per_second)
            && is_positive(self.bytes_per_second)
            && self.task_seconds.is_finite()
            && self.task_seconds >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_fast_takes_half_the_time() {
        let (slow, fast) = (Speed::NOMINAL, Speed::NOMINAL.times(2.0));
        for (flops, bytes) in [(0.0, 0.0), (1e9, 0.0), (0.0, 1e6), (3e5, 7e8)] {
            let ratio = slow.seconds(flops, bytes) / fast.seconds(flops, bytes);
            assert!((ratio - 2.0).abs() < 1e-12, "{ratio}");
        }
        assert!(slow.is_sound() && fast.is_sound());
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!slow.times(factor).is_sound(), "{factor}");
        }
    }
}
