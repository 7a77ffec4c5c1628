//! Copies of buffers in several memories where the order is planned.
//!
//! What is copied when is in the plan ([`Plan::copies`]). Here is what follows from it for the beginning of a
//! run, when state must be where tasks expect it, and for its end, when it must be back with the program.

use crate::graph::{Blocks, Lowered};
use crate::machine::{HOST, Machine, MemoryId};
use crate::plan::Plan;

/// Where blocks are needed and valid. Sets of memories are bits.
pub(super) struct PlannedReplicas {
    pub blocks: Blocks,
    /// For each block, the memories in which it must be valid when a run begins.
    pub begin: Vec<u32>,
    /// For each block and age, the memories in which it is valid at the end of a step, if a step of the run
    /// has written this version.
    end: Vec<Vec<u32>>,
    /// For each buffer, the memories in which anybody touches it.
    pub used: Vec<u32>,
}

impl PlannedReplicas {
    /// The blocks of a planned order on a machine with several memories.
    pub fn new(lowered: &Lowered, plan: &Plan, machine: &Machine) -> Self {
        let (blocks, end) = plan.replicas();
        let workers = plan.placement().map_or_else(Vec::new, |placement| placement.workers());
        let mut begin = vec![1 << HOST; blocks.blocks.len()];
        let mut used = vec![1 << HOST; lowered.buffers.len()];
        for (task, &worker) in workers.iter().enumerate() {
            let memory = machine.units[worker].memory;
            for use_ in blocks.uses[task].iter().filter(|use_| use_.reads) {
                begin[use_.block] |= 1 << memory;
            }
            for place in &lowered.tasks[task].places {
                used[place.buffer] |= 1 << memory;
            }
            for access in &lowered.tasks[task].accesses {
                used[access.buffer] |= 1 << memory;
            }
        }
        for copy in plan.copies() {
            // The first steps of a run copy what they would have been left by steps before it.
            begin[copy.block] |= 1 << copy.from;
            used[blocks.blocks[copy.block].buffer] |= 1 << copy.from | 1 << copy.to;
        }
        PlannedReplicas { blocks: blocks.clone(), begin, end: end.to_vec(), used }
    }

    /// The memories in which a block of this age is valid after `n` steps of a run. A version that none of
    /// them had for its own is where it was at the beginning.
    pub fn valid(&self, block: usize, age: usize, n: u64) -> u32 {
        if (age as u64) < n { self.end[block][age] } else { self.begin[block] }
    }
}

/// The memories of a set.
pub(super) fn memories(set: u32) -> impl Iterator<Item = MemoryId> {
    (0..u32::BITS as MemoryId).filter(move |&memory| set >> memory & 1 == 1)
}
