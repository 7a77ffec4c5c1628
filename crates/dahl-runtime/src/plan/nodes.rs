//! What a plan orders: the tasks of a graph and, in a planned order, the copies between memories.
//!
//! Both are *nodes*: tasks have the numbers that they have in the graph, copies follow. Memory is planned for
//! nodes, and replay executes them.

use super::Placement;
use super::copies::{Copies, Copy};
use crate::graph::{BufferKind, Edge, Lowered, TaskId};
use crate::machine::{HOST, Machine, MemoryId};

/// The nodes of a plan and their order.
pub(super) struct Nodes<'a> {
    pub lowered: &'a Lowered,
    /// How many there are.
    pub n: usize,
    /// All edges of data.
    pub edges: Vec<Edge>,
    /// What each unit executes in a fixed order; nothing where the order is open.
    pub fixed: Vec<Vec<TaskId>>,
    /// All of them in an order that agrees with edges and units.
    pub sequence: Vec<TaskId>,
    /// For each memory and each buffer, the nodes that touch it there, in ascending order.
    pub users: Vec<Vec<Vec<TaskId>>>,
}

impl<'a> Nodes<'a> {
    /// The nodes of a planned order, or of one that is open: then every task may be executed in any memory.
    pub fn new(lowered: &'a Lowered, placement: Option<(&Placement, &Copies)>, machine: &Machine) -> Self {
        let n_tasks = lowered.tasks.len();
        let users = users(lowered);
        let Some((placement, Copies { copies, edges, blocks, .. })) = placement else {
            return Nodes {
                lowered,
                n: n_tasks,
                edges: lowered.edges.clone(),
                fixed: Vec::new(),
                sequence: (0..n_tasks as TaskId).collect(),
                users: vec![users; machine.memories.len()],
            };
        };
        let is_fixed = |&node: &TaskId| !placement.is_floating(node);
        let with_copies = Interleaved::new(n_tasks, copies);
        let fixed =
            placement.order.iter().map(|order| with_copies.of(order).into_iter().filter(is_fixed).collect());
        let workers = placement.workers();
        let memory_of = |task: TaskId| machine.units[workers[task as usize]].memory;
        let of_memory = |memory: MemoryId| -> Vec<Vec<TaskId>> {
            let is_there = |task: &TaskId| memory_of(*task) == memory;
            users.iter().map(|tasks| tasks.iter().copied().filter(is_there).collect()).collect()
        };
        let mut users: Vec<Vec<Vec<TaskId>>> = (0..machine.memories.len()).map(of_memory).collect();
        for (node, copy) in (n_tasks as TaskId..).zip(copies) {
            let buffer = blocks.blocks[copy.block].buffer;
            users[copy.from][buffer].push(node);
            users[copy.to][buffer].push(node);
        }
        Nodes {
            lowered,
            n: n_tasks + copies.len(),
            edges: [&lowered.edges[..], &edges[..]].concat(),
            fixed: fixed.collect(),
            sequence: with_copies.of(&placement.sequence),
            users,
        }
    }

    /// Whether a buffer lies in a memory: where a node touches it, and in the host's what the program touches
    /// or nobody.
    pub fn lies_in(&self, buffer: usize, memory: MemoryId) -> bool {
        let is_temporary = self.lowered.buffers[buffer].kind == BufferKind::Temporary;
        let is_unused = || self.users.iter().all(|users| users[buffer].is_empty());
        !self.users[memory][buffer].is_empty() || memory == HOST && (!is_temporary || is_unused())
    }
}

/// Tasks with the copies that are made right before them.
pub(crate) struct Interleaved {
    copies_of: Vec<Vec<TaskId>>,
}

impl Interleaved {
    pub fn new(n_tasks: usize, copies: &[Copy]) -> Self {
        let mut copies_of = vec![Vec::new(); n_tasks];
        for (node, copy) in (n_tasks as TaskId..).zip(copies) {
            copies_of[copy.before as usize].push(node);
        }
        Interleaved { copies_of }
    }

    /// Tasks in this order, each behind its copies.
    pub fn of(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        tasks.iter().flat_map(|&task| self.copies_of[task as usize].iter().copied().chain([task])).collect()
    }
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
