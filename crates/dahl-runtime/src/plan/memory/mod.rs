//! Where each buffer lies: offsets by lifetime, in each memory that it is used in.
//!
//! Two temporary buffers may share memory only if everything that touches the one happens before everything
//! that touches the other. "Before" follows from the edges of the graph and, for a planned run, from the
//! order on each worker (of tasks that do not float). In the next step the order is the other way round (the
//! second buffer's memory becomes the first's again), so sharing adds memory edges of distance 1. Of the
//! buffers that lie in the same place, the first one waits for the last one of the step before; all others
//! follow from that, because each comes after the first and before the last. Buffers with several versions
//! are in use from step to step, so nothing shares their memory: rings, and temporary ones that have been
//! given several. Nor does anything share that of state.
//!
//! Scratch of kernels is no buffer and comes last (`scratch.rs`).
//!
//! Buffers are placed by first fit, the largest first. For n tasks it takes about n log n steps to know what
//! comes before what ([`Before`]), and about log n to find the place of a buffer ([`Space`]), unless it and
//! many others are each touched by hundreds of tasks that do not wait for each other.
//!
//! Cutting, lowering and planning take time that grows little faster than the number of tasks: in fixed
//! orders, where buffers take turns in few places, as in open ones and in networks of thousands of layers,
//! which have thousands of places that are nearly all taken. `benches/planning.rs` prints tasks per second;
//! the tests compare with the quadratic definitions.

mod before;
mod space;
#[cfg(test)]
mod tests;

use super::nodes::Nodes;
use crate::bytes::ALIGN;
use crate::error::Result;
use crate::graph::{Buffer, BufferKind, Edge, EdgeKind, Lowered, TaskId};
use crate::machine::MemoryId;
use before::Before;
use space::{Life, Space};
use std::cmp::Reverse;
use std::ops::Range;

/// Offsets of the buffers in one memory, and how much of it a step needs: for buffers, and behind these for
/// the scratch of each unit that computes there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Offset of each buffer in the arena of a run; none where it does not lie in this memory. State has no
    /// offset: it lies in the store.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of that arena: what a step needs beside state, known before it runs.
    pub bytes: usize,
    /// The same if no two buffers shared memory, for comparison.
    pub bytes_unshared: usize,
    /// Bytes of state that lie in this memory, too.
    pub state_bytes: usize,
    /// How many of `bytes` are for what kernels need while they run.
    pub scratch_bytes: usize,
    /// How many of those each unit has.
    pub unit_scratch_bytes: usize,
}

impl MemoryPlan {
    /// Bytes of the arena that buffers take.
    pub fn buffer_bytes(&self) -> usize {
        self.bytes - self.scratch_bytes
    }

    /// Where the scratch of a unit lies in the arena, as counted among the units of this memory.
    pub fn scratch_offset(&self, unit: usize) -> usize {
        self.buffer_bytes() + unit * self.unit_scratch_bytes
    }
}

/// The plan of each memory, and the edges that sharing adds.
pub(super) type Memories = (Vec<MemoryPlan>, Vec<Edge>);

/// Plans every memory.
pub(super) fn plan_memories(nodes: &Nodes<'_>) -> Result<Memories> {
    let before = Before::new(nodes)?;
    let mut edges = Vec::new();
    let plan = |memory| plan_memory(nodes, &before, memory, &mut edges);
    let plans = (0..nodes.users.len()).map(plan).collect();
    Ok((plans, sorted(edges)))
}

fn plan_memory(nodes: &Nodes<'_>, before: &Before, memory: MemoryId, edges: &mut Vec<Edge>) -> MemoryPlan {
    let lowered = nodes.lowered;
    let lives = lives(nodes, before, memory);
    let mut plan = MemoryPlan { offsets: vec![None; lowered.buffers.len()], ..MemoryPlan::default() };
    let mut temporaries = Vec::new();
    for (i, buffer) in lowered.buffers.iter().enumerate().filter(|(i, _)| nodes.lies_in(*i, memory)) {
        match buffer.kind {
            BufferKind::State(_) => plan.state_bytes += buffer.bytes * buffer.versions,
            BufferKind::Temporary if buffer.may_share() => temporaries.push(i),
            BufferKind::Ring | BufferKind::Temporary => {
                plan.offsets[i] = Some(plan.bytes);
                plan.bytes += buffer.bytes.next_multiple_of(ALIGN) * buffer.versions;
            }
        }
    }
    plan.bytes_unshared = plan.bytes;
    let start = plan.bytes;
    let mut space = Space::new(before, &lives, start);
    // Large buffers first; equal ones in order of creation, so that the plan is the same every time.
    temporaries.sort_by_key(|&i| Reverse(lowered.buffers[i].bytes));
    for &i in &temporaries {
        let bytes = lowered.buffers[i].bytes.next_multiple_of(ALIGN);
        plan.bytes_unshared += bytes;
        let mut offset = start;
        if bytes > 0 && !lives[i].is_empty() {
            offset = space.first_fit(bytes, &lives[i]);
            space.insert(i as u32, &(offset..offset + bytes));
        }
        plan.offsets[i] = Some(offset);
        plan.bytes = plan.bytes.max(offset + bytes);
    }
    edges.extend(memory_edges(&space, &lives));
    plan
}

/// Two buffers that overlap in a memory although they must not.
pub(super) struct Overlap {
    pub memory: MemoryId,
    pub buffers: (usize, usize),
}

/// Plans of given offsets, one list for each memory, and the edges that sharing adds. By the rule above.
pub(super) fn adopt(
    nodes: &Nodes<'_>,
    offsets: Vec<Vec<Option<usize>>>,
) -> Result<std::result::Result<Memories, Overlap>> {
    let before = Before::new(nodes)?;
    let (mut plans, mut edges) = (Vec::new(), Vec::new());
    for (memory, offsets) in offsets.into_iter().enumerate() {
        match adopt_memory(nodes, &before, memory, offsets, &mut edges) {
            Ok(plan) => plans.push(plan),
            Err(buffers) => return Ok(Err(Overlap { memory, buffers })),
        }
    }
    Ok(Ok((plans, sorted(edges))))
}

fn adopt_memory(
    nodes: &Nodes<'_>,
    before: &Before,
    memory: MemoryId,
    offsets: Vec<Option<usize>>,
    edges: &mut Vec<Edge>,
) -> std::result::Result<MemoryPlan, (usize, usize)> {
    let lowered = nodes.lowered;
    let lives = lives(nodes, before, memory);
    let mut plan = MemoryPlan { offsets, ..MemoryPlan::default() };
    let mut space = Space::new(before, &lives, 0);
    for (i, buffer) in lowered.buffers.iter().enumerate().filter(|(i, _)| nodes.lies_in(*i, memory)) {
        let Some(range) = range_of(lowered, &plan.offsets, i) else {
            plan.state_bytes += buffer.bytes * buffer.versions;
            continue;
        };
        plan.bytes_unshared += range.len();
        plan.bytes = plan.bytes.max(range.end);
        // What nobody touches is in the way of what never shares only. Both are few, so they are compared
        // with everything.
        let (life, may_share) = (&lives[i], buffer.may_share());
        if !may_share || life.is_empty() || !space.is_free(&range, life) {
            let is_in_the_way = |&j: &usize| {
                let both_may = may_share && lowered.buffers[j].may_share();
                let overlaps = |other: &Range<usize>| range.start.max(other.start) < range.end.min(other.end);
                range_of(lowered, &plan.offsets, j).as_ref().is_some_and(overlaps)
                    && !(both_may && life.is_separated(&lives[j], before))
            };
            if let Some(j) = (0..i).find(is_in_the_way) {
                return Err((j, i));
            }
        }
        if !life.is_empty() && !range.is_empty() {
            space.insert(i as u32, &range);
        }
    }
    edges.extend(memory_edges(&space, &lives));
    Ok(plan)
}

/// The addresses of a buffer that has any: those of all its versions.
fn range_of(lowered: &Lowered, offsets: &[Option<usize>], buffer: usize) -> Option<Range<usize>> {
    let bytes = lowered.buffers[buffer].bytes.next_multiple_of(ALIGN) * lowered.versions(buffer);
    offsets[buffer].map(|offset| offset..offset + bytes)
}

/// When each buffer is in use in a memory.
fn lives(nodes: &Nodes<'_>, before: &Before, memory: MemoryId) -> Vec<Life> {
    let life = |(buffer, users): (&Buffer, &Vec<TaskId>)| match buffer.may_share() {
        true => Life::new(before, users),
        false => Life::always(),
    };
    nodes.lowered.buffers.iter().zip(&nodes.users[memory]).map(life).collect()
}

/// The edges that sharing adds: from the last users of the last buffer in a place to the first users of the
/// first one, in the next step.
fn memory_edges(space: &Space<'_>, lives: &[Life]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (first, last) in space.turns() {
        let edge = |from, to| Edge { from, to, distance: 1, kind: EdgeKind::Memory };
        let to_first = |&from| lives[first as usize].first.iter().map(move |&to| edge(from, to));
        edges.extend(lives[last as usize].last.iter().flat_map(to_first));
    }
    edges
}

fn sorted(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable();
    edges.dedup();
    edges
}
