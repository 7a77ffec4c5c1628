//! Memory plans against the rule itself, applied to every pair of buffers with a bit for every pair of tasks.

use super::*;
use crate::graph::{Access, Place, StateId, Task};
use crate::machine::Machine;
use crate::plan::Placement;
use crate::plan::copies::Copies;
use crate::plan::nodes::users;
use crate::plan::place::{Floats, place};
use crate::shape::Dtype;
use proptest::prelude::*;

const MOST_WORKERS: usize = 7;

/// Which task comes before which: a bit per pair.
struct Pairs {
    words: usize,
    ancestors: Vec<u64>,
}

impl Pairs {
    fn new(lowered: &Lowered, placement: Option<&Placement>) -> Self {
        let n = lowered.tasks.len();
        let words = n.div_ceil(64);
        let mut predecessors: Vec<Vec<TaskId>> = vec![Vec::new(); n];
        for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
            predecessors[edge.to as usize].push(edge.from);
        }
        for order in placement.iter().flat_map(|placement| &placement.order) {
            let is_fixed = |&task: &TaskId| !placement.is_some_and(|placement| placement.is_floating(task));
            let fixed: Vec<TaskId> = order.iter().copied().filter(is_fixed).collect();
            fixed.windows(2).for_each(|pair| predecessors[pair[1] as usize].push(pair[0]));
        }
        let program_order: Vec<TaskId> = (0..n as TaskId).collect();
        let mut ancestors = vec![0_u64; n * words];
        for &task in placement.map_or(&program_order, |placement| &placement.sequence) {
            let to = task as usize * words;
            for &before in &predecessors[task as usize] {
                for word in 0..words {
                    ancestors[to + word] |= ancestors[before as usize * words + word];
                }
                ancestors[to + before as usize / 64] |= 1 << (before % 64);
            }
        }
        Pairs { words, ancestors }
    }

    fn is(&self, a: TaskId, b: TaskId) -> bool {
        self.ancestors[b as usize * self.words + a as usize / 64] >> (a % 64) & 1 == 1
    }

    fn all(&self, first: &[TaskId], second: &[TaskId]) -> bool {
        first.iter().all(|&a| second.iter().all(|&b| self.is(a, b)))
    }

    fn separated(&self, a: &[TaskId], b: &[TaskId]) -> bool {
        self.all(a, b) || self.all(b, a)
    }

    fn edges(&self, a: &[TaskId], b: &[TaskId]) -> Vec<Edge> {
        let (first, second) = if self.all(a, b) { (a, b) } else { (b, a) };
        let last = second.iter().filter(|&&t| !second.iter().any(|&u| self.is(t, u)));
        let next = first.iter().filter(|&&t| !first.iter().any(|&u| self.is(u, t)));
        let edge = |from, to| Edge { from, to, distance: 1, kind: EdgeKind::Memory };
        last.flat_map(|&from| next.clone().map(move |&to| edge(from, to))).collect()
    }
}

/// Offsets and the edges that sharing adds.
type Plan = (MemoryPlan, Vec<Edge>);

/// The nodes of a graph on a machine with one memory.
fn nodes<'a>(lowered: &'a Lowered, placement: Option<&Placement>) -> Nodes<'a> {
    let none = Copies::default();
    Nodes::new(lowered, placement.map(|placement| (placement, &none)), &Machine::with_workers(MOST_WORKERS))
}

fn planned(lowered: &Lowered, placement: Option<&Placement>) -> Plan {
    let (mut plans, edges) = plan_memories(&nodes(lowered, placement)).unwrap();
    (plans.remove(0), edges)
}

fn adopted(
    lowered: &Lowered,
    placement: Option<&Placement>,
    offsets: Vec<Option<usize>>,
) -> std::result::Result<Plan, (usize, usize)> {
    match adopt(&nodes(lowered, placement), vec![offsets]).unwrap() {
        Ok((mut plans, edges)) => Ok((plans.remove(0), edges)),
        Err(Overlap { buffers, .. }) => Err(buffers),
    }
}

fn reference_plan(lowered: &Lowered, placement: Option<&Placement>) -> Plan {
    let mut edges = Vec::new();
    let (pairs, users) = (Pairs::new(lowered, placement), users(lowered));
    let mut plan = MemoryPlan { offsets: vec![None; lowered.buffers.len()], ..MemoryPlan::default() };
    let size = |i: usize| lowered.buffers[i].bytes.next_multiple_of(ALIGN);
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        match buffer.kind {
            BufferKind::State(_) => plan.state_bytes += buffer.bytes * buffer.versions,
            BufferKind::Temporary if buffer.versions == 1 => {}
            BufferKind::Ring | BufferKind::Temporary => {
                plan.offsets[i] = Some(plan.bytes);
                plan.bytes += size(i) * buffer.versions;
            }
        }
    }
    plan.bytes_unshared = plan.bytes;
    let start = plan.bytes;
    let is_temporary =
        |&i: &usize| lowered.buffers[i].kind == BufferKind::Temporary && lowered.buffers[i].versions == 1;
    let mut temporaries: Vec<usize> = (0..lowered.buffers.len()).filter(is_temporary).collect();
    temporaries.sort_by_key(|&i| Reverse(lowered.buffers[i].bytes));
    let mut placed: Vec<(usize, Range<usize>)> = Vec::new();
    for &i in &temporaries {
        plan.bytes_unshared += size(i);
        let taken = placed.iter().filter(|(j, _)| !pairs.separated(&users[i], &users[*j]));
        let mut taken: Vec<(usize, usize)> = taken.map(|(_, range)| (range.start, range.end)).collect();
        taken.sort_unstable();
        let mut offset = start;
        for (from, to) in taken {
            if offset + size(i) <= from {
                break;
            }
            offset = offset.max(to);
        }
        for (j, range) in &placed {
            if offset < range.end && range.start < offset + size(i) {
                edges.extend(pairs.edges(&users[i], &users[*j]));
            }
        }
        plan.offsets[i] = Some(offset);
        plan.bytes = plan.bytes.max(offset + size(i));
        placed.push((i, offset..offset + size(i)));
    }
    (plan, sorted(edges))
}

fn reference_adopt(
    lowered: &Lowered,
    placement: Option<&Placement>,
    offsets: Vec<Option<usize>>,
) -> std::result::Result<Plan, (usize, usize)> {
    let mut edges = Vec::new();
    let (pairs, users) = (Pairs::new(lowered, placement), users(lowered));
    let mut plan = MemoryPlan { offsets, ..MemoryPlan::default() };
    let mut placed: Vec<(usize, Range<usize>)> = Vec::new();
    for (i, buffer) in lowered.buffers.iter().enumerate() {
        let Some(range) = range_of(lowered, &plan.offsets, i) else {
            plan.state_bytes += buffer.bytes * buffer.versions;
            continue;
        };
        plan.bytes_unshared += range.len();
        plan.bytes = plan.bytes.max(range.end);
        let overlaps = |other: &Range<usize>| range.start.max(other.start) < range.end.min(other.end);
        for &(j, _) in placed.iter().filter(|(_, other)| overlaps(other)) {
            let is_temporary = |b: &&Buffer| b.kind == BufferKind::Temporary && b.versions == 1;
            let both = [buffer, &lowered.buffers[j]].iter().all(is_temporary);
            if !both || !pairs.separated(&users[i], &users[j]) {
                return Err((j, i));
            }
            edges.extend(pairs.edges(&users[i], &users[j]));
        }
        placed.push((i, range));
    }
    Ok((plan, sorted(edges)))
}

/// A graph in words: bytes and kind of each buffer, and for each task its tile, the buffers it touches, and
/// earlier tasks that it waits for (as differences of their numbers).
#[derive(Clone, Debug)]
struct Sketch {
    buffers: Vec<(usize, u8)>,
    tasks: Vec<(usize, Vec<usize>, Vec<usize>)>,
    n_tiles: usize,
}

impl Sketch {
    fn lowered(&self) -> Lowered {
        let kinds = [BufferKind::Temporary, BufferKind::Ring, BufferKind::State(StateId(0))];
        let buffer = |&(bytes, kind): &(usize, u8)| {
            // One in eight is a ring, one in eight state.
            Buffer {
                name: String::new(),
                dtype: Dtype::U8,
                bytes: 16 * bytes,
                kind: kinds[[0, 0, 0, 0, 0, 0, 1, 2][kind as usize]],
                // State and some of what is temporary have two versions, rings have three.
                versions: [1, 1, 1, 1, 1, 2, 3, 2][kind as usize],
            }
        };
        let mut lowered =
            Lowered { buffers: self.buffers.iter().map(buffer).collect(), depth: 3, ..Lowered::default() };
        for (id, (tile, touched, waits)) in self.tasks.iter().enumerate() {
            // It computes so much that some float.
            let mut task = Task { flops: 1e6, ..Task::untouching((tile % self.n_tiles, self.n_tiles)) };
            for (arg, buffer) in touched.iter().map(|buffer| buffer % self.buffers.len()).enumerate() {
                task.places.push(Place { buffer, age: 0, offset: 0 });
                let (range, reads, writes) = (0..lowered.buffers[buffer].bytes, arg > 0, arg == 0);
                task.accesses.push(Access { arg, buffer, age: 0, range, reads, writes });
            }
            lowered.tasks.push(task);
            for from in waits.iter().filter_map(|back| id.checked_sub(back + 1)) {
                let (from, to) = (from as TaskId, id as TaskId);
                lowered.edges.push(Edge { from, to, distance: 0, kind: EdgeKind::Data });
            }
        }
        lowered.edges.sort_unstable();
        lowered.edges.dedup();
        lowered
    }
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let buffers = prop::collection::vec((0_usize..40, 0_u8..8), 1..60);
    let task =
        (0_usize..8, prop::collection::vec(0_usize..60, 0..4), prop::collection::vec(0_usize..12, 0..3));
    (buffers, prop::collection::vec(task, 0..80), 1_usize..8).prop_map(|(buffers, tasks, n_tiles)| Sketch {
        buffers,
        tasks,
        n_tiles,
    })
}

/// The placements to plan memory for: none, and some for several workers.
fn placements(lowered: &Lowered) -> Vec<Option<Placement>> {
    let placed = [1, 2, 3, MOST_WORKERS].into_iter().flat_map(|n_workers| {
        let machine = Machine::with_workers(n_workers);
        [Floats::None, Floats::Some].map(|floats| place(lowered, &machine, floats).ok())
    });
    std::iter::once(None).chain(placed).collect()
}

/// Whether a plan is the one of the rule but for memory edges that others imply.
fn is_same(lowered: &Lowered, placement: Option<&Placement>, plan: &Plan, rule: &Plan) -> bool {
    let pairs = Pairs::new(lowered, placement);
    let is_up_to = |a: TaskId, b: TaskId| a == b || pairs.is(a, b);
    let is_implied =
        |edge: &Edge| plan.1.iter().any(|kept| is_up_to(edge.from, kept.from) && is_up_to(kept.to, edge.to));
    plan.1.iter().all(|edge| rule.1.contains(edge)) && rule.1.iter().all(is_implied) && plan.0 == rule.0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_has_the_plan_of_the_rule(sketch in sketches()) {
        let lowered = sketch.lowered();
        for placement in placements(&lowered) {
            let placement = placement.as_ref();
            let plan = planned(&lowered, placement);
            let rule = reference_plan(&lowered, placement);
            prop_assert!(is_same(&lowered, placement, &plan, &rule), "{plan:?} {rule:?}");
            prop_assert_eq!(adopted(&lowered, placement, plan.0.offsets.clone()), Ok(plan));
        }
    }

    #[test]
    fn any_offsets_are_accepted_or_refused_as_the_rule_says(
        sketch in sketches(),
        changes in prop::collection::vec((0_usize..60, 0_usize..60), 0..4),
    ) {
        let lowered = sketch.lowered();
        for placement in placements(&lowered) {
            let placement = placement.as_ref();
            let mut offsets = planned(&lowered, placement).0.offsets;
            for &(buffer, at) in &changes {
                let n = offsets.len();
                if let Some(offset) = &mut offsets[buffer % n] {
                    *offset = at * ALIGN;
                }
            }
            match (adopted(&lowered, placement, offsets.clone()), reference_adopt(&lowered, placement, offsets)) {
                (Ok(plan), Ok(rule)) => {
                    prop_assert!(is_same(&lowered, placement, &plan, &rule), "{plan:?} {rule:?}");
                }
                (adopted, rule) => prop_assert_eq!(adopted.err(), rule.err()),
            }
        }
    }
}
