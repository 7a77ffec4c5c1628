//! What a trace is about: tasks, edges, workers and memories, without anything that only this process knows.

use crate::graph::{BufferKind, Edge, Lowered, ScopeId};
use crate::machine::{HOST, Machine, MemoryId, Unit};
use crate::plan::Plan;
use std::fmt;

/// Who decided which worker executes what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// A plan: each worker has its list.
    #[default]
    Planned,
    /// Whoever is free takes what is ready.
    Open,
    /// Tasks were submitted one by one; their edges are not known.
    Submitted,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskInfo {
    /// The codelet's name.
    pub codelet: String,
    /// The implementation's name.
    pub implementation: String,
    /// The implementation's version.
    pub version: u32,
    /// The algorithms that its kernel takes, where it chooses by itself; see
    /// [`Codelet::algorithms`](method@crate::codelet::Codelet::algorithms).
    pub algorithm: String,
    /// The element type it computes in.
    pub dtype: String,
    /// What its time depends on otherwise; see [`Task::footprint`](crate::graph::Task::footprint).
    pub footprint: String,
    /// Whether most of what it reads must come from outside of its worker's caches, by the plan.
    pub is_cold: bool,
    /// Which tile of how many.
    pub tile: (usize, usize),
    /// Bytes that it moves: the size of everything it reads or writes, but of arrays that data index only the
    /// elements that are read.
    pub bytes: usize,
    /// Floating-point operations.
    pub flops: f64,
    /// The worker it was planned for.
    pub worker: Option<usize>,
    /// The source line that recorded it, as `file:line`; empty if that is not known.
    pub line: String,
    /// What it is for, in the order of [`Scene::scopes`]; see [`Task::scopes`](crate::graph::Task::scopes).
    pub scopes: Vec<ScopeId>,
}

impl TaskInfo {
    /// The implementation's name, then a slash and the algorithm if there is one.
    pub fn code(&self) -> String {
        code(&self.implementation, &self.algorithm)
    }
}

/// An implementation and the algorithm that it takes, if it chooses one: `lanes/winograd3`.
pub(crate) fn code(implementation: &str, algorithm: &str) -> String {
    let slash = if algorithm.is_empty() { "" } else { "/" };
    format!("{implementation}{slash}{algorithm}")
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) tile {} of {}", self.codelet, self.implementation, self.tile.0 + 1, self.tile.1)
    }
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerInfo {
    /// What kind of unit it is, such as `cpu`.
    pub kind: String,
    /// The memory it computes in.
    pub memory: MemoryId,
    /// The core it is pinned to.
    pub core: Option<usize>,
}

impl fmt::Display for WorkerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        self.core.map_or(Ok(()), |core| write!(f, ", core {core}"))?;
        if self.memory == HOST { Ok(()) } else { write!(f, ", memory {}", self.memory) }
    }
}

/// A piece of data that is copied as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockInfo {
    /// The buffer it is a part of.
    pub name: String,
    /// Its size.
    pub bytes: usize,
}

/// What a trace is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Who decided.
    pub dispatch: Dispatch,
    /// The workers.
    pub workers: Vec<WorkerInfo>,
    /// Names of the memories.
    pub memories: Vec<String>,
    /// Names of what tasks are for: layers of a network, or whatever else the program recorded.
    pub scopes: Vec<String>,
    /// The tasks.
    pub tasks: Vec<TaskInfo>,
    /// Why tasks wait for each other.
    pub edges: Vec<Edge>,
    /// What is copied between memories; empty where there is one memory.
    pub blocks: Vec<BlockInfo>,
}

impl Scene {
    /// A lowered graph and its plan on a machine.
    pub fn new(lowered: &Lowered, plan: &Plan, machine: &Machine) -> Self {
        let workers = plan.placement().map(|placement| placement.workers());
        let cold = plan.cold(lowered, machine);
        let task = |(id, task): (usize, &crate::graph::Task)| TaskInfo {
            codelet: task.codelet.to_string(),
            implementation: task.implementation.to_string(),
            version: task.version,
            algorithm: task.algorithm.clone(),
            dtype: task.dtype.to_string(),
            footprint: task.footprint(),
            is_cold: cold[id],
            tile: task.tile,
            bytes: task.bytes(),
            flops: task.flops,
            worker: workers.as_ref().map(|workers| workers[id]),
            line: task.location.map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line())),
            scopes: task.scopes.clone(),
        };
        let dispatch = if workers.is_some() { Dispatch::Planned } else { Dispatch::Open };
        let mut scene = Scene { dispatch, ..Scene::of_machine(machine) };
        scene.scopes = lowered.scopes.clone();
        scene.tasks = lowered.tasks.iter().enumerate().map(task).collect();
        scene.edges = plan.task_edges(lowered);
        if scene.memories.len() > 1 {
            let blocks = lowered.blocks().blocks;
            scene.blocks.extend(blocks.iter().map(|block| {
                let buffer = &lowered.buffers[block.buffer];
                let state = if matches!(buffer.kind, BufferKind::State(_)) { "state " } else { "" };
                BlockInfo { name: format!("{state}{}", buffer.name), bytes: block.range.len() }
            }));
        }
        scene
    }

    /// Units on which nothing is known to run.
    pub(crate) fn of_machine(machine: &Machine) -> Self {
        let worker = |unit: &Unit| WorkerInfo {
            kind: machine.kinds[unit.kind].name.clone(),
            memory: unit.memory,
            core: unit.core,
        };
        Scene {
            workers: machine.units.iter().map(worker).collect(),
            memories: machine.memories.iter().map(|memory| memory.name.clone()).collect(),
            ..Scene::default()
        }
    }

    /// The names of what a task is for.
    pub fn scopes_of<'a>(&'a self, task: &'a TaskInfo) -> impl Iterator<Item = &'a str> {
        task.scopes.iter().filter_map(|scope| self.scopes.get(scope.0)).map(String::as_str)
    }

    /// The codelets, each once, in the order of their first task.
    pub fn codelets(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        names.extend(self.tasks.iter().map(|task| task.codelet.as_str()).filter(|name| seen.insert(*name)));
        names
    }
}
