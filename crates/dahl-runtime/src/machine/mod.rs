//! What there is to compute on: units, their memories, the threads' places on cores, and how fast all that
//! is.

mod detect;
pub mod file;
mod rates;
mod peaks;
mod pin;
mod resident;

pub use detect::{Cache, CacheKind, Hardware, Node, PowerSource};
pub use file::MachineFile;
pub use peaks::{Level, Peaks};
pub use pin::{keep_to_cores, pin_current_thread};
pub use rates::{Bandwidth, MeasuredRates, MemoryLevel, Rate, Stream};
pub(crate) use resident::resident_bytes_at;
pub use resident::{peak_resident_bytes, resident_bytes, resident_bytes_in};

/// Index of a memory in a [`Machine`]. Memory 0 is the host's.
pub type MemoryId = usize;

/// The memory that the program itself reads and writes.
pub const HOST: MemoryId = 0;

/// Memories that a run can use: where a block is valid is a bit for each of them in a word with a lock.
pub const MAX_MEMORIES: usize = 31;

/// What kind of unit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// A CPU core that computes in the host's memory.
    Cpu,
    /// A CPU core that pretends to be a device: it computes in a memory of its own, into and out of which
    /// everything must be copied. It keeps the handling of several memories honest where there is no GPU.
    Test,
}

impl UnitKind {
    /// All of them.
    pub const ALL: [UnitKind; 2] = [UnitKind::Cpu, UnitKind::Test];

    /// The kind in a word, as traces and performance models have it.
    pub fn name(self) -> &'static str {
        match self {
            UnitKind::Cpu => "cpu",
            UnitKind::Test => "test",
        }
    }
}

/// Something that executes tasks one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The kind.
    pub kind: UnitKind,
    /// The memory it computes in.
    pub memory: MemoryId,
    /// The core its thread is pinned to.
    pub core: Option<usize>,
}

/// The units and memories to work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The units, in worker order.
    pub units: Vec<Unit>,
    /// Number of memories, the host's included.
    pub n_memories: usize,
    /// The bytes that each memory may be used for, where that is limited; memories beyond the end are not.
    pub limits: Vec<Option<usize>>,
}

/// Number of cores this process may use.
pub fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

impl Machine {
    /// This machine: one CPU unit per available core.
    pub fn detect() -> Self {
        Machine::with_workers(n_cores())
    }

    /// `n` CPU units. Threads are pinned only while there is a core for each.
    pub fn with_workers(n: usize) -> Self {
        let core = |worker| (n <= n_cores()).then_some(worker);
        let units =
            (0..n.max(1)).map(|i| Unit { kind: UnitKind::Cpu, memory: HOST, core: core(i) }).collect();
        Machine { units, n_memories: 1, limits: Vec::new() }
    }

    /// The same machine with its last unit turned into a test unit that has a memory of its own.
    pub fn with_test_unit(mut self) -> Self {
        let memory = self.n_memories;
        if let Some(unit) = self.units.last_mut() {
            *unit = Unit { kind: UnitKind::Test, memory, core: unit.core };
            self.n_memories += 1;
        }
        self
    }

    /// The same machine with at most `bytes` of a memory to use: plans that need more are refused.
    pub fn with_limit(mut self, memory: MemoryId, bytes: usize) -> Self {
        if self.limits.len() <= memory {
            self.limits.resize(memory + 1, None);
        }
        self.limits[memory] = Some(bytes);
        self
    }
}
