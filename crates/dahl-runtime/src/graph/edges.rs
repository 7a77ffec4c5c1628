//! The data edges of a lowered graph, within a step and from one step to the next.
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
/// on, because temporaries and state have one version and so conflict between neighbouring steps at the
/// latest.
const STEPS: u32 = 3;

/// A task of a step.
type Event = (u32, TaskId);

/// Finds the edges by watching the accesses of a few steps in a row. Rings are left out across steps: their
/// versions are distinct for as long as the program is not more than their depth ahead, which engines see to.
pub(super) fn data_edges(buffers: &[Buffer], tasks: &[Task]) -> Vec<Edge> {
    let mut cells: Vec<Cells> = buffers.iter().map(|_| Cells::default()).collect();
    let mut edges = Vec::new();
    let mut before = Vec::new();
    for step in 0..STEPS {
        for (cells, buffer) in cells.iter_mut().zip(buffers) {
            if buffer.kind == BufferKind::Ring {
                *cells = Cells::default();
            }
        }
        for (id, task) in tasks.iter().enumerate() {
            let event = (step, id as TaskId);
            before.clear();
            for access in task.accesses.iter().filter(|access| !access.range.is_empty()) {
                cells[access.buffer].touch(access, event, &mut before);
            }
            if step == STEPS - 1 {
                before.sort_unstable();
                before.dedup();
                let edge = |&(earlier, from): &Event| Edge {
                    from,
                    to: id as TaskId,
                    distance: step - earlier,
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

    /// The edges that the tracker of submitted tasks finds, which knows nothing of the order of cells.
    fn tracked_edges(buffers: &[Buffer], tasks: &[Task]) -> Vec<Edge> {
        let mut tracker: Tracker<Event> = Tracker::new();
        let mut edges = Vec::new();
        for step in 0..STEPS {
            for (id, task) in tasks.iter().enumerate() {
                let (mut before, to) = (Vec::new(), id as TaskId);
                for access in &task.accesses {
                    let is_ring = buffers[access.buffer].kind == BufferKind::Ring;
                    let base = access.buffer + if is_ring { buffers.len() * step as usize } else { 0 };
                    let region = Region::new(std::slice::from_ref(&access.range));
                    tracker.access(base, &region, access.writes, (step, to), &mut before);
                }
                let before = before.into_iter().filter(|_| step == STEPS - 1);
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
                prop::collection::vec((0_usize..3, 0_usize..24, 0_usize..12, any::<bool>()), 0..4),
                0..30,
            ),
        ) {
            let kinds = [BufferKind::Temporary, BufferKind::Ring, BufferKind::State(StateId(0))];
            let buffers = kinds.map(|kind| Buffer { name: String::new(), dtype: Dtype::U8, bytes: 36, kind });
            let task = |accesses: Vec<(usize, usize, usize, bool)>| {
                let access = |(arg, access): (usize, (usize, usize, usize, bool))| {
                    let (buffer, start, len, writes) = access;
                    Access { arg, buffer, range: start..start + len, reads: !writes, writes }
                };
                Task {
                    accesses: accesses.into_iter().enumerate().map(access).collect(),
                    ..Task::untouching((0, 1))
                }
            };
            let tasks: Vec<Task> = tasks.into_iter().map(task).collect();
            prop_assert_eq!(data_edges(&buffers, &tasks), tracked_edges(&buffers, &tasks));
        }
    }
}
