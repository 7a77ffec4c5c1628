//! From the lines of a file to a plan for a graph and a machine. Nothing in the lines is taken on trust: what
//! is returned here is executed without further questions.
//!
//! The graph is compared array by array and task by task, so that the difference can be named, and then by
//! its hash. Implementations must have the version of the file; tiles, units, order, offsets and the limits
//! of memories ([`Machine::with_limit`]) must allow the plan.

use super::super::memory::{Overlap, adopt};
use super::super::nodes::Nodes;
use super::super::{Order, Placement, Plan, Planned};
use super::record::{
    BufferRecord, CopyRecord, MemoryRecord, OrderRecord, StepRecord, TaskRecord, array_identity,
    copy_identities, fused_identity, past_identities, run_identity, task_identity,
};
use super::refuse;
use crate::bytes::ALIGN;
use crate::codelet::Implementation;
use crate::codelet::relation::Split;
use crate::error::Result;
use crate::graph::{ArrayInfo, BufferKind, Graph, Lowered, Recorded, TaskId, lower};
use crate::graph::{Cut, PerTile, TaskCut};
use crate::hash::Fingerprint;
use crate::machine::{Kind, Machine, MemoryId};
use crate::schedule::{Policy, SchedulerKind};
use crate::shape::Layout;
use crate::words::escaped;
use std::collections::BTreeMap;

/// Tiles that a graph may be cut into: a slip of the pen must not make billions.
const MAX_TILES: usize = 1 << 16;

/// What to do about a plan for another graph.
const OTHER_GRAPH: &str =
    "the plan was made for another graph; make a new one, or run it with the settings it was made with";

/// The plan that a record describes.
pub(super) fn check(
    source: &str,
    record: &StepRecord,
    graph: &Graph,
    machine: &Machine,
    policies: &[Policy],
) -> Result<Planned> {
    let checker = Checker { source, record, policies };
    let cut = checker.cut(graph)?;
    let at_step = |error| refuse(source, record.line, format!("step {}: {error}", record.name));
    let lowered = lower(graph, &cut).map_err(at_step)?;
    let order = checker.order(&lowered, machine)?;
    let copies = Plan::find_copies(&lowered, machine, &order);
    let placement = order.placement().map(|placement| (placement, &copies));
    let nodes = Nodes::new(&lowered, placement, machine);
    let offsets = checker.all_offsets(&nodes)?;
    let (memories, edges) = adopt(&nodes, offsets)?.map_err(|Overlap { memory, buffers: (a, b) }| {
        let is_meant = |r: &&BufferRecord, buffer| r.buffer == buffer && r.memory.is_none_or(|of| of == memory);
        let line =
            |buffer| record.buffers.iter().find(|r| is_meant(r, buffer)).map_or(record.line, |r| r.line);
        let (name_a, name_b) = (&lowered.buffers()[a].name, &lowered.buffers()[b].name);
        let message = format!(
            "buffer {b} {name_b} overlaps buffer {a} {name_a} (line {}), and not all tasks that touch the one come \
             before those that touch the other: give it an offset of its own, or change the order",
            line(a)
        );
        refuse(source, line(b), message)
    })?;
    for &MemoryRecord { line, memory, bytes } in &record.memories {
        let needed = match memory {
            Some(memory) => memories[memory].bytes,
            None => memories.iter().map(|memory| memory.bytes).max().unwrap_or(0),
        };
        if bytes != needed {
            let message = format!("the buffers need {needed} bytes, not {bytes}: write the former");
            return Err(refuse(source, line, message));
        }
    }
    let plan = Plan::of_parts(&lowered, machine, order, copies, (memories, edges)).map_err(at_step)?;
    checker.copies(&lowered, &plan)?;
    let line = record.memories.first().map_or(record.line, |record| record.line);
    plan.check_machine(machine).map_err(|error| refuse(source, line, error))?;
    Ok(Planned { cut, lowered, plan })
}

struct Checker<'a> {
    source: &'a str,
    record: &'a StepRecord,
    policies: &'a [Policy],
}

impl Checker<'_> {
    fn refuse<T>(&self, line: usize, message: impl std::fmt::Display) -> Result<T> {
        Err(refuse(self.source, line, message))
    }

    /// Checks that the graph is the one that was planned, and cuts it. What differs is looked for in arrays
    /// and tasks first, because that can be named.
    fn cut(&self, graph: &Graph) -> Result<Cut> {
        let StepRecord { arrays, tasks, line, .. } = self.record;
        for (i, (record, array)) in arrays.iter().zip(graph.arrays()).enumerate() {
            let there = array_identity(array);
            if record.identity != there {
                let planned = &record.identity;
                return self.refuse(
                    record.line,
                    format!("array {i} is {planned} here and {there} in the graph: {OTHER_GRAPH}"),
                );
            }
        }
        for (i, (record, task)) in tasks.iter().zip(graph.tasks()).enumerate() {
            let there = task_identity(task);
            if record.identity != there {
                let planned = &record.identity;
                return self.refuse(
                    record.line,
                    format!("task {i} is {planned} here and {there} in the graph: {OTHER_GRAPH}"),
                );
            }
        }
        let counts =
            [("arrays", arrays.len(), graph.arrays().len()), ("tasks", tasks.len(), graph.tasks().len())];
        for (what, planned, there) in counts {
            if planned != there {
                let message =
                    format!("there are {planned} {what} here and {there} in the graph: {OTHER_GRAPH}");
                return self.refuse(*line, message);
            }
        }
        self.fused(graph)?;
        self.past(graph)?;
        let fingerprint = Fingerprint::of_graph(graph);
        if self.record.graph != fingerprint {
            let planned = self.record.graph;
            return self.refuse(
                *line,
                format!("the hash of the graph is {planned} here and really {fingerprint}: {OTHER_GRAPH}"),
            );
        }
        let mut cut = Cut { tasks: Vec::new(), layouts: Vec::new() };
        for (record, array) in arrays.iter().zip(graph.arrays()) {
            let mut layouts = record.layouts.iter().map(|(_, layout)| *layout);
            layouts
                .try_for_each(|layout| check_layout(layout, array))
                .or_else(|message| self.refuse(record.line, message))?;
            let layouts = PerTile::of_runs(record.layouts.iter().copied());
            cut.layouts.push(layouts.unwrap_or(Layout::RowMajor.into()));
        }
        let mut n_tiles = 0;
        for (record, task) in tasks.iter().zip(graph.tasks()) {
            let task_cut = cut_task(record, task).or_else(|message| self.refuse(record.line, message))?;
            n_tiles = task_cut.n_tiles().and_then(|tiles| tiles.checked_add(n_tiles)).unwrap_or(usize::MAX);
            if n_tiles > MAX_TILES {
                return self.refuse(record.line, format!("more than {MAX_TILES} tiles: use longer ones"));
            }
            cut.tasks.push(task_cut);
        }
        self.layout_counts(graph, &cut)?;
        Ok(cut)
    }

    /// Checks that an array whose tiles lie in several layouts has as many tiles as the file says.
    fn layout_counts(&self, graph: &Graph, cut: &Cut) -> Result<()> {
        for (i, record) in self.record.arrays.iter().enumerate().filter(|(_, array)| array.layouts.len() > 1)
        {
            let planned = record.layouts.iter().fold(0, |n: usize, (count, _)| n.saturating_add(*count));
            let there = cut.array_tiles(graph, i)?;
            if planned != there {
                let message = format!(
                    "array {i} has {there} tiles, and there are layouts for {planned}: name one for each tile"
                );
                return self.refuse(record.line, message);
            }
        }
        Ok(())
    }

    /// Checks that the fused tasks stand for what the file says they do.
    fn fused(&self, graph: &Graph) -> Result<()> {
        let names = graph.tasks().iter().map(fused_identity).enumerate();
        let mut expected: BTreeMap<usize, String> = names.filter(|(_, names)| !names.is_empty()).collect();
        for record in &self.record.fused {
            if expected.get(&record.task) != Some(&record.identity) {
                let (task, names) = (record.task, &record.identity);
                return self.refuse(
                    record.line,
                    format!("task {task} of the graph does not stand for {names}: {OTHER_GRAPH}"),
                );
            }
            expected.remove(&record.task);
        }
        match expected.first_key_value() {
            None => Ok(()),
            Some((task, names)) => {
                let message = format!(
                    "task {task} of the graph stands for {names}, and no line says so: {OTHER_GRAPH}"
                );
                self.refuse(self.record.line, message)
            }
        }
    }

    /// Checks that the same arrays have as many versions, and are read at the same ages.
    fn past(&self, graph: &Graph) -> Result<()> {
        let expected = past_identities(graph);
        let mut missing = expected.iter();
        for record in &self.record.past {
            let there = missing.next().map_or("none", |there| there);
            if record.identity != there {
                let planned = &record.identity;
                return self.refuse(
                    record.line,
                    format!(
                        "found '{planned}' where the line for the graph would be '{there}': {OTHER_GRAPH}"
                    ),
                );
            }
        }
        match missing.next() {
            None => Ok(()),
            Some(there) => {
                self.refuse(self.record.line, format!("the line '{there}' is missing: {OTHER_GRAPH}"))
            }
        }
    }

    /// The scheduler of this name.
    fn policy(&self, line: usize, name: &str) -> Result<Policy> {
        let mut known = self.policies.iter().cloned().chain(SchedulerKind::ALL.map(Policy::from));
        if let Some(policy) = known.find(|policy| escaped(policy.name()) == name) {
            return Ok(policy);
        }
        let known: Vec<&str> = self.policies.iter().map(Policy::name).collect();
        let known = [&["fixed", "eager", "steal"], &known[..]].concat().join(", ");
        self.refuse(
            line,
            format!("nobody provides a scheduler '{name}', only {known}: write one of these, or provide it"),
        )
    }

    /// Checks that the machine is the one that was planned for. Units and order, or the scheduler.
    fn order(&self, lowered: &Lowered, machine: &Machine) -> Result<Order> {
        let (memories, line) = &self.record.machine;
        if !machine.units.iter().map(|unit| &unit.memory).eq(memories) {
            let (planned, there) = (memories.len(), machine.units.len());
            let message = if planned == there {
                let there: Vec<_> = machine.units.iter().map(|unit| unit.memory).collect();
                format!("the plan is for units in the memories {memories:?}, and these are in {there:?}")
            } else {
                format!("the plan is for {planned} units, and there are {there}")
            };
            return self
                .refuse(*line, format!("{message}: use the units it was made for, or make a new plan"));
        }
        let runs = match &self.record.order {
            OrderRecord::Fixed(runs) => runs,
            OrderRecord::Open(line, name) => return Ok(Order::Open(self.policy(*line, name)?)),
        };
        let tasks = lowered.tasks();
        let (mut order, mut sequence) = (vec![Vec::new(); memories.len()], Vec::new());
        let mut place_of: Vec<Option<usize>> = vec![None; tasks.len()];
        for (place, run) in runs.iter().enumerate() {
            let Some(task) = tasks.get(run.task) else {
                let n = tasks.len();
                return self.refuse(
                    run.line,
                    format!("there is no task {}: the cut makes {n}, counted from 0", run.task),
                );
            };
            let there = run_identity(task);
            if run.identity != there {
                let message = format!("task {} is {there}, not {}: write the former", run.task, run.identity);
                return self.refuse(run.line, message);
            }
            if let Some(earlier) = place_of[run.task].replace(place) {
                let message = format!(
                    "task {} {there} is there twice, first in line {}: remove one of the lines",
                    run.task, runs[earlier].line
                );
                return self.refuse(run.line, message);
            }
            let Some(order) = order.get_mut(run.unit) else {
                let n = memories.len();
                return self.refuse(
                    run.line,
                    format!("there is no unit {}: the machine has {n}, counted from 0", run.unit),
                );
            };
            if !machine.runs(run.unit, task.code) {
                let Kind { name, code, .. } = machine.kind_of(run.unit);
                let message = format!(
                    "task {} {there} is written in the code {}, and unit {}, of the kind {name}, runs {code}: give it to a unit that \
                     runs the former",
                    run.task, task.code, run.unit
                );
                return self.refuse(run.line, message);
            }
            order.push(run.task as TaskId);
            sequence.push(run.task as TaskId);
        }
        if let Some(missing) = place_of.iter().position(Option::is_none) {
            let name = run_identity(&tasks[missing]);
            let message =
                format!("task {missing} {name} is missing: give it a line 'run {missing} {name} on UNIT'");
            return self.refuse(self.record.line, message);
        }
        for edge in lowered.edges().iter().filter(|edge| edge.distance == 0) {
            let (from, to) = (edge.from as usize, edge.to as usize);
            if let (Some(first), Some(second)) = (place_of[from], place_of[to])
                && first >= second
            {
                let message = format!(
                    "task {to} {} needs task {from} {}, which stands below in line {}: in this order the units would \
                     wait for each other for ever; move task {to} below that line",
                    run_identity(&tasks[to]),
                    run_identity(&tasks[from]),
                    runs[first].line
                );
                return self.refuse(runs[second].line, message);
            }
        }
        let mut floating: Vec<TaskId> =
            runs.iter().filter(|run| run.floats).map(|run| run.task as TaskId).collect();
        floating.sort_unstable();
        Ok(Order::Planned(Placement { order, sequence, floating }))
    }

    /// Checks that the copies, if there are lines about them, are those that follow from the order.
    fn copies(&self, lowered: &Lowered, plan: &Plan) -> Result<()> {
        if self.record.copies.is_empty() {
            return Ok(());
        }
        let mut expected = copy_identities(lowered, plan);
        let advice = "copies follow from the order: write it like that, or leave all lines about copies out";
        for CopyRecord { line, identity } in &self.record.copies {
            let there = expected.next().unwrap_or_else(|| "no further copy".to_string());
            if *identity != there {
                return self
                    .refuse(*line, format!("found the copy '{identity}' instead of '{there}': {advice}"));
            }
        }
        match expected.next() {
            Some(there) => self.refuse(self.record.line, format!("the copy '{there}' is missing: {advice}")),
            None => Ok(()),
        }
    }

    /// The offsets of the buffers in each memory.
    fn all_offsets(&self, nodes: &Nodes<'_>) -> Result<Vec<Vec<Option<usize>>>> {
        let n_memories = nodes.users.len();
        if let [of_all @ MemoryRecord { memory: None, .. }] = &self.record.memories[..] {
            let offsets = self.offsets(nodes.lowered, of_all, |_| true)?;
            let of_memory = |memory: MemoryId| {
                let lies_there = |(buffer, offset): (usize, &Option<usize>)| {
                    offset.filter(|_| nodes.lies_in(buffer, memory))
                };
                offsets.iter().enumerate().map(lies_there).collect()
            };
            return Ok((0..n_memories).map(of_memory).collect());
        }
        let mut all = Vec::new();
        for memory in 0..n_memories {
            let Some(record) = self.record.memories.iter().find(|record| record.memory == Some(memory))
            else {
                let message =
                    format!("there is no line about memory {memory}: give it one with what it needs");
                return self.refuse(self.record.line, message);
            };
            all.push(self.offsets(nodes.lowered, record, |buffer| nodes.lies_in(buffer, memory))?);
        }
        let is_strange = |&memory: &MemoryId| memory >= n_memories;
        let of_memories = self.record.memories.iter().map(|record| (record.memory, record.line));
        let of_buffers = self.record.buffers.iter().map(|record| (record.memory, record.line));
        match of_memories.chain(of_buffers).find(|(memory, _)| memory.as_ref().is_none_or(is_strange)) {
            Some((memory, line)) => {
                let found = memory.map_or("none".to_string(), |memory| memory.to_string());
                let message =
                    format!("a line names one of the {n_memories} memories, counted from 0, not {found}");
                self.refuse(line, message)
            }
            None => Ok(all),
        }
    }

    /// The offset of each buffer that lies in a memory. Whether they may overlap is not looked at.
    fn offsets(
        &self,
        lowered: &Lowered,
        of: &MemoryRecord,
        lies_there: impl Fn(usize) -> bool,
    ) -> Result<Vec<Option<usize>>> {
        let mut records = self.record.buffers.iter().filter(|record| record.memory == of.memory);
        let mut offsets = Vec::with_capacity(lowered.buffers().len());
        for (i, buffer) in lowered.buffers().iter().enumerate() {
            if matches!(buffer.kind, BufferKind::State(_)) || !lies_there(i) {
                offsets.push(None);
                continue;
            }
            let (name, bytes) = (escaped(&buffer.name), buffer.bytes);
            let Some(record) = records.next() else {
                let message = format!("buffer {i} {name} is missing: give it a line with its offset");
                return self.refuse(self.record.line, message);
            };
            if (record.buffer, &record.name, record.bytes) != (i, &name, bytes) {
                let message = format!(
                    "expected buffer {i} {name} of {bytes} bytes, found buffer {} {} of {} bytes: each has one line, \
                     in order",
                    record.buffer, record.name, record.bytes
                );
                return self.refuse(record.line, message);
            }
            let size = buffer.bytes.next_multiple_of(ALIGN).saturating_mul(lowered.versions(i));
            if !record.offset.is_multiple_of(ALIGN) {
                let offset = record.offset;
                return self.refuse(
                    record.line,
                    format!("the offset {offset} is not a multiple of {ALIGN}: use one that is"),
                );
            }
            let &MemoryRecord { bytes: memory, line, .. } = of;
            if memory > isize::MAX as usize {
                return self
                    .refuse(line, format!("no memory has {memory} bytes: write what the buffers need"));
            }
            if record.offset.checked_add(size).is_none_or(|end| end > memory) {
                let message = format!(
                    "buffer {i} {name} takes {size} bytes from {} on, and there are {memory} in all (line {line}): \
                     give it another offset or the plan more memory",
                    record.offset
                );
                return self.refuse(record.line, message);
            }
            offsets.push(Some(record.offset));
        }
        if let Some(record) = records.next() {
            let message = format!("there is no buffer {} {}: remove the line", record.buffer, record.name);
            return self.refuse(record.line, message);
        }
        Ok(offsets)
    }
}

fn check_layout(layout: Layout, array: &ArrayInfo) -> std::result::Result<(), String> {
    match layout {
        Layout::Lanes(lanes) if lanes == 0 || lanes.saturating_mul(array.dtype.bytes()) > ALIGN => {
            let most = ALIGN / array.dtype.bytes();
            Err(format!("{lanes} lanes of {} do not fit a cache line: use 1 to {most}", array.dtype))
        }
        _ => Ok(()),
    }
}

fn cut_task(record: &TaskRecord, task: &Recorded) -> std::result::Result<TaskCut, String> {
    let codelet = task.codelet.name;
    let runs = record.implementations.iter();
    let implementations: Vec<(usize, &'static Implementation)> = runs
        .map(|(count, name, version)| Ok((*count, find_implementation(task, name, *version)?)))
        .collect::<std::result::Result<_, String>>()?;
    let mut tiles = Vec::with_capacity(record.tiles.len());
    for (name, lengths) in &record.tiles {
        let Some(axis) = task.bound.axis(name) else {
            let all: Vec<&str> = task.bound.axes().iter().map(|axis| axis.name.as_str()).collect();
            return Err(format!("{codelet} has no axis {name}, only {}", all.join(", ")));
        };
        let bound = &task.bound.axes()[axis];
        if bound.split == Split::Never {
            return Err(format!("the axis {name} of {codelet} cannot be cut: remove '{name}={lengths}'"));
        }
        if tiles.iter().any(|(earlier, _)| *earlier == axis) {
            return Err(format!("the axis {name} of {codelet} is cut twice: remove one of the cuts"));
        }
        let Some(ranges) = lengths.ranges(bound.extent) else {
            let extent = bound.extent;
            return Err(format!(
                "the tiles {name}={lengths} do not cover the axis, which is {extent} long: their lengths must be at \
                 least 1 and add up to {extent}"
            ));
        };
        tiles.push((axis, ranges));
    }
    let n_tiles = implementations.iter().fold(0, |n: usize, (count, _)| n.saturating_add(*count));
    let is_for_each = implementations.len() > 1;
    let implementations = PerTile::of_runs(implementations).ok_or("no implementation is named: name one")?;
    let cut = TaskCut { tiles, implementations, groups: record.groups };
    if is_for_each && cut.n_tiles() != Some(n_tiles) {
        let there = cut.n_tiles().map_or("too many".to_string(), |n| n.to_string());
        return Err(format!(
            "{codelet} is cut into {there} tiles, and there are implementations for {n_tiles}: name one for each tile"
        ));
    }
    Ok(cut)
}

/// The implementation of a task that a line names.
fn find_implementation(
    task: &Recorded,
    name: &str,
    version: u32,
) -> std::result::Result<&'static Implementation, String> {
    let (codelet, dtype) = (task.codelet.name, task.dtype);
    let mut all = task.codelet.implementations.iter().filter(|found| found.dtype == dtype);
    let Some(found) = all.clone().find(|found| escaped(&found.written()) == name) else {
        let names: Vec<String> = all.by_ref().map(Implementation::written).collect();
        return Err(format!(
            "{codelet} has no implementation {name} for {dtype}, only {}: use one of these",
            names.join(", ")
        ));
    };
    if found.version != version {
        return Err(format!(
            "{codelet} was planned with version {version} of {name}, and this program has version {}, which may give other \
             bits: make a new plan",
            found.version
        ));
    }
    Ok(found)
}
