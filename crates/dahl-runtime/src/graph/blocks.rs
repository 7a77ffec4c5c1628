//! Blocks: the pieces of buffers that engines keep track of.
//!
//! Tasks may touch parts of a buffer (a range of the flat gradients, one group of partial results). An engine
//! that moves data between memories needs pieces that are touched as a whole or not at all, so buffers are
//! divided at every boundary of an access. A version of a block appears once per task, with the modes of all
//! its accesses together.

use super::lowered::{Access, Lowered, TaskId};
use std::ops::Range;

/// A piece of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The buffer.
    pub buffer: usize,
    /// The bytes.
    pub range: Range<usize>,
}

/// What a task does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The block.
    pub block: usize,
    /// The version: that of the step so many steps before.
    pub age: usize,
    /// Whether what is there is read.
    pub reads: bool,
    /// Whether it is written.
    pub writes: bool,
}

/// All blocks of a lowered graph.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// The blocks, ordered by buffer and position.
    pub blocks: Vec<Block>,
    /// The blocks of each buffer.
    pub of_buffer: Vec<Range<usize>>,
    /// What each task uses, ordered by block and age, each version once.
    pub uses: Vec<Vec<Use>>,
}

impl Lowered {
    /// Divides the buffers into blocks.
    pub fn blocks(&self) -> Blocks {
        let mut cuts: Vec<Vec<usize>> = self.buffers.iter().map(|buffer| vec![0, buffer.bytes]).collect();
        for access in self.tasks.iter().flat_map(|task| &task.accesses) {
            cuts[access.buffer].extend([access.range.start, access.range.end]);
        }
        let (mut blocks, mut of_buffer) = (Vec::new(), Vec::new());
        for (buffer, cuts) in cuts.iter_mut().enumerate() {
            cuts.sort_unstable();
            cuts.dedup();
            let first = blocks.len();
            blocks.extend(cuts.windows(2).map(|pair| Block { buffer, range: pair[0]..pair[1] }));
            of_buffer.push(first..blocks.len());
        }
        let uses = |task: usize| {
            let mut uses: Vec<Use> = Vec::new();
            for access in &self.tasks[task].accesses {
                let all = of_buffer[access.buffer].clone();
                let first =
                    blocks[all.clone()].partition_point(|block| block.range.start < access.range.start);
                let inside =
                    (all.start + first..all.end).take_while(|&b| blocks[b].range.end <= access.range.end);
                let Access { age, reads, writes, .. } = *access;
                uses.extend(inside.map(|block| Use { block, age, reads, writes }));
            }
            uses.sort_unstable_by_key(|used| (used.block, used.age));
            uses.dedup_by(|later, kept| {
                let same = (later.block, later.age) == (kept.block, kept.age);
                if same {
                    kept.reads |= later.reads;
                    kept.writes |= later.writes;
                }
                same
            });
            uses
        };
        let uses = (0..self.tasks.len()).map(uses).collect();
        Blocks { blocks, of_buffer, uses }
    }

    /// Number of versions of a buffer.
    pub fn versions(&self, buffer: usize) -> usize {
        self.buffers[buffer].versions
    }

    /// The bytes of its buffer that an argument's tile takes up. An engine whose memory is laid out by
    /// somebody else must keep them in one piece, also where they are several blocks.
    pub fn span(&self, task: TaskId, arg: usize) -> Range<usize> {
        let task = &self.tasks[task as usize];
        let (place, spec) = (task.places[arg], &task.spec.args[arg]);
        place.offset..place.offset + spec.layout.len(&spec.tile) * spec.dtype.bytes()
    }
}
