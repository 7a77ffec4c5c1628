//! How much of a plan's memory is in use while a step goes on.
//!
//! A temporary buffer is in use from the first task that touches it to the last, in the order of the plan.
//! Buffers that are in use at the same time never share memory, so no moment needs more than
//! [`MemoryPlan::bytes`](super::MemoryPlan): what lies between the two is lost to gaps, and to tasks of other
//! workers that could come at another moment.

use super::nodes::users;
use super::{MemoryPlan, Planned};
use crate::bytes::ALIGN;
use crate::graph::{BufferKind, TaskId};
use crate::machine::MemoryId;

/// The memory of a step, task by task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile {
    /// Bytes of what is in use all the time: ports and outputs, one version for each step that may be under
    /// way, and whatever else has several versions.
    pub ring_bytes: usize,
    /// Bytes that kernels may use while they run, on any unit: in use all the time, too.
    pub scratch_bytes: usize,
    /// All tasks in the order of the plan (as recorded, where it leaves the order open), with the bytes that
    /// are in use during each, those of rings and scratch included.
    pub in_use: Vec<(TaskId, usize)>,
}

impl MemoryProfile {
    /// The most bytes that are in use during any task.
    pub fn peak(&self) -> usize {
        self.in_use.iter().map(|&(_, bytes)| bytes).max().unwrap_or(self.ring_bytes + self.scratch_bytes)
    }
}

impl Planned {
    /// How much of a memory is in use during each task.
    pub fn memory_profile(&self, memory: MemoryId) -> MemoryProfile {
        let n = self.lowered.tasks.len();
        let sequence: Vec<TaskId> = match self.plan.placement() {
            Some(placement) => placement.sequence.clone(),
            None => (0..n as TaskId).collect(),
        };
        let mut position = vec![0; n];
        for (at, &task) in sequence.iter().enumerate() {
            position[task as usize] = at;
        }
        let mut ring_bytes = 0;
        // What begins to be in use at each position, and what no longer is.
        let (mut begin, mut end) = (vec![0; n + 1], vec![0; n + 1]);
        let mut users = users(&self.lowered);
        // A copy is made at the moment of its task, wherever that one is.
        let (blocks, _) = self.plan.replicas();
        for copy in self.plan.copies() {
            users[blocks.blocks[copy.block].buffer].push(copy.before);
        }
        let &MemoryPlan { ref offsets, scratch_bytes, .. } = self.plan.memory(memory);
        for (i, (buffer, users)) in self.lowered.buffers.iter().zip(users).enumerate() {
            if offsets[i].is_none() {
                continue;
            }
            let bytes = buffer.bytes.next_multiple_of(ALIGN);
            match buffer.kind {
                BufferKind::State(_) => {}
                _ if !buffer.may_share() => ring_bytes += bytes * buffer.versions,
                BufferKind::Ring | BufferKind::Temporary => {
                    let positions = || users.iter().map(|&task| position[task as usize]);
                    if let (Some(first), Some(last)) = (positions().min(), positions().max()) {
                        begin[first] += bytes;
                        end[last + 1] += bytes;
                    }
                }
            }
        }
        let mut now = ring_bytes + scratch_bytes;
        let mut at = |(i, &task): (usize, &TaskId)| {
            now = now + begin[i] - end[i];
            (task, now)
        };
        MemoryProfile {
            ring_bytes,
            scratch_bytes,
            in_use: sequence.iter().enumerate().map(&mut at).collect(),
        }
    }
}
