//! Which memory holds the current value of what.
//!
//! Each version of a block (see [`Blocks`]) has a set of memories that hold its current value: one memory
//! *owns* it after a write, several *share* it after copies, and for all others it is *invalid*. A unit that
//! is about to read a block which is invalid in its memory copies it from one where it is valid; one that is
//! about to write makes it invalid everywhere else. The edges of the graph see to it that nobody writes a
//! block while others use it, so the lock of a block only keeps two readers from copying at the same time.
//!
//! Some memories the host's threads cannot see: those of devices. What is copied there is *on its way* at
//! first, valid for whatever that device does next and for nobody else. So nobody copies from such a memory
//! what it has by a copy: a memory that the host sees comes first, and from one hidden memory to another the
//! way goes through the host's, where the value is then valid, too. A hidden memory that alone has a value is
//! where it was computed.
//!
//! This is for open orders, where nobody knows who needs what until then. In a planned order copies are part
//! of the plan.

use crate::graph::{Block, Blocks, Lowered};
use crate::machine::{HOST, MAX_MEMORIES, MemoryId};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::spin_loop;
use std::ops::Range;

/// Set while a block is being copied; the bits below say where it is valid.
const LOCKED: u32 = 1 << MAX_MEMORIES;

/// The blocks of a lowered graph and where they are valid.
pub(crate) struct Coherence {
    blocks: Blocks,
    /// For each block, the state of its first version.
    first: Vec<usize>,
    states: Vec<AtomicU32>,
    /// The memories that the host's threads see, as bits.
    visible: u32,
}

/// A version of a block that is invalid where it is needed.
pub(crate) struct Stale<'a> {
    pub number: usize,
    pub block: &'a Block,
    pub version: usize,
    /// A memory in which it is valid.
    pub from: MemoryId,
    /// Where it is to be valid.
    pub to: MemoryId,
}

impl Coherence {
    /// The blocks of a graph, all valid in the host's memory. There must not be more than [`MAX_MEMORIES`].
    pub fn new(lowered: &Lowered) -> Self {
        let blocks = lowered.blocks();
        let mut n_states = 0;
        let first = |block: &Block| {
            n_states += lowered.versions(block.buffer);
            n_states - lowered.versions(block.buffer)
        };
        let first = blocks.blocks.iter().map(first).collect();
        let states = (0..n_states).map(|_| AtomicU32::new(1 << HOST)).collect();
        Coherence { blocks, first, states, visible: u32::MAX }
    }

    /// The same where the host's threads see only these memories, as bits; the host's own is one of them.
    pub fn where_visible(self, memories: u32) -> Self {
        Coherence { visible: memories, ..self }
    }

    /// Prepares everything that a task touches for a unit that computes in `memory`. `version` says which
    /// version of a buffer an age is now; `copy` is given a block to copy.
    pub fn prepare(
        &self,
        task: usize,
        memory: MemoryId,
        version: impl Fn(usize, usize) -> usize,
        copy: impl Fn(Stale<'_>),
    ) {
        for used in &self.blocks.uses[task] {
            let version = version(self.blocks.blocks[used.block].buffer, used.age);
            if used.reads {
                self.fetch(used.block, version, memory, &copy);
            }
            if used.writes {
                self.own(used.block, version, memory);
            }
        }
    }

    /// Calls `each` with what a task reads and is not valid in `memory`: where it is valid, and its bytes.
    pub fn missing(
        &self,
        task: usize,
        memory: MemoryId,
        version: impl Fn(usize, usize) -> usize,
        each: &mut dyn FnMut(MemoryId, usize),
    ) {
        for used in self.blocks.uses[task].iter().filter(|used| used.reads) {
            let block = &self.blocks.blocks[used.block];
            let valid = self.state(used.block, version(block.buffer, used.age)).load(Ordering::Acquire);
            if valid >> memory & 1 == 0 {
                let seen = valid & self.visible;
                let from = if seen == 0 { valid } else { seen }.trailing_zeros() as MemoryId;
                each(from, block.range.len());
            }
        }
    }

    /// Makes all of a version of a buffer valid in the host's memory.
    pub fn fetch_buffer(&self, buffer: usize, version: usize, copy: impl Fn(Stale<'_>)) {
        for block in self.blocks.of_buffer[buffer].clone() {
            self.fetch(block, version, HOST, &copy);
        }
    }

    /// Says where each version of each block of a buffer is valid, at the beginning of a run: in the host's
    /// memory, and where `is_valid` says so.
    pub fn begin_buffer(&self, buffer: usize, is_valid: impl Fn(MemoryId, usize, &Range<usize>) -> bool) {
        for number in self.blocks.of_buffer[buffer].clone() {
            let (range, last) = (&self.blocks.blocks[number].range, self.first.get(number + 1));
            let n_versions = last.copied().unwrap_or(self.states.len()) - self.first[number];
            for version in 0..n_versions {
                let others = (HOST + 1..MAX_MEMORIES).filter(|&memory| is_valid(memory, version, range));
                let valid = others.fold(1 << HOST, |valid, memory| valid | 1 << memory);
                self.state(number, version).store(valid, Ordering::Release);
            }
        }
    }

    /// The blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Whether a version of a block is valid in a memory.
    pub fn is_valid(&self, block: usize, version: usize, memory: MemoryId) -> bool {
        self.state(block, version).load(Ordering::Acquire) >> memory & 1 == 1
    }

    /// Notes that the host wrote a version of a buffer.
    pub fn own_buffer(&self, buffer: usize, version: usize) {
        for block in self.blocks.of_buffer[buffer].clone() {
            self.own(block, version, HOST);
        }
    }

    fn state(&self, block: usize, version: usize) -> &AtomicU32 {
        &self.states[self.first[block] + version]
    }

    fn fetch(&self, number: usize, version: usize, memory: MemoryId, copy: &impl Fn(Stale<'_>)) {
        let state = self.state(number, version);
        let is_visible = |memory: MemoryId| self.visible >> memory & 1 == 1;
        loop {
            let now = state.load(Ordering::Acquire);
            let seen = now & self.visible;
            let from = if seen == 0 { now } else { seen }.trailing_zeros() as MemoryId;
            if now & LOCKED != 0 {
                spin_loop();
            } else if now >> memory & 1 == 1 {
                return;
            } else if !is_visible(from) && !is_visible(memory) {
                self.fetch(number, version, HOST, copy);
            } else if state.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                let block = &self.blocks.blocks[number];
                copy(Stale { number, block, version, from, to: memory });
                state.store(now | 1 << memory, Ordering::Release);
                return;
            }
        }
    }

    fn own(&self, block: usize, version: usize, memory: MemoryId) {
        self.state(block, version).store(1 << memory, Ordering::Release);
    }
}
