//! Which memory holds the current value of what.
//!
//! Buffers are divided into blocks at every boundary of an access, so that each access covers whole blocks. Each
//! version of a block has a set of memories that hold its current value: one memory *owns* it after a write, several
//! *share* it after copies, and for all others it is *invalid*. A unit that is about to read a block which is
//! invalid in its memory copies it from one where it is valid; one that is about to write makes it invalid
//! everywhere else. The edges of the graph see to it that nobody writes a block while others use it, so the lock
//! of a block only keeps two readers from copying at the same time.

use crate::graph::{BufferKind, Lowered};
use crate::machine::{HOST, MemoryId};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::spin_loop;
use std::ops::Range;

/// Set while a block is being copied; the other bits say where it is valid.
const LOCKED: u32 = 1 << 31;

/// A piece of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub buffer: usize,
    pub range: Range<usize>,
    first_state: usize,
}

/// What a task does to a block.
#[derive(Clone, Debug)]
struct Use {
    block: usize,
    reads: bool,
    writes: bool,
}

/// The blocks of a lowered graph and where they are valid.
pub(super) struct Coherence {
    blocks: Vec<Block>,
    states: Vec<AtomicU32>,
    uses: Vec<Vec<Use>>,
    /// The blocks of each buffer.
    of_buffer: Vec<Range<usize>>,
    versions: Vec<usize>,
}

impl Coherence {
    /// Divides the buffers of a graph into blocks, all valid in the host's memory.
    pub fn new(lowered: &Lowered) -> Self {
        let mut cuts: Vec<Vec<usize>> = lowered.buffers.iter().map(|buffer| vec![0, buffer.bytes]).collect();
        for access in lowered.tasks.iter().flat_map(|task| &task.accesses) {
            cuts[access.buffer].extend([access.range.start, access.range.end]);
        }
        let (mut blocks, mut of_buffer, mut versions, mut n_states) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (buffer, cuts) in cuts.iter_mut().enumerate() {
            cuts.sort_unstable();
            cuts.dedup();
            let count = if lowered.buffers[buffer].kind == BufferKind::Ring { lowered.depth } else { 1 };
            let first = blocks.len();
            for pair in cuts.windows(2) {
                blocks.push(Block { buffer, range: pair[0]..pair[1], first_state: n_states });
                n_states += count;
            }
            of_buffer.push(first..blocks.len());
            versions.push(count);
        }
        let uses = lowered.tasks.iter().map(|task| {
            let of_access = |access: &crate::graph::Access| {
                let (range, reads, writes) = (access.range.clone(), access.reads, access.writes);
                let inside = |&block: &usize| {
                    let b: &Block = &blocks[block];
                    range.start <= b.range.start && b.range.end <= range.end
                };
                let covered: Vec<usize> = of_buffer[access.buffer].clone().filter(inside).collect();
                covered.into_iter().map(move |block| Use { block, reads, writes })
            };
            task.accesses.iter().flat_map(of_access).collect()
        });
        let uses = uses.collect();
        let states = (0..n_states).map(|_| AtomicU32::new(1 << HOST)).collect();
        Coherence { blocks, states, uses, of_buffer, versions }
    }

    /// Prepares everything that a task touches for a unit that computes in `memory`.
    pub fn prepare(&self, task: usize, step: u64, memory: MemoryId, copy: impl Fn(&Block, MemoryId, u64)) {
        for used in &self.uses[task] {
            if used.reads {
                self.fetch(used.block, step, memory, &copy);
            }
            if used.writes {
                self.own(used.block, step, memory);
            }
        }
    }

    /// Makes all of a buffer's version of `step` valid in the host's memory.
    pub fn fetch_buffer(&self, buffer: usize, step: u64, copy: impl Fn(&Block, MemoryId, u64)) {
        for block in self.of_buffer[buffer].clone() {
            self.fetch(block, step, HOST, &copy);
        }
    }

    /// Notes that the host wrote a buffer's version of `step`.
    pub fn own_buffer(&self, buffer: usize, step: u64) {
        for block in self.of_buffer[buffer].clone() {
            self.own(block, step, HOST);
        }
    }

    fn state(&self, block: usize, step: u64) -> &AtomicU32 {
        let block = &self.blocks[block];
        &self.states[block.first_state + step as usize % self.versions[block.buffer]]
    }

    fn fetch(&self, block: usize, step: u64, memory: MemoryId, copy: &impl Fn(&Block, MemoryId, u64)) {
        let state = self.state(block, step);
        loop {
            let now = state.load(Ordering::Acquire);
            if now & LOCKED != 0 {
                spin_loop();
            } else if now >> memory & 1 == 1 {
                return;
            } else if state.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                copy(&self.blocks[block], now.trailing_zeros() as MemoryId, step);
                state.store(now | 1 << memory, Ordering::Release);
                return;
            }
        }
    }

    fn own(&self, block: usize, step: u64, memory: MemoryId) {
        self.state(block, step).store(1 << memory, Ordering::Release);
    }
}
