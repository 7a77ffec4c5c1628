//! What there is to compute on: kinds of units, memories and the links between them, the threads' places on
//! cores, and how fast all that is.

mod kind;
mod shares;
mod detect;
pub mod file;
mod rates;
mod peaks;
mod pin;
mod thread;
mod resident;

pub use detect::{Cache, CacheKind, CoreKind, Hardware, Node, PowerSource};
pub use file::MachineFile;
pub use kind::{CPU, Kind, Speed};
pub use peaks::{Level, Peaks};
pub use pin::{keep_to_cores, pin_current_thread, usable_cores};
pub use rates::{Bandwidth, MeasuredRates, MemoryLevel, Rate, Stream};
pub(crate) use resident::resident_bytes_at;
pub use resident::{peak_resident_bytes, resident_bytes, resident_bytes_in};
pub use shares::Shares;
pub use thread::{CoreClock, CoreTime, ThreadId, process_time};

use crate::error::{Error, ErrorKind, Result};
use std::cmp::Reverse;

/// Index of a memory in a [`Machine`]. Memory 0 is the host's.
pub type MemoryId = usize;

/// Index of a kind of units in a [`Machine`].
pub type KindId = usize;

/// The memory that the program itself reads and writes.
pub const HOST: MemoryId = 0;

/// Memories that a run can use: where a block is valid is a bit for each of them in a word with a lock.
pub const MAX_MEMORIES: usize = 31;

/// Something that executes tasks one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The kind.
    pub kind: KindId,
    /// The memory it computes in.
    pub memory: MemoryId,
    /// The core its thread is pinned to: a number among those that the process may use.
    pub core: Option<usize>,
}

/// A memory that units compute in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Its name, such as `host`.
    pub name: String,
    /// The bytes that may be used of it, where that is limited.
    pub limit_bytes: Option<usize>,
}

/// A way from one memory to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Where data are read.
    pub from: MemoryId,
    /// Where they are written.
    pub to: MemoryId,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Seconds before the first byte arrives.
    pub latency_seconds: f64,
}

impl Link {
    /// A link between two parts of one main memory, as fast as an ordinary core copies.
    pub fn nominal(from: MemoryId, to: MemoryId) -> Link {
        Link { from, to, bytes_per_second: Speed::NOMINAL.bytes_per_second / 2.0, latency_seconds: 1e-6 }
    }

    /// Seconds that a copy of so many bytes takes.
    pub fn seconds(&self, bytes: usize) -> f64 {
        self.latency_seconds + bytes as f64 / self.bytes_per_second
    }
}

/// The units, memories and links to work with.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The kinds of units.
    pub kinds: Vec<Kind>,
    /// The units, in worker order.
    pub units: Vec<Unit>,
    /// The memories, the host's first.
    pub memories: Vec<Memory>,
    /// The links between memories.
    pub links: Vec<Link>,
}

/// Number of cores this process may use.
pub fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

impl Machine {
    /// This machine: one unit per core that the process may use.
    pub fn detect() -> Self {
        Machine::of_hardware(&Hardware::detect(), n_cores())
    }

    /// `n` equal CPU units. Threads are pinned only while there is a core for each.
    pub fn with_workers(n: usize) -> Self {
        let core = |worker| (n <= n_cores()).then_some(worker);
        let units = (0..n.max(1)).map(|worker| Unit { kind: 0, memory: HOST, core: core(worker) }).collect();
        let host = Memory { name: "host".to_string(), limit_bytes: None };
        Machine { kinds: vec![Kind::cpu()], units, memories: vec![host], links: Vec::new() }
    }

    /// `n` units on this hardware, which must be that of the process: where its cores are of several kinds,
    /// the fastest first.
    pub fn of_hardware(hardware: &Hardware, n: usize) -> Self {
        Machine::with_workers(n).on_cores(hardware, &usable_cores().collect::<Vec<_>>())
    }

    /// The same machine with the kinds of the cores that its units are pinned to. `threads` are the numbers
    /// of the hardware threads that the process may use.
    fn on_cores(mut self, hardware: &Hardware, threads: &[usize]) -> Self {
        let kind_of = |thread: &usize| hardware.kinds.iter().position(|kind| kind.threads.contains(thread));
        let kinds: Option<Vec<KindId>> = threads.iter().map(kind_of).collect();
        let Some(kinds) = kinds.filter(|kinds| hardware.kinds.len() > 1 && kinds.len() >= self.units.len())
        else {
            return self;
        };
        let mut cores: Vec<usize> = (0..kinds.len()).collect();
        cores.sort_by_key(|&core| Reverse(hardware.kinds[kinds[core]].capacity));
        self.kinds.clear();
        for (worker, core) in cores.into_iter().take(self.units.len()).enumerate() {
            let of = &hardware.kinds[kinds[core]];
            let kind = Kind::cpu().named(&format!("{CPU}-{}", of.name)).times_as_fast(of.speed());
            self.units[worker].kind = self.add_kind(kind);
            self.units[worker].core = self.units[worker].core.map(|_| core);
        }
        self
    }

    /// The same machine with its last unit turned into a test unit: a CPU core of a kind of its own, which
    /// computes in a memory of its own, into and out of which everything must be copied. It keeps the
    /// handling of several memories honest where there is no device.
    pub fn with_test_unit(self) -> Self {
        match self.units.len().checked_sub(1) {
            Some(last) => self.with_unit_apart(last, Kind::cpu().named("test")),
            None => self,
        }
    }

    /// The same machine with one of its units turned into one of another kind, with a memory of its own that
    /// is linked to all others.
    pub fn with_unit_apart(mut self, unit: usize, kind: Kind) -> Self {
        self.units[unit].memory = self.add_memory(None);
        self.with_kind(unit, kind)
    }

    /// The same machine with one of its units of this kind.
    pub fn with_kind(mut self, unit: usize, kind: Kind) -> Self {
        self.units[unit].kind = self.add_kind(kind);
        self
    }

    /// Adds a memory that is linked to all others.
    pub fn add_memory(&mut self, limit_bytes: Option<usize>) -> MemoryId {
        let memory = self.memories.len();
        self.memories.push(Memory { name: format!("memory {memory}"), limit_bytes });
        let links = |other| [Link::nominal(other, memory), Link::nominal(memory, other)];
        self.links.extend((0..memory).flat_map(links));
        memory
    }

    /// Adds a kind of units, unless there is one just like it.
    pub fn add_kind(&mut self, kind: Kind) -> KindId {
        let known = self.kinds.iter().position(|known| *known == kind);
        known.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        })
    }

    /// The same machine with at most `bytes` of a memory to use: plans that need more are refused.
    pub fn with_limit(mut self, memory: MemoryId, bytes: usize) -> Self {
        self.memories[memory].limit_bytes = Some(bytes);
        self
    }

    /// The kind of a unit.
    pub fn kind_of(&self, unit: usize) -> &Kind {
        &self.kinds[self.units[unit].kind]
    }

    /// Whether a unit executes implementations of a code.
    pub fn runs(&self, unit: usize, code: &str) -> bool {
        self.kind_of(unit).code == code
    }

    /// The link from one memory to another, if they are joined directly.
    pub fn link(&self, from: MemoryId, to: MemoryId) -> Option<&Link> {
        self.links.iter().find(|link| (link.from, link.to) == (from, to))
    }

    /// Roughly how fast a unit is, whichever it is: the mean of all.
    pub fn mean_speed(&self) -> Speed {
        if let [kind] = &self.kinds[..] {
            return kind.speed;
        }
        let n = self.units.len().max(1) as f64;
        let mean = |of: fn(&Speed) -> f64| {
            (0..self.units.len()).map(|unit| of(&self.kind_of(unit).speed)).sum::<f64>() / n
        };
        Speed {
            flops_per_second: mean(|speed| speed.flops_per_second),
            bytes_per_second: mean(|speed| speed.bytes_per_second),
            task_seconds: mean(|speed| speed.task_seconds),
            cache_bytes: mean(|speed| speed.cache_bytes as f64) as u64,
        }
    }

    /// Refuses a machine that nothing can be computed on, or whose parts do not fit together.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Usage, message));
        if self.units.is_empty() {
            return refuse("there is no unit to compute on: a machine needs at least one".to_string());
        }
        let n = self.memories.len();
        if n == 0 || n > MAX_MEMORIES {
            return refuse(format!("a machine has 1 to {MAX_MEMORIES} memories, not {n}: use fewer of them"));
        }
        for (i, kind) in self.kinds.iter().enumerate() {
            if let Some(other) = self.kinds[..i].iter().find(|other| other.name == kind.name) {
                return refuse(format!("two kinds of units are called {}: give each a name", other.name));
            }
            if !kind.speed.is_sound() {
                return refuse(format!("units of the kind {} have no positive speed: give one", kind.name));
            }
        }
        for (i, unit) in self.units.iter().enumerate() {
            if unit.memory >= n {
                let memory = unit.memory;
                return refuse(format!(
                    "unit {i} computes in memory {memory}, and memories have the numbers 0 to {}",
                    n - 1
                ));
            }
            if unit.kind >= self.kinds.len() {
                return refuse(format!("unit {i} is of kind {}, which the machine does not have", unit.kind));
            }
            let memory = unit.memory;
            let is_linked = |from, to| from == to || self.link(from, to).is_some();
            if !is_linked(HOST, memory) || !is_linked(memory, HOST) {
                return refuse(format!(
                    "unit {i} computes in memory {memory}, which is not linked to the host's in both directions"
                ));
            }
        }
        let is_sound = |link: &&Link| {
            let is_there = link.from < n && link.to < n && link.from != link.to;
            let is_fast = link.bytes_per_second.is_finite() && link.bytes_per_second > 0.0;
            is_there && is_fast && link.latency_seconds.is_finite() && link.latency_seconds >= 0.0
        };
        match self.links.iter().find(|link| !is_sound(link)) {
            Some(link) => refuse(format!(
                "a link needs two memories of the machine and a positive speed, and this one has neither or one: {link:?}"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
