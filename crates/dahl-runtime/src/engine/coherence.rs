//! Which memory holds the current value of what.
//!
//! Each version of a block (see [`Blocks`]) has a set of memories that hold its current value: one memory
//! *owns* it after a write, several *share* it after copies, and for all others it is *invalid*. A unit that
//! is about to read a block which is invalid in its memory copies it from one where it is valid; one that is
//! about to write makes it invalid everywhere else. The edges of the graph see to it that nobody writes a
//! block while others use it, so the lock of a block only keeps two readers from copying at the same time.
//!
//! At present every memory uses the same offsets. A machine with a test unit (`Machine::with_test_unit`),
//! which computes in a memory of its own, has all of this under test.

use crate::graph::{Block, Blocks, Lowered};
use crate::machine::{HOST, MAX_MEMORIES, MemoryId};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::spin_loop;

/// Set while a block is being copied; the bits below say where it is valid.
const LOCKED: u32 = 1 << MAX_MEMORIES;

/// The blocks of a lowered graph and where they are valid.
pub(super) struct Coherence {
    blocks: Blocks,
    /// First state and number of versions of each block.
    versions: Vec<(usize, usize)>,
    states: Vec<AtomicU32>,
}

impl Coherence {
    /// The blocks of a graph, all valid in the host's memory. There must not be more than [`MAX_MEMORIES`].
    pub fn new(lowered: &Lowered) -> Self {
        let blocks = lowered.blocks();
        let mut n_states = 0;
        let version = |block: &Block| {
            let (first, count) = (n_states, lowered.versions(block.buffer));
            n_states += count;
            (first, count)
        };
        let versions = blocks.blocks.iter().map(version).collect();
        let states = (0..n_states).map(|_| AtomicU32::new(1 << HOST)).collect();
        Coherence { blocks, versions, states }
    }

    /// Prepares everything that a task touches for a unit that computes in `memory`. `copy` is given the
    /// block's number, the block, the memory it is valid in, and the step.
    pub fn prepare(
        &self,
        task: usize,
        step: u64,
        memory: MemoryId,
        copy: impl Fn(usize, &Block, MemoryId, u64),
    ) {
        for used in &self.blocks.uses[task] {
            if used.reads {
                self.fetch(used.block, step, memory, &copy);
            }
            if used.writes {
                self.own(used.block, step, memory);
            }
        }
    }

    /// Makes all of a buffer's version of `step` valid in the host's memory.
    pub fn fetch_buffer(&self, buffer: usize, step: u64, copy: impl Fn(usize, &Block, MemoryId, u64)) {
        for block in self.blocks.of_buffer[buffer].clone() {
            self.fetch(block, step, HOST, &copy);
        }
    }

    /// Notes that the host wrote a buffer's version of `step`.
    pub fn own_buffer(&self, buffer: usize, step: u64) {
        for block in self.blocks.of_buffer[buffer].clone() {
            self.own(block, step, HOST);
        }
    }

    fn state(&self, block: usize, step: u64) -> &AtomicU32 {
        let (first, count) = self.versions[block];
        &self.states[first + (step % count as u64) as usize]
    }

    fn fetch(&self, block: usize, step: u64, memory: MemoryId, copy: &impl Fn(usize, &Block, MemoryId, u64)) {
        let state = self.state(block, step);
        loop {
            let now = state.load(Ordering::Acquire);
            if now & LOCKED != 0 {
                spin_loop();
            } else if now >> memory & 1 == 1 {
                return;
            } else if state.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                copy(block, &self.blocks.blocks[block], now.trailing_zeros() as MemoryId, step);
                state.store(now | 1 << memory, Ordering::Release);
                return;
            }
        }
    }

    fn own(&self, block: usize, step: u64, memory: MemoryId) {
        self.state(block, step).store(1 << memory, Ordering::Release);
    }
}
