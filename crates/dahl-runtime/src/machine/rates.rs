//! What was measured on a machine: operations per second, bytes per second, and what a task costs beside its
//! kernel.
//!
//! Rates are measured on one core and on all. For a number of workers in between, each is as fast as alone
//! until all together would be faster than all cores, and shares a cache with as many as are at work
//! ([`MeasuredRates::peaks`]). A cache is a core's *own* if only the hardware threads of one core have it.

use super::{Cache, CacheKind, Hardware, Level, Peaks};

/// Something measured on one core alone, and on all cores at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Per second, on one core while the others have nothing to do.
    pub one: f64,
    /// Per second, on all cores together.
    pub all: f64,
}

/// How memory was gone through. Bytes are those that the program reads and writes; what a cache fetches
/// before it is overwritten does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Sums an array.
    Read,
    /// Copies an array to another.
    Copy,
    /// Adds a multiple of one array to another into a third.
    Triad,
}

impl Stream {
    /// All of them.
    pub const ALL: [Stream; 3] = [Stream::Read, Stream::Copy, Stream::Triad];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Read => "read",
            Stream::Copy => "copy",
            Stream::Triad => "triad",
        }
    }

    /// How many arrays it goes through.
    pub fn n_arrays(self) -> usize {
        self as usize + 1
    }
}

/// Where data lies that was gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLevel {
    /// `L1`, `L2`, … or `memory`.
    pub name: String,
    /// What the cache holds; none for memory.
    pub capacity: Option<u64>,
    /// Whether it belongs to one core alone, with all of the core's hardware threads.
    pub is_own: bool,
    /// How many of the cores (hardware threads) that were measured share it.
    pub n_sharing: usize,
    /// The bytes that one core went through.
    pub bytes: u64,
}

/// The bandwidth of one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    /// The level.
    pub level: MemoryLevel,
    /// Bytes per second of each of [`Stream::ALL`].
    pub rates: [Rate; Stream::ALL.len()],
}

/// What was measured on a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredRates {
    /// When, in seconds since 1970.
    pub date: u64,
    /// How many cores "all" were.
    pub n_cores: usize,
    /// Operations per second on f32, a multiply-add counting 2.
    pub flops_f32: Rate,
    /// The same on f64.
    pub flops_f64: Rate,
    /// Bandwidths, nearest level first.
    pub bandwidths: Vec<Bandwidth>,
    /// Seconds that the runtime needs for a task beside its kernel, where that was measured.
    pub task_seconds: Option<f64>,
}

impl MeasuredRates {
    /// What each of `n_workers` workers can do while all of them are at work.
    pub fn peaks(&self, n_workers: usize) -> Peaks {
        // Between one and all nothing was measured: nobody is faster than alone, and together they are not
        // faster than all. Workers beyond the cores wait for a core; who has one is as fast as with a worker
        // on each.
        let n_at_once = n_workers.clamp(1, self.n_cores.max(1));
        let per_worker = |rate: &Rate| match n_at_once {
            1 => rate.one,
            n => rate.one.min(rate.all / n as f64),
        };
        let share = |level: &MemoryLevel| Some(level.capacity? / level.n_sharing.clamp(1, n_at_once) as u64);
        let level = |bandwidth: &Bandwidth| Level {
            name: bandwidth.level.name.clone(),
            bytes: share(&bandwidth.level),
            is_own: bandwidth.level.is_own,
            bytes_per_second: bandwidth.rates.iter().map(per_worker).fold(0.0, f64::max),
        };
        Peaks {
            flops_f32: per_worker(&self.flops_f32),
            flops_f64: per_worker(&self.flops_f64),
            levels: self.bandwidths.iter().map(level).collect(),
        }
    }
}

/// What is taken to be beyond all caches where the system does not tell how large they are.
const UNKNOWN_CACHE_BYTES: u64 = 32 << 20;

impl MemoryLevel {
    /// The levels worth measuring on this hardware, nearest first, for `n_cores` cores that are at it at
    /// once: in each cache and well beyond the last.
    pub fn of(hardware: &Hardware, n_cores: usize) -> Vec<MemoryLevel> {
        let is_data = |cache: &&Cache| cache.kind != CacheKind::Instruction && cache.bytes > 0;
        // Caches of a core that runs several threads list all of them.
        let threads_per_core = match (hardware.threads, hardware.cores) {
            (Some(threads), Some(cores)) if cores > 0 => threads.div_ceil(cores).max(1),
            _ => 1,
        };
        let mut levels: Vec<MemoryLevel> = Vec::new();
        let mut last = 0;
        for cache in hardware.caches.iter().filter(is_data) {
            // Threads that we do not use do not need their share.
            let n_sharing = cache.threads.clamp(1, n_cores.max(1));
            let bytes = cache.bytes / n_sharing as u64 / 2;
            let nearer = levels.last().map_or(0, |level| level.bytes);
            last = last.max(cache.bytes);
            // Half of one core's share, so that what else there is finds room too; unless that is as much as
            // in the cache before.
            if bytes > nearer {
                let (name, capacity) = (format!("L{}", cache.level), Some(cache.bytes));
                let is_own = cache.threads <= threads_per_core;
                levels.push(MemoryLevel { name, capacity, is_own, n_sharing, bytes });
            }
        }
        let beyond = 4 * if last > 0 { last } else { UNKNOWN_CACHE_BYTES };
        let room = hardware.memory_limit_bytes.or(hardware.memory_bytes).unwrap_or(u64::MAX) / 8;
        let bytes = beyond.min(room) / n_cores.max(1) as u64;
        let n_sharing = n_cores.max(1);
        levels.push(MemoryLevel {
            name: "memory".to_string(),
            capacity: None,
            is_own: false,
            n_sharing,
            bytes,
        });
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: usize, kind: CacheKind, bytes: u64, threads: usize) -> Cache {
        Cache { level, kind, bytes, line_bytes: Some(64), threads, count: 1 }
    }

    #[test]
    fn places_are_within_each_cache_and_beyond_the_last() {
        let caches = vec![
            cache(1, CacheKind::Data, 32 << 10, 1),
            cache(1, CacheKind::Instruction, 32 << 10, 1),
            cache(2, CacheKind::Unified, 1 << 20, 1),
            cache(3, CacheKind::Unified, 32 << 20, 8),
        ];
        let hardware = Hardware { caches, ..Hardware::default() };
        let levels = MemoryLevel::of(&hardware, 2);
        let found: Vec<_> =
            levels.iter().map(|p| (p.name.as_str(), p.capacity, p.is_own, p.n_sharing, p.bytes)).collect();
        let expected = [
            ("L1", Some(32 << 10), true, 1, 16 << 10),
            ("L2", Some(1 << 20), true, 1, 512 << 10),
            ("L3", Some(32 << 20), false, 2, 8 << 20),
            ("memory", None, false, 2, 64 << 20),
        ];
        assert_eq!(found, expected);
        // A small machine is not filled up, and one that tells nothing has memory all the same.
        let small = Hardware { memory_bytes: Some(128 << 20), ..hardware };
        assert_eq!(MemoryLevel::of(&small, 1).last().unwrap().bytes, 16 << 20);
        let unknown = MemoryLevel::of(&Hardware::default(), 0);
        assert_eq!((unknown.len(), unknown[0].bytes), (1, 128 << 20));
    }

    #[test]
    fn caches_of_a_core_with_several_threads_are_its_own() {
        let caches = vec![
            cache(1, CacheKind::Data, 48 << 10, 2),
            cache(2, CacheKind::Unified, 2 << 20, 2),
            cache(3, CacheKind::Unified, 32 << 20, 16),
        ];
        let own = |cores, threads| {
            let hardware = Hardware { caches: caches.clone(), cores, threads, ..Hardware::default() };
            let levels = MemoryLevel::of(&hardware, 16);
            assert_eq!(levels.iter().map(|p| p.n_sharing).collect::<Vec<_>>(), [2, 2, 16, 16]);
            assert_eq!(
                (levels[0].capacity, levels[0].bytes),
                (Some(48 << 10), 12 << 10),
                "both threads find room"
            );
            levels.iter().map(|p| p.is_own).collect::<Vec<_>>()
        };
        assert_eq!(own(Some(8), Some(16)), [true, true, false, false]);
        // Fast cores with two threads beside slow ones with one.
        assert_eq!(own(Some(12), Some(16)), [true, true, false, false]);
        // Two cores that share a cache, or nothing known about them.
        for (cores, threads) in [(Some(16), Some(16)), (None, None), (Some(0), Some(16)), (Some(16), Some(0))]
        {
            assert_eq!(own(cores, threads), [false; 4]);
        }
    }

    #[test]
    fn some_workers_are_as_fast_as_alone_until_they_share_what_all_can_do() {
        let bandwidth = |name: &str, capacity, n_sharing, rate| Bandwidth {
            level: MemoryLevel { name: name.into(), capacity, is_own: n_sharing == 1, n_sharing, bytes: 1 },
            rates: [rate; 3],
        };
        let measured = MeasuredRates {
            n_cores: 16,
            flops_f32: Rate { one: 100.0, all: 1200.0 },
            bandwidths: vec![
                bandwidth("L2", Some(1000), 1, Rate { one: 80.0, all: 1280.0 }),
                bandwidth("L3", Some(8000), 8, Rate { one: 40.0, all: 320.0 }),
                bandwidth("memory", None, 16, Rate { one: 20.0, all: 80.0 }),
            ],
            ..MeasuredRates::default()
        };
        let found = |n_workers: usize| {
            let peaks = measured.peaks(n_workers);
            let levels = peaks.levels.iter().map(|level| (level.bytes, level.bytes_per_second));
            (peaks.flops_f32, levels.collect::<Vec<_>>())
        };
        let alone = (100.0, vec![(Some(1000), 80.0), (Some(8000), 40.0), (None, 20.0)]);
        assert_eq!(found(1), alone);
        assert_eq!(found(0), alone);
        assert_eq!(found(4), (100.0, vec![(Some(1000), 80.0), (Some(2000), 40.0), (None, 20.0)]));
        assert_eq!(found(10), (100.0, vec![(Some(1000), 80.0), (Some(1000), 32.0), (None, 8.0)]));
        let all = (75.0, vec![(Some(1000), 80.0), (Some(1000), 20.0), (None, 5.0)]);
        assert_eq!(found(16), all);
        // A kernel of one of more workers than cores has a core for itself while it runs.
        assert_eq!(found(64), all);
    }

    #[test]
    fn workers_share_what_all_cores_can_do() {
        let level =
            MemoryLevel { name: "memory".into(), capacity: None, is_own: false, n_sharing: 2, bytes: 1 };
        let rates = [Rate { one: 10.0, all: 16.0 }, Rate { one: 12.0, all: 15.0 }, Rate::default()];
        let measured = MeasuredRates {
            n_cores: 2,
            flops_f32: Rate { one: 100.0, all: 180.0 },
            flops_f64: Rate { one: 50.0, all: 90.0 },
            bandwidths: vec![Bandwidth { level, rates }],
            ..MeasuredRates::default()
        };
        let (one, two) = (measured.peaks(1), measured.peaks(2));
        assert_eq!((one.flops_f32, one.flops_f64, one.levels[0].bytes_per_second), (100.0, 50.0, 12.0));
        assert_eq!((two.flops_f32, two.flops_f64, two.levels[0].bytes_per_second), (90.0, 45.0, 8.0));
    }
}
