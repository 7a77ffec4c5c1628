//! The data edges of a lowered graph, within a step and from step to step.
//!
//! Bytes that are always touched together are one *cell*, which knows the last task that wrote them and the
//! tasks that have read them since. The cells of a buffer are kept in order, so a task finds those it touches
//! among any number of others: all weights of a network are one buffer, in which every layer has parts of its
//! own.

use super::Buffer;
use super::lowered::{Access, BufferKind, Edge, EdgeKind, Task, TaskId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Steps to look at: what a task of the last of them depends on in the ones before is what it always depends
/// on. Let no buffer but rings have more than k versions, and nothing be read that is older than k steps.
/// Where a step writes, the step k steps before it wrote, at most, which others have read since. So edges
/// reach back k steps at most, and a step with k + 1 others before it has them all.
fn n_steps(buffers: &[Buffer], oldest: usize) -> usize {
    let versions = buffers.iter().filter(|buffer| buffer.kind != BufferKind::Ring);
    versions.map(|buffer| buffer.versions).fold(oldest.max(1), usize::max) + 2
}

/// A task of a step.
type Event = (u32, TaskId);

/// Finds the edges by watching the accesses of a few steps in a row. Nobody waits to overwrite a version of a
/// ring: it is not needed any more when the program, which is not more than the depth ahead, lets the step
/// begin that writes it again. Engines see to that.
pub(super) fn data_edges(buffers: &[Buffer], tasks: &[Task]) -> Vec<Edge> {
    let oldest = tasks.iter().flat_map(|task| &task.accesses).map(|access| access.age).max().unwrap_or(0);
    let n_steps = n_steps(buffers, oldest);
    let versions = |buffer: &Buffer| match buffer.kind {
        BufferKind::Ring => n_steps + oldest,
        BufferKind::Temporary | BufferKind::State(_) => buffer.versions,
    };
    let mut cells: Vec<Vec<Cells>> =
        buffers.iter().map(|buffer| (0..versions(buffer)).map(|_| Cells::default()).collect()).collect();
    let mut edges = Vec::new();
    let mut before = Vec::new();
    for step in 0..n_steps {
        for (id, task) in tasks.iter().enumerate() {
            let event = (step as u32, id as TaskId);
            before.clear();
            for access in task.accesses.iter().filter(|access| !access.range.is_empty()) {
                let versions = &mut cells[access.buffer];
                let version = (step + versions.len() - access.age) % versions.len();
                versions[version].touch(access, event, &mut before);
            }
            if step == n_steps - 1 {
                before.sort_unstable();
                before.dedup();
                let edge = |&(earlier, from): &Event| Edge {
                    from,
                    to: id as TaskId,
                    distance: step as u32 - earlier,
                    kind: EdgeKind::Data,
                };
                edges.extend(before.iter().filter(|&&other| other != event).map(edge));
            }
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// The cells of a buffer, by their first byte. What nobody has touched yet is in none.
#[derive(Default)]
struct Cells(BTreeMap<usize, Cell>);

#[derive(Clone)]
struct Cell {
    end: usize,
    writer: Option<Event>,
    readers: Vec<Event>,
}

impl Cells {
    /// Adds what must come before an access to `before`, and remembers the access.
    fn touch(&mut self, access: &Access, event: Event, before: &mut Vec<Event>) {
        let Range { start, end } = access.range;
        self.split(start);
        self.split(end);
        for cell in self.0.range(start..end).map(|(_, cell)| cell) {
            before.extend(cell.writer);
            if access.writes {
                before.extend(&cell.readers);
            }
        }
        if access.writes {
            self.write(start..end, event);
        } else {
            self.read(start..end, event);
        }
    }

    /// Makes a byte the first of a cell, if it lies in one.
    fn split(&mut self, at: usize) {
        if let Some((_, cell)) = self.0.range_mut(..at).next_back()
            && cell.end > at
        {
            let rest = cell.clone();
            cell.end = at;
            self.0.insert(at, rest);
        }
    }

    /// All of these bytes become one cell. Its borders are borders of cells.
    fn write(&mut self, range: Range<usize>, event: Event) {
        while let Some((&inside, _)) = self.0.range(range.start + 1..range.end).next() {
            self.0.remove(&inside);
        }
        let cell = self.0.entry(range.start).or_insert(Cell { end: 0, writer: None, readers: Vec::new() });
        cell.readers.clear();
        (cell.end, cell.writer) = (range.end, Some(event));
    }

    /// Every cell of these bytes has another reader, and what is in none becomes one.
    fn read(&mut self, range: Range<usize>, event: Event) {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (&start, cell) in self.0.range_mut(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            if cell.readers.last() != Some(&event) {
                cell.readers.push(event);
            }
            at = cell.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            self.0.insert(gap.start, Cell { end: gap.end, writer: None, readers: vec![event] });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::deps::Tracker;
    use super::*;
    use crate::graph::StateId;
    use crate::shape::{Dtype, Region};
    use proptest::prelude::*;

    /// The most versions.
    const MOST: usize = 4;

    /// The edges that the tracker of submitted tasks finds, which knows nothing of the order of cells.
    fn tracked_edges(buffers: &[Buffer], tasks: &[Task]) -> Vec<Edge> {
        let mut tracker: Tracker<Event> = Tracker::new();
        let mut edges = Vec::new();
        // More steps than are needed, and enough numbers for all versions of all buffers.
        let n_steps = 3 * MOST as u32 + 4;
        for step in 0..n_steps {
            for (id, task) in tasks.iter().enumerate() {
                let (mut before, to) = (Vec::new(), id as TaskId);
                for access in &task.accesses {
                    let Buffer { kind, versions, .. } = buffers[access.buffer];
                    let of_step = step as usize + 2 * MOST - access.age;
                    let version = if kind == BufferKind::Ring { of_step } else { of_step % versions };
                    let base = access.buffer + buffers.len() * version;
                    let region = Region::new(std::slice::from_ref(&access.range));
                    tracker.access(base, &region, access.writes, (step, to), &mut before);
                }
                let before = before.into_iter().filter(|_| step == n_steps - 1);
                edges.extend(before.map(|(earlier, from)| Edge {
                    from,
                    to,
                    distance: step - earlier,
                    kind: EdgeKind::Data,
                }));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn edges_are_those_of_the_tracker(
            tasks in prop::collection::vec(
                prop::collection::vec((0_usize..3, 0_usize..24, 0_usize..12, any::<bool>(), 0_usize..MOST), 0..4),
                0..30,
            ),
            versions in [1_usize..=MOST, 1_usize..=MOST, 1_usize..=MOST],
        ) {
            let kinds = [BufferKind::Temporary, BufferKind::Ring, BufferKind::State(StateId(0))];
            let buffer = |(kind, versions)| Buffer { name: String::new(), dtype: Dtype::U8, bytes: 36, kind, versions };
            let buffers: Vec<Buffer> = kinds.into_iter().zip(versions).map(buffer).collect();
            let task = |accesses: Vec<(usize, usize, usize, bool, usize)>| {
                let access = |(arg, access): (usize, (usize, usize, usize, bool, usize))| {
                    let (buffer, start, len, writes, age) = access;
                    let age = if writes { 0 } else { age % versions[buffer] };
                    Access { arg, buffer, age, range: start..start + len, reads: !writes, writes }
                };
                Task {
                    accesses: accesses.into_iter().enumerate().map(access).collect(),
                    ..Task::untouching((0, 1))
                }
            };
            let tasks: Vec<Task> = tasks.into_iter().map(task).collect();
            let edges = data_edges(&buffers, &tasks);
            prop_assert!(edges.iter().all(|edge| edge.distance as usize <= MOST));
            prop_assert_eq!(edges, tracked_edges(&buffers, &tasks));
        }
    }
}
