//! Where each buffer lies: offsets by lifetime.
//!
//! Two temporary buffers may share memory only if everything that touches the one happens before everything that
//! touches the other. "Before" follows from the edges of the graph and, for a planned run, from the order on each
//! worker (of tasks that do not float). In the next step the order is the other way round (the second buffer's
//! memory becomes the first's again), so sharing adds memory edges of distance 1. Ring buffers and state are never
//! shared.

use super::Placement;
use crate::arena::ALIGN;
use crate::graph::{BufferKind, Edge, EdgeKind, Lowered, TaskId};
use std::ops::Range;

/// Offsets of all buffers, the memory they need, and the edges that sharing adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Offset of each buffer in the arena of a run; state buffers lie elsewhere and have none.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of that arena: what a step needs beside state, known before it runs.
    pub bytes: usize,
    /// Bytes without sharing, for comparison.
    pub bytes_unshared: usize,
    /// Bytes of state that the graph uses.
    pub state_bytes: usize,
    /// What sharing adds to the graph's edges.
    pub edges: Vec<Edge>,
}

/// Plans the memory of a graph: with a placement for replay, without for a run whose order is open.
pub(super) fn plan_memory(lowered: &Lowered, placement: Option<&Placement>) -> MemoryPlan {
    let before = Before::new(lowered, placement);
    let users = users(lowered);
    let mut plan = MemoryPlan { offsets: vec![None; lowered.buffers.len()], ..MemoryPlan::default() };
    let mut temporaries = Vec::new();
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        let bytes = buffer.bytes.next_multiple_of(ALIGN);
        match buffer.kind {
            BufferKind::State(_) => plan.state_bytes += buffer.bytes,
            BufferKind::Ring => {
                plan.offsets[i] = Some(plan.bytes);
                plan.bytes += bytes * lowered.depth;
            }
            BufferKind::Temporary => temporaries.push(i),
        }
    }
    plan.bytes_unshared = plan.bytes;
    let start = plan.bytes;
    // Large buffers first; equal ones in order of creation, so that the plan is the same every time.
    temporaries.sort_by_key(|&i| std::cmp::Reverse(lowered.buffers[i].bytes));
    let mut placed: Vec<usize> = Vec::new();
    for &i in &temporaries {
        let bytes = lowered.buffers[i].bytes.next_multiple_of(ALIGN);
        plan.bytes_unshared += bytes;
        let end_of = |j: usize, offset: usize| offset + lowered.buffers[j].bytes.next_multiple_of(ALIGN);
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| !before.separated(&users[i], &users[j]))
            .filter_map(|&j| plan.offsets[j].map(|offset| (offset, end_of(j, offset))))
            .collect();
        taken.sort_unstable();
        // First fit: the lowest gap between what must not be touched.
        let mut offset = start;
        for (from, to) in taken {
            if offset + bytes <= from {
                break;
            }
            offset = offset.max(to);
        }
        for &j in &placed {
            let Some(other) = plan.offsets[j] else { continue };
            if offset < end_of(j, other) && other < offset + bytes {
                plan.edges.extend(wrap_edges(&before, &users[i], &users[j]));
            }
        }
        plan.offsets[i] = Some(offset);
        plan.bytes = plan.bytes.max(offset + bytes);
        placed.push(i);
    }
    plan.edges.sort_unstable();
    plan.edges.dedup();
    plan
}

/// The memory plan of given offsets, or two buffers that overlap although they must not. By the rule above.
pub(super) fn adopt(
    lowered: &Lowered,
    placement: Option<&Placement>,
    offsets: Vec<Option<usize>>,
) -> Result<MemoryPlan, (usize, usize)> {
    let before = Before::new(lowered, placement);
    let users = users(lowered);
    let mut plan = MemoryPlan { offsets, ..MemoryPlan::default() };
    let mut placed: Vec<(usize, Range<usize>)> = Vec::new();
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        let Some(offset) = plan.offsets[i] else {
            plan.state_bytes += buffer.bytes;
            continue;
        };
        let range = offset..offset + buffer.bytes.next_multiple_of(ALIGN) * lowered.versions(i);
        plan.bytes_unshared += range.len();
        plan.bytes = plan.bytes.max(range.end);
        let overlaps = |other: &Range<usize>| range.start.max(other.start) < range.end.min(other.end);
        for &(j, _) in placed.iter().filter(|(_, other)| overlaps(other)) {
            let both_temporary =
                [buffer, &lowered.buffers[j]].iter().all(|b| b.kind == BufferKind::Temporary);
            if !both_temporary || !before.separated(&users[i], &users[j]) {
                return Err((j, i));
            }
            plan.edges.extend(wrap_edges(&before, &users[i], &users[j]));
        }
        placed.push((i, range));
    }
    plan.edges.sort_unstable();
    plan.edges.dedup();
    Ok(plan)
}

/// The tasks that touch each buffer, in task order.
pub(super) fn users(lowered: &Lowered) -> Vec<Vec<TaskId>> {
    let mut users = vec![Vec::new(); lowered.buffers.len()];
    for (id, task) in lowered.tasks.iter().enumerate() {
        // Places count too: a kernel may be handed the address of a tile of which it touches nothing.
        let buffers = task.accesses.iter().map(|a| a.buffer).chain(task.places.iter().map(|p| p.buffer));
        for buffer in buffers {
            if users[buffer].last() != Some(&(id as TaskId)) {
                users[buffer].push(id as TaskId);
            }
        }
    }
    users
}

/// The edges from the last users of whichever buffer comes second to the first users of the other, in the next step.
fn wrap_edges(before: &Before, a: &[TaskId], b: &[TaskId]) -> Vec<Edge> {
    let (first, second) = if before.all(a, b) { (a, b) } else { (b, a) };
    let last: Vec<TaskId> =
        second.iter().copied().filter(|&t| !second.iter().any(|&u| before.is(t, u))).collect();
    let next: Vec<TaskId> =
        first.iter().copied().filter(|&t| !first.iter().any(|&u| before.is(u, t))).collect();
    let edge = |from, to| Edge { from, to, distance: 1, kind: EdgeKind::Memory };
    last.iter().flat_map(|&from| next.iter().map(move |&to| edge(from, to))).collect()
}

/// Which task comes before which within a step: a bit per pair.
struct Before {
    words: usize,
    ancestors: Vec<u64>,
}

impl Before {
    fn new(lowered: &Lowered, placement: Option<&Placement>) -> Self {
        let n = lowered.tasks.len();
        let words = n.div_ceil(64);
        let mut preds: Vec<Vec<TaskId>> = vec![Vec::new(); n];
        for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
            preds[edge.to as usize].push(edge.from);
        }
        if let Some(placement) = placement {
            for order in &placement.order {
                let fixed: Vec<TaskId> =
                    order.iter().copied().filter(|&task| !placement.is_floating(task)).collect();
                for pair in fixed.windows(2) {
                    preds[pair[1] as usize].push(pair[0]);
                }
            }
        }
        let program_order: Vec<TaskId> = (0..n as TaskId).collect();
        let sequence = placement.map_or(&program_order, |placement| &placement.sequence);
        let mut ancestors = vec![0_u64; n * words];
        let mut row = vec![0_u64; words];
        for &task in sequence {
            row.fill(0);
            for &pred in &preds[task as usize] {
                let from = pred as usize * words;
                for (word, &bits) in row.iter_mut().zip(&ancestors[from..from + words]) {
                    *word |= bits;
                }
                row[pred as usize / 64] |= 1 << (pred % 64);
            }
            let to = task as usize * words;
            ancestors[to..to + words].copy_from_slice(&row);
        }
        Before { words, ancestors }
    }

    /// Whether `a` comes before `b`.
    fn is(&self, a: TaskId, b: TaskId) -> bool {
        self.ancestors[b as usize * self.words + a as usize / 64] >> (a % 64) & 1 == 1
    }

    fn all(&self, first: &[TaskId], second: &[TaskId]) -> bool {
        first.iter().all(|&a| second.iter().all(|&b| self.is(a, b)))
    }

    fn separated(&self, a: &[TaskId], b: &[TaskId]) -> bool {
        self.all(a, b) || self.all(b, a)
    }
}
