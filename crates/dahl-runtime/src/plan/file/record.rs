//! The lines of a plan file as values: made from a plan, shown as text.

use super::super::identity::role;
use super::super::{Copy, MemoryPlan, Order, Placement, Plan, Planned};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{ArrayInfo, Block, Graph, Lowered, Recorded, Task};
use crate::graph::{Cut, TaskCut};
use crate::hash::Fingerprint;
use crate::machine::{Machine, MemoryId};
use crate::shape::Layout;
use crate::words::escaped;
use std::fmt;
use std::ops::Range;

/// The plan of one recorded step.
#[derive(Clone, Debug)]
pub(super) struct StepRecord {
    /// Its name, escaped, and the line it begins in.
    pub name: String,
    pub line: usize,
    /// The recorded graph.
    pub graph: Fingerprint,
    /// The memory of each unit, and the line that says so.
    pub machine: (Vec<MemoryId>, usize),
    /// What buffers need of each memory, or of all alike.
    pub memories: Vec<MemoryRecord>,
    pub arrays: Vec<ArrayRecord>,
    pub tasks: Vec<TaskRecord>,
    /// Those of them that fusion put in the place of others.
    pub fused: Vec<FusedRecord>,
    /// The codes that tasks were fused for, beside that of cores.
    pub codes: Vec<String>,
    /// What has several versions, and who reads older ones.
    pub past: Vec<PastRecord>,
    pub order: OrderRecord,
    /// Copies between memories. They follow from the order, so that they may be left out.
    pub copies: Vec<CopyRecord>,
    /// All buffers but those of state, in each memory or in all alike.
    pub buffers: Vec<BufferRecord>,
}

/// `memory 131072 bytes`, or with `in 1` at its end
#[derive(Clone, Debug)]
pub(super) struct MemoryRecord {
    pub line: usize,
    /// Which one; all of them, if none is named.
    pub memory: Option<MemoryId>,
    pub bytes: usize,
}

/// `copy conv.0 0..8192 from 0 to 1 before 17`, or with `age 1` at its end
#[derive(Clone, Debug)]
pub(super) struct CopyRecord {
    pub line: usize,
    /// All words after the first: they must be those that follow from the order.
    pub identity: String,
}

/// `array 4 x f32[64,1,8,8] temporary lanes:16`, or tile by tile `2xlanes:16+1xrow-major`
#[derive(Clone, Debug)]
pub(super) struct ArrayRecord {
    pub line: usize,
    /// Name, type and role: three words that must be those of the graph.
    pub identity: String,
    /// How many tiles lie in which layout, one run after the other; a single one is that of all.
    pub layouts: Vec<(usize, Layout)>,
}

/// `task 2 conv2d f32 lanes v1 groups 4 n=4x16`, or tile by tile `2xlanes+1xcuda:flat v1+v3`
#[derive(Clone, Debug)]
pub(super) struct TaskRecord {
    pub line: usize,
    /// Codelet and element type: two words that must be those of the graph.
    pub identity: String,
    /// How many tiles are computed by which implementation in which version, one run after the other; a
    /// single one computes all.
    pub implementations: Vec<(usize, String, u32)>,
    pub groups: usize,
    /// Axes and the lengths of their tiles.
    pub tiles: Vec<(String, Lengths)>,
}

/// `fused 2 conv2d max_pool relu`
#[derive(Clone, Debug)]
pub(super) struct FusedRecord {
    pub line: usize,
    pub task: usize,
    /// The codelets of the tasks that it stands for: words that must be those of the graph.
    pub identity: String,
}

/// `versions 4 3`, the array and how many it has, or `age 7 0 2`, the task, the argument and the steps
#[derive(Clone, Debug)]
pub(super) struct PastRecord {
    pub line: usize,
    /// The line itself: words that must be those of the graph.
    pub identity: String,
}

/// `order fixed`, or the name of a scheduler
#[derive(Clone, Debug)]
pub(super) enum OrderRecord {
    /// The lowered tasks in sequence.
    Fixed(Vec<RunRecord>),
    /// The line, and the scheduler's name.
    Open(usize, String),
}

/// `run 17 conv2d 2/4 on 0`, or with `floating` at its end
#[derive(Clone, Debug)]
pub(super) struct RunRecord {
    pub line: usize,
    pub task: usize,
    /// Codelet and tile: two words that must be those of the lowered graph.
    pub identity: String,
    pub unit: usize,
    /// Whether units that wait may take it over.
    pub floats: bool,
}

/// `buffer 12 conv.0 8192 bytes at 65536`, or with `in 1` at its end
#[derive(Clone, Debug)]
pub(super) struct BufferRecord {
    pub line: usize,
    /// The memory; all in which it lies, if none is named.
    pub memory: Option<MemoryId>,
    pub buffer: usize,
    pub name: String,
    pub bytes: usize,
    pub offset: usize,
}

/// How long the ranges are that an axis is cut into, one after the other: count and length of equal
/// neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths(pub Vec<(usize, usize)>);

impl Lengths {
    /// Adds ranges of one length.
    pub fn push(&mut self, count: usize, length: usize) {
        match self.0.last_mut() {
            Some((n, len)) if *len == length => *n = n.saturating_add(count),
            _ => self.0.push((count, length)),
        }
    }

    /// The ranges of an axis of this extent, if the lengths cover it once without an empty range.
    pub fn ranges(&self, extent: usize) -> Option<Vec<Range<usize>>> {
        if extent == 0 {
            return (self.0 == [(1, 0)]).then(|| std::iter::once(0..0).collect());
        }
        let total = self.0.iter().try_fold(0_usize, |total, &(count, length)| {
            total.checked_add(count.checked_mul(length).filter(|&product| product > 0)?)
        });
        if total != Some(extent) {
            return None;
        }
        let lengths = self.0.iter().flat_map(|&(count, length)| std::iter::repeat_n(length, count));
        let range = |start: &mut usize, length: usize| {
            *start += length;
            Some(*start - length..*start)
        };
        Some(lengths.scan(0, range).collect())
    }
}

impl From<&[Range<usize>]> for Lengths {
    fn from(ranges: &[Range<usize>]) -> Self {
        let mut lengths = Lengths::default();
        ranges.iter().for_each(|range| lengths.push(1, range.len()));
        lengths
    }
}

/// Name, type and role of an array.
pub(super) fn array_identity(array: &ArrayInfo) -> String {
    format!("{} {}{} {}", escaped(&array.name), array.dtype, array.shape, role(array.role))
}

/// Codelet and element type of a recorded task.
pub(super) fn task_identity(task: &Recorded) -> String {
    format!("{} {}", escaped(task.codelet.name), task.dtype)
}

/// The codelets that a fused task stands for; empty for any other.
pub(super) fn fused_identity(task: &Recorded) -> String {
    task.fused.iter().map(|name| escaped(name)).collect::<Vec<_>>().join(" ")
}

/// The lines about arrays with several versions, and about arguments that are read as they were earlier.
pub(super) fn past_identities(graph: &Graph) -> Vec<String> {
    let arrays = graph.arrays().iter().enumerate().filter(|(_, array)| array.versions > 1);
    let versions = arrays.map(|(i, array)| format!("versions {i} {}", array.versions));
    let of_task = |(task, recorded): (usize, &Recorded)| {
        let args: Vec<usize> = recorded.args.iter().map(|var| var.age()).collect();
        let aged = args.into_iter().enumerate().filter(|(_, age)| *age > 0);
        aged.map(move |(arg, age)| format!("age {task} {arg} {age}"))
    };
    versions.chain(graph.tasks().iter().enumerate().flat_map(of_task)).collect()
}

/// Codelet and tile of a lowered task.
pub(super) fn run_identity(task: &Task) -> String {
    format!("{} {}/{}", escaped(task.codelet), task.tile.0 + 1, task.tile.1)
}

/// The lines about copies, without their first word.
pub(super) fn copy_identities(lowered: &Lowered, plan: &Plan) -> impl Iterator<Item = String> {
    let (blocks, _) = plan.replicas();
    plan.copies().iter().map(|copy| {
        let Block { buffer, range } = &blocks.blocks[copy.block];
        let name = escaped(&lowered.buffers()[*buffer].name);
        let Copy { from, to, before, age, .. } = copy;
        let age = if *age > 0 { format!(" age {age}") } else { String::new() };
        format!("{name} {}..{} from {from} to {to} before {before}{age}", range.start, range.end)
    })
}

impl StepRecord {
    /// Whether version 1 of the format has all its lines.
    pub fn is_of_version_1(&self) -> bool {
        let is_of_cores =
            |task: &TaskRecord| matches!(&task.implementations[..], [(_, name, _)] if !name.contains(':'));
        self.past.is_empty()
            && self.copies.is_empty()
            && self.memories.iter().all(|of| of.memory.is_none())
            && self.codes.is_empty()
            && self.arrays.iter().all(|array| array.layouts.len() == 1)
            && self.tasks.iter().all(is_of_cores)
    }

    /// Writes a plan down.
    pub fn new(name: &str, graph: &Graph, planned: &Planned, machine: &Machine) -> Result<Self> {
        let Planned { cut, lowered, plan } = planned;
        plan.check(lowered)?;
        if cut.tasks.len() != graph.tasks().len() || cut.layouts.len() != graph.arrays().len() {
            return Err(Error::new(ErrorKind::Plan, "the cut was made for another graph: make a new plan"));
        }
        let line = 0;
        let arrays = graph.arrays().iter().zip(&cut.layouts);
        let tasks = graph.tasks().iter().zip(&cut.tasks);
        let fused = graph.tasks().iter().enumerate().filter(|(_, task)| !task.fused.is_empty());
        let fused = fused.map(|(task, info)| FusedRecord { line, task, identity: fused_identity(info) });
        let runs = |placement: &Placement| {
            let workers = placement.workers();
            let run = |&id: &u32| {
                let identity = run_identity(&lowered.tasks()[id as usize]);
                let (unit, floats) = (workers[id as usize], placement.is_floating(id));
                RunRecord { line, task: id as usize, identity, unit, floats }
            };
            placement.sequence.iter().map(run).collect()
        };
        let order = match plan.order() {
            Order::Planned(placement) => OrderRecord::Fixed(runs(placement)),
            Order::Open(policy) => OrderRecord::Open(line, escaped(policy.name())),
        };
        // One line stands for all memories where they are alike.
        let memories: Vec<(Option<MemoryId>, &MemoryPlan)> = match plan.memories() {
            [one, others @ ..] if others.iter().all(|other| other.offsets == one.offsets) => {
                vec![(None, one)]
            }
            all => all.iter().enumerate().map(|(id, memory)| (Some(id), memory)).collect(),
        };
        let buffers = memories.iter().flat_map(|&(memory, of)| {
            let placed = lowered.buffers().iter().zip(&of.offsets).enumerate();
            placed.filter_map(move |(buffer, (info, offset))| {
                let (name, bytes, offset) = (escaped(&info.name), info.bytes, (*offset)?);
                Some(BufferRecord { line, memory, buffer, name, bytes, offset })
            })
        });
        let memory = |&(memory, of): &(Option<MemoryId>, &MemoryPlan)| {
            let bytes = of.buffer_bytes();
            MemoryRecord { line, memory, bytes }
        };
        Ok(StepRecord {
            name: escaped(name),
            line,
            graph: Fingerprint::of_graph(graph),
            machine: (machine.units.iter().map(|unit| unit.memory).collect(), line),
            memories: memories.iter().map(memory).collect(),
            arrays: arrays
                .enumerate()
                .map(|(i, (array, layouts))| {
                    let n_tiles = if layouts.only().is_some() { 1 } else { n_tiles(graph, cut, i)? };
                    let layouts = layouts.runs(n_tiles);
                    Ok(ArrayRecord { line, identity: array_identity(array), layouts })
                })
                .collect::<Result<_>>()?,
            tasks: tasks.map(|(task, cut)| TaskRecord::new(task, cut)).collect::<Result<_>>()?,
            fused: fused.collect(),
            codes: graph.codes().iter().map(|code| escaped(code)).collect(),
            past: past_identities(graph).into_iter().map(|identity| PastRecord { line, identity }).collect(),
            order,
            copies: copy_identities(lowered, plan).map(|identity| CopyRecord { line, identity }).collect(),
            buffers: buffers.collect(),
        })
    }
}

impl TaskRecord {
    fn new(task: &Recorded, cut: &TaskCut) -> Result<Self> {
        let mut tiles = Vec::with_capacity(cut.tiles.len());
        for (axis, ranges) in &cut.tiles {
            let axis = &task.bound.axes()[*axis];
            let lengths = Lengths::from(&ranges[..]);
            if lengths.ranges(axis.extent).as_ref() != Some(ranges) {
                let message =
                    format!("the tiles of {} do not cover its axis {}", task.codelet.name, axis.name);
                return Err(Error::new(ErrorKind::Plan, message));
            }
            tiles.push((axis.name.clone(), lengths));
        }
        let n_tiles = if cut.implementations.only().is_some() { Some(1) } else { cut.n_tiles() };
        let runs = cut.implementations.runs(n_tiles.unwrap_or(usize::MAX));
        let implementations =
            runs.into_iter().map(|(count, by)| (count, escaped(&by.written()), by.version)).collect();
        Ok(TaskRecord { line: 0, identity: task_identity(task), implementations, groups: cut.groups, tiles })
    }
}

impl fmt::Display for StepRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step {}", self.name)?;
        writeln!(f, "graph {}", self.graph)?;
        write!(f, "machine {} units in memories", self.machine.0.len())?;
        self.machine.0.iter().try_for_each(|memory| write!(f, " {memory}"))?;
        writeln!(f)?;
        for MemoryRecord { memory, bytes, .. } in &self.memories {
            writeln!(f, "memory {bytes} bytes{}", In(*memory))?;
        }
        for (i, ArrayRecord { identity, layouts, .. }) in self.arrays.iter().enumerate() {
            let layouts = layouts.iter().map(|(count, layout)| (*count, layout_word(*layout)));
            writeln!(f, "array {i} {identity} {}", in_runs(layouts))?;
        }
        for (i, task) in self.tasks.iter().enumerate() {
            let TaskRecord { identity, implementations, groups, .. } = task;
            let names = in_runs(implementations.iter().map(|(count, name, _)| (*count, name.clone())));
            let versions: Vec<String> =
                implementations.iter().map(|(.., version)| format!("v{version}")).collect();
            write!(f, "task {i} {identity} {names} {} groups {groups}", versions.join("+"))?;
            task.tiles.iter().try_for_each(|(axis, lengths)| write!(f, " {axis}={lengths}"))?;
            writeln!(f)?;
        }
        for FusedRecord { task, identity, .. } in &self.fused {
            writeln!(f, "fused {task} {identity}")?;
        }
        if !self.codes.is_empty() {
            writeln!(f, "codes {}", self.codes.join(" "))?;
        }
        self.past.iter().try_for_each(|past| writeln!(f, "{}", past.identity))?;
        match &self.order {
            OrderRecord::Open(_, name) => writeln!(f, "order {name}")?,
            OrderRecord::Fixed(runs) => {
                writeln!(f, "order fixed")?;
                for RunRecord { task, identity, unit, floats, .. } in runs {
                    let floats = if *floats { " floating" } else { "" };
                    writeln!(f, "run {task} {identity} on {unit}{floats}")?;
                }
            }
        }
        self.copies.iter().try_for_each(|copy| writeln!(f, "copy {}", copy.identity))?;
        for BufferRecord { memory, buffer, name, bytes, offset, .. } in &self.buffers {
            writeln!(f, "buffer {buffer} {name} {bytes} bytes at {offset}{}", In(*memory))?;
        }
        Ok(())
    }
}

/// A layout in a word.
fn layout_word(layout: Layout) -> String {
    match layout {
        Layout::RowMajor => "row-major".to_string(),
        Layout::Lanes(lanes) => format!("lanes:{lanes}"),
        Layout::Strided(_) => unreachable!("arrays of a graph are not strided"),
    }
}

/// Values of tiles, with how many have each, or the one that all have.
fn in_runs(runs: impl ExactSizeIterator<Item = (usize, String)>) -> String {
    let is_one = runs.len() == 1;
    let run = |(count, value)| if is_one { value } else { format!("{count}x{value}") };
    runs.map(run).collect::<Vec<String>>().join("+")
}

/// The tiles of an array, whose number lowering must agree with.
fn n_tiles(graph: &Graph, cut: &Cut, array: usize) -> Result<usize> {
    cut.array_tiles(graph, array).map(|n_tiles| n_tiles.max(1))
}

/// The end of a line about a memory.
struct In(Option<MemoryId>);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |memory| write!(f, " in {memory}"))
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (count, length)) in self.0.iter().enumerate() {
            let plus = if i > 0 { "+" } else { "" };
            match count {
                1 => write!(f, "{plus}{length}")?,
                _ => write!(f, "{plus}{count}x{length}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codelet::relation::TileSize;

    #[test]
    fn ranges_are_written_as_lengths_and_read_back() {
        let cases = [
            (TileSize::Size(16).cut(64), 64, "4x16"),
            (TileSize::Size(16).cut(60), 60, "3x16+12"),
            (TileSize::Count(4).cut(10), 10, "2x3+2x2"),
            (TileSize::Size(9).cut(5), 5, "5"),
            (TileSize::Size(9).cut(0), 0, "0"),
        ];
        for (ranges, extent, text) in cases {
            let lengths = Lengths::from(&ranges[..]);
            assert_eq!(lengths.to_string(), text);
            assert_eq!(lengths.ranges(extent), Some(ranges));
            assert_eq!(lengths.ranges(extent + 1), None);
        }
        assert_eq!(Lengths(vec![(usize::MAX, 2)]).ranges(4), None);
        assert_eq!(Lengths(vec![(2, 0), (1, 4)]).ranges(4), None);
    }
}
