//! The data edges of a lowered graph, within a step and from one step to the next.

use super::Buffer;
use super::deps::Tracker;
use super::lowered::{BufferKind, Edge, EdgeKind, Task, TaskId};
use crate::array::Region;

/// Steps to look at: what a task of the last of them depends on in the ones before is what it always depends on,
/// because temporaries and state have one version and so conflict between neighbouring steps at the latest.
const STEPS: u32 = 3;

/// Finds the edges by watching the accesses of a few steps in a row. Rings are left out across steps: their
/// versions are distinct for as long as the program is not more than their depth ahead, which engines see to.
pub(super) fn data_edges(buffers: &[Buffer], tasks: &[Task]) -> Vec<Edge> {
    let mut tracker: Tracker<(u32, TaskId)> = Tracker::new();
    let mut edges = Vec::new();
    let mut preds = Vec::new();
    for step in 0..STEPS {
        for (id, task) in tasks.iter().enumerate() {
            preds.clear();
            for access in &task.accesses {
                let base = match buffers[access.buffer].kind {
                    BufferKind::Ring => access.buffer + buffers.len() * step as usize,
                    _ => access.buffer,
                };
                let region = Region::new(std::slice::from_ref(&access.range));
                tracker.access(base, &region, access.writes, (step, id as TaskId), &mut preds);
            }
            if step == STEPS - 1 {
                let to = id as TaskId;
                edges.extend(preds.iter().filter(|&&pred| pred != (step, to)).map(|&(before, from)| Edge {
                    from,
                    to,
                    distance: step - before,
                    kind: EdgeKind::Data,
                }));
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}
