//! Who executes what, in which order: the heuristic placement.
//!
//! Tile `t` of `T` goes to worker `t * W / T`, whatever the task, so that a chunk of samples stays on one
//! worker from the first layer to the last and back. Each worker takes the first tile as far as it can before
//! it turns to the next, so that a chunk's data stays in its cache. What needs other workers' results comes
//! when there is nothing else to do: no two workers are ever exactly as fast as planned, and waiting in the
//! middle of a chunk costs time that waiting at its end does not.
//!
//! For the same reason some tasks *float*: a worker that waits may take them over. These are tasks that
//! collect from several workers (sums of gradients, and the updates after them), and tasks that nothing on
//! their own worker needs soon (gradients of weights) and that compute much with few bytes, up to half of a
//! worker's work and some megabytes. Cores of one machine easily differ by an eighth when they share their
//! hardware with others, and the difference changes from one millisecond to the next; at times one is half as
//! fast as the other for minutes. With every task fixed, the faster worker waited 5 to 10 % of the time at
//! the sum over the batch.
//!
//! Work is taken over late in the step and in small pieces, because its data must come from another core's
//! cache. That costs twice: the data is fetched, and in the next step its owner must get the cache lines back
//! to write them, about 20 ns each; forward tasks took three times as long for it. So what computes most per
//! byte floats first. Stealing whole chunks (`SchedulerKind::Steal`, `SchedulerKind::Eager`) loses more by
//! cache misses than it gains by balance.

use crate::graph::{Lowered, Task, TaskId, scaled};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Units and order of all tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The tasks of each worker, in the order in which it executes them.
    pub order: Vec<Vec<TaskId>>,
    /// All tasks in an order that agrees with every worker's and with all edges within a step. An engine that
    /// is given tasks one by one must be given them in this order: a worker may have to execute a task before
    /// one that was recorded earlier, so in the order of recording a limited queue can fill up with tasks
    /// that wait.
    pub sequence: Vec<TaskId>,
    /// Tasks, in ascending order, that a waiting worker with the same memory may take over from the one whose
    /// list they are in. Their place in that list orders nothing: only edges do.
    pub floating: Vec<TaskId>,
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

    /// Whether waiting workers may take over this task.
    pub fn is_floating(&self, task: TaskId) -> bool {
        self.floating.binary_search(&task).is_ok()
    }
}

/// Whether tasks may float.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Floats {
    Some,
    None,
}

/// Places the tasks of a graph on `n_workers` workers.
pub(super) fn place(lowered: &Lowered, n_workers: usize, floats: Floats) -> Placement {
    let n_tasks = lowered.tasks.len();
    let mut missing = vec![0_u32; n_tasks];
    let mut successors = vec![Vec::new(); n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        missing[edge.to as usize] += 1;
        successors[edge.from as usize].push(edge.to);
    }
    let worker_of = |task: &Task| task.home(n_workers);
    let mut waits = vec![false; n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        let (from, to) = (edge.from as usize, edge.to as usize);
        waits[to] |= worker_of(&lowered.tasks[from]) != worker_of(&lowered.tasks[to]);
    }
    let floating = match floats {
        Floats::Some if n_workers > 1 => floating(lowered, &successors, &waits, n_workers, worker_of),
        _ => Vec::new(),
    };
    // Of the ready tasks of a worker, the most urgent goes first, then what does not float and waits for
    // nobody, of these the earliest tile, then the earliest recorded; at last what needs others.
    let key = |id: TaskId| {
        let task = &lowered.tasks[id as usize];
        let floats = floating.binary_search(&id).is_ok();
        let place = scaled(task.position, PER_MILLE);
        (Reverse(task.priority), waits[id as usize], floats, place, id)
    };
    let mut ready = vec![BinaryHeap::new(); n_workers];
    for id in 0..n_tasks as TaskId {
        if missing[id as usize] == 0 {
            ready[worker_of(&lowered.tasks[id as usize])].push(Reverse(key(id)));
        }
    }
    let mut order = vec![Vec::new(); n_workers];
    let mut sequence = Vec::with_capacity(n_tasks);
    let mut busy = vec![0.0_f64; n_workers];
    // The worker with the least work so far moves next; a task is ready once its predecessors are in the
    // sequence.
    while let Some(worker) =
        (0..n_workers).filter(|&w| !ready[w].is_empty()).min_by(|&a, &b| busy[a].total_cmp(&busy[b]))
    {
        let Some(Reverse((.., id))) = ready[worker].pop() else { continue };
        let task = &lowered.tasks[id as usize];
        busy[worker] += task.estimated_seconds();
        order[worker].push(id);
        sequence.push(id);
        for &next in &successors[id as usize] {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready[worker_of(&lowered.tasks[next as usize])].push(Reverse(key(next)));
            }
        }
    }
    debug_assert_eq!(sequence.len(), n_tasks, "edges within a step go forward");
    Placement { order, sequence, floating }
}

/// The tasks that float, in ascending order.
fn floating(
    lowered: &Lowered,
    successors: &[Vec<TaskId>],
    waits: &[bool],
    n_workers: usize,
    worker_of: impl Fn(&Task) -> usize,
) -> Vec<TaskId> {
    let n_tasks = lowered.tasks.len();
    let mut predecessors = vec![Vec::new(); n_tasks];
    for (id, followers) in successors.iter().enumerate() {
        followers.iter().for_each(|&next| predecessors[next as usize].push(id));
    }
    let worker = |id: usize| worker_of(&lowered.tasks[id]);
    let mut floats = vec![false; n_tasks];
    // What is not urgent on its own worker: only tasks that wait come after it.
    let is_loose = |id: usize| {
        let mut followers = successors[id].iter().map(|&next| next as usize);
        !predecessors[id].is_empty() && !waits[id] && followers.all(|next| waits[next])
    };
    let task = |id: usize| &lowered.tasks[id];
    let is_candidate = |&id: &usize| is_loose(id) && flops_per_byte(task(id)) >= FLOPS_PER_BYTE;
    let mut loose: Vec<usize> = (0..n_tasks).filter(is_candidate).collect();
    // What computes most for what it reads first: whatever another core has read, its own must fetch back to
    // write it again in the next step. Of tasks alike the last, whose inputs need not be kept for long.
    loose.sort_by(|&a, &b| {
        let mobility = flops_per_byte(task(b)).total_cmp(&flops_per_byte(task(a)));
        mobility.then(task(b).tile.0.cmp(&task(a).tile.0))
    });
    let mut spare = vec![0.0; n_workers];
    for (id, task) in lowered.tasks.iter().enumerate() {
        spare[worker(id)] += FLOATING_SHARE * task.estimated_seconds();
    }
    let mut room = vec![FLOATING_BYTES; n_workers];
    for id in loose {
        let (spare, needed) = (&mut spare[worker(id)], task(id).estimated_seconds());
        let (room, kept) = (&mut room[worker(id)], bytes_read(task(id)));
        floats[id] = needed <= *spare && kept <= *room;
        if floats[id] {
            *spare -= needed;
            *room -= kept;
        }
    }
    // What collects from others is no more at home on its own worker than elsewhere; so is what follows it.
    for id in 0..n_tasks {
        let is_from_elsewhere = |&&from: &&usize| worker(from) != worker(id) || floats[from];
        let n_from_elsewhere = predecessors[id].iter().filter(is_from_elsewhere).count();
        floats[id] |= waits[id] && 2 * n_from_elsewhere >= predecessors[id].len();
    }
    (0..n_tasks as TaskId).filter(|&id| floats[id as usize]).collect()
}

/// What a task reads.
fn bytes_read(task: &Task) -> usize {
    let read = task.accesses.iter().filter(|access| access.reads).map(|access| access.range.len());
    read.fold(0, usize::saturating_add)
}

/// What a task computes for each byte that it reads.
fn flops_per_byte(task: &Task) -> f64 {
    task.flops / bytes_read(task).max(1) as f64
}

/// How much of a worker's work may float. On the virtual clock, with a core half as fast as the other, `seed`
/// took a fifth longer with two thirds of this, and the faster core waited for a quarter of the time.
const FLOATING_SHARE: f64 = 0.45;
/// How much a worker's floating tasks may read. Nobody knows when they are executed, so all of it is kept
/// until the end of the step, beside the chunk at hand: with large images, chunk after chunk would have
/// memory of its own. Without this limit, `vggish` kept the activations of every chunk: 62 MiB instead of 36
/// for 64 images, 204 instead of 73 for 256.
const FLOATING_BYTES: usize = 2 << 20;
/// A task that computes less than this per byte it reads does not float: fetching its inputs from another
/// core would take longer than computing (about 20 GB/s against 80 GFLOP/s), and keeping them costs room in
/// the cache.
const FLOPS_PER_BYTE: f64 = 4.0;

/// Tiles of tasks with different tile counts are compared by their position in the whole.
const PER_MILLE: usize = 1000;
