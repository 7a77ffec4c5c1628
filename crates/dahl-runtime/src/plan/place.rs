//! Who executes what, in which order: the heuristic placement.
//!
//! Tile `t` of `T` goes to worker `t * W / T`, whatever the task, so that a chunk of samples stays on one worker
//! from the first layer to the last and back. Each worker takes the first tile as far as it can before it turns
//! to the next, so that a chunk's data stays in its cache. What needs other workers' results comes when there is
//! nothing else to do: no two workers are ever exactly as fast as planned, and waiting in the middle of a chunk
//! costs time that waiting at its end does not.

use crate::graph::{Lowered, Task, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Units and order of all tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The tasks of each worker, in the order in which it executes them.
    pub order: Vec<Vec<TaskId>>,
    /// All tasks in an order that agrees with every worker's and with all edges within a step. An engine that is
    /// given tasks one by one must be given them in this order: a worker may have to execute a task before one
    /// that was recorded earlier, so in the order of recording a limited queue can fill up with tasks that wait.
    pub sequence: Vec<TaskId>,
}

impl Placement {
    /// The worker of each task.
    pub fn workers(&self) -> Vec<usize> {
        let mut workers = vec![0; self.sequence.len()];
        for (worker, tasks) in self.order.iter().enumerate() {
            for &task in tasks {
                workers[task as usize] = worker;
            }
        }
        workers
    }
}

/// Places the tasks of a graph on `n_workers` workers.
pub(super) fn place(lowered: &Lowered, n_workers: usize) -> Placement {
    let n_tasks = lowered.tasks.len();
    let mut missing = vec![0_u32; n_tasks];
    let mut successors = vec![Vec::new(); n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        missing[edge.to as usize] += 1;
        successors[edge.from as usize].push(edge.to);
    }
    let worker_of = |task: &Task| task.tile.0 * n_workers / task.tile.1.max(1);
    let mut waits = vec![false; n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        let (from, to) = (edge.from as usize, edge.to as usize);
        waits[to] |= worker_of(&lowered.tasks[from]) != worker_of(&lowered.tasks[to]);
    }
    // Ready tasks per worker: those that wait for nobody first, of these the earliest tile, then the earliest
    // recorded.
    let mut ready: Vec<BinaryHeap<Reverse<(bool, usize, TaskId)>>> = vec![BinaryHeap::new(); n_workers];
    let key = |id: TaskId| {
        let task = &lowered.tasks[id as usize];
        (waits[id as usize], task.tile.0 * PER_MILLE / task.tile.1.max(1), id)
    };
    for id in 0..n_tasks as TaskId {
        if missing[id as usize] == 0 {
            ready[worker_of(&lowered.tasks[id as usize])].push(Reverse(key(id)));
        }
    }
    let mut placement =
        Placement { order: vec![Vec::new(); n_workers], sequence: Vec::with_capacity(n_tasks) };
    let mut busy = vec![0.0_f64; n_workers];
    // The worker with the least work so far moves next; a task is ready once its predecessors are in the sequence.
    while let Some(worker) =
        (0..n_workers).filter(|&w| !ready[w].is_empty()).min_by(|&a, &b| busy[a].total_cmp(&busy[b]))
    {
        let Some(Reverse((.., id))) = ready[worker].pop() else { continue };
        let task = &lowered.tasks[id as usize];
        busy[worker] += seconds(task);
        placement.order[worker].push(id);
        placement.sequence.push(id);
        for &next in &successors[id as usize] {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready[worker_of(&lowered.tasks[next as usize])].push(Reverse(key(next)));
            }
        }
    }
    debug_assert_eq!(placement.sequence.len(), n_tasks, "edges within a step go forward");
    placement
}

/// Tiles of tasks with different tile counts are compared by their place in the whole.
const PER_MILLE: usize = 1000;

/// A rough guess, good enough to interleave workers.
fn seconds(task: &Task) -> f64 {
    task.flops / 50e9 + task.bytes() as f64 / 20e9 + 200e-9
}
