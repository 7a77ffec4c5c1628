//! Who executes what, in which order: the heuristic placement.
//!
//! Of `W` equal workers, tile `t` of `T` goes to worker `t * W / T`, whatever the task; faster ones get more
//! ([`Shares`](crate::machine::Shares)), and the tiles of each code go to the units that run it. So a chunk
//! of samples stays on one worker from the first layer to the last and back. Each worker takes the first tile
//! as far as it can before it turns to the next, so that a chunk's data stays in its cache. What needs other
//! workers' results comes when there is nothing else to do: no two workers are ever exactly as fast as
//! planned, and waiting in the middle of a chunk costs time that waiting at its end does not.
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

use crate::error::Result;
use crate::graph::{Lowered, Task, TaskId};
use crate::machine::Machine;
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
    /// Tasks, in ascending order, that a waiting worker with the same memory and code may take over from the
    /// one whose list they are in. Their place in that list orders nothing: only edges do.
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

/// Places the tasks of a graph on the units of a machine that run them.
pub(super) fn place(lowered: &Lowered, machine: &Machine, floats: Floats) -> Result<Placement> {
    let (n_tasks, n_workers) = (lowered.tasks.len(), machine.units.len());
    let workers = lowered.homes(machine)?;
    let seconds = |id: usize| lowered.tasks[id].seconds(&machine.kind_of(workers[id]).speed);
    let mut missing = vec![0_u32; n_tasks];
    let mut successors = vec![Vec::new(); n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        missing[edge.to as usize] += 1;
        successors[edge.from as usize].push(edge.to);
    }
    let mut waits = vec![false; n_tasks];
    for edge in lowered.edges.iter().filter(|edge| edge.distance == 0) {
        let (from, to) = (edge.from as usize, edge.to as usize);
        waits[to] |= workers[from] != workers[to];
    }
    let floating = match floats {
        Floats::Some if n_workers > 1 => floating(lowered, machine, &successors, &waits, &workers),
        _ => Vec::new(),
    };
    // Of the ready tasks of a worker, the most urgent goes first, then what does not float and waits for
    // nobody, of these the earliest tile, then the earliest recorded; at last what needs others.
    let key = |id: TaskId| {
        let task = &lowered.tasks[id as usize];
        let floats = floating.binary_search(&id).is_ok();
        let place = per_mille(task.position);
        (Reverse(task.priority), waits[id as usize], floats, place, id)
    };
    let mut ready = vec![BinaryHeap::new(); n_workers];
    for id in 0..n_tasks as TaskId {
        if missing[id as usize] == 0 {
            ready[workers[id as usize]].push(Reverse(key(id)));
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
        busy[worker] += seconds(id as usize);
        order[worker].push(id);
        sequence.push(id);
        for &next in &successors[id as usize] {
            missing[next as usize] -= 1;
            if missing[next as usize] == 0 {
                ready[workers[next as usize]].push(Reverse(key(next)));
            }
        }
    }
    debug_assert_eq!(sequence.len(), n_tasks, "edges within a step go forward");
    Ok(Placement { order, sequence, floating })
}

/// The tasks that float, in ascending order.
fn floating(
    lowered: &Lowered,
    machine: &Machine,
    successors: &[Vec<TaskId>],
    waits: &[bool],
    workers: &[usize],
) -> Vec<TaskId> {
    let n_tasks = lowered.tasks.len();
    let mut predecessors = vec![Vec::new(); n_tasks];
    for (id, followers) in successors.iter().enumerate() {
        followers.iter().for_each(|&next| predecessors[next as usize].push(id));
    }
    let speed = |worker: usize| machine.kind_of(worker).speed;
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
    let mut spare = vec![0.0; machine.units.len()];
    for (task, &worker) in lowered.tasks.iter().zip(workers) {
        spare[worker] += FLOATING_SHARE * task.seconds(&speed(worker));
    }
    let room = |worker: usize| speed(worker).cache_bytes.saturating_mul(FLOATING_CACHES) as usize;
    let mut room: Vec<usize> = (0..machine.units.len()).map(room).collect();
    for id in loose {
        let worker = workers[id];
        let (spare, needed) = (&mut spare[worker], task(id).seconds(&speed(worker)));
        let (room, kept) = (&mut room[worker], bytes_read(task(id)));
        floats[id] = needed <= *spare && kept <= *room;
        if floats[id] {
            *spare -= needed;
            *room -= kept;
        }
    }
    // What collects from others is no more at home on its own worker than elsewhere; so is what follows it.
    for id in 0..n_tasks {
        let is_from_elsewhere = |&&from: &&usize| workers[from] != workers[id] || floats[from];
        let n_from_elsewhere = predecessors[id].iter().filter(is_from_elsewhere).count();
        floats[id] |= waits[id] && 2 * n_from_elsewhere >= predecessors[id].len();
    }
    // Only units that run the same code take tasks over.
    let has_peer = |worker: usize| {
        let code = &machine.kind_of(worker).code;
        (0..machine.units.len()).any(|other| other != worker && machine.runs(other, code))
    };
    let peers: Vec<bool> = (0..machine.units.len()).map(has_peer).collect();
    floats.iter_mut().zip(workers).for_each(|(floats, &worker)| *floats &= peers[worker]);
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
/// How many times what its caches hold a worker's floating tasks may read. Nobody knows when they are
/// executed, so all of it is kept until the end of the step, beside the chunk at hand: with large images,
/// chunk after chunk would have memory of its own. Without this limit, `vggish` kept the activations of every
/// chunk: 62 MiB instead of 36 for 64 images, 204 instead of 73 for 256.
const FLOATING_CACHES: u64 = 2;
/// A task that computes less than this per byte it reads does not float: fetching its inputs from another
/// core would take longer than computing (about 20 GB/s against 80 GFLOP/s), and keeping them costs room in
/// the cache.
const FLOPS_PER_BYTE: f64 = 4.0;

/// Where a tile lies in the whole, by which tiles of tasks with different tile counts are compared.
fn per_mille((place, whole): (usize, usize)) -> usize {
    // Places may be bytes of a large array, so the product may not fit the type.
    (place as u128 * 1000 / whole.max(1) as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Kind;

    #[test]
    fn whoever_is_faster_gets_more() {
        let tasks = (0..12).map(|tile| Task { flops: 1e6, ..Task::untouching((tile, 12)) }).collect();
        let lowered = Lowered { tasks, depth: 1, ..Lowered::default() };
        let machine = Machine::with_workers(3).with_kind(1, Kind::cpu().named("fast").times_as_fast(2.0));
        for floats in [Floats::Some, Floats::None] {
            let placement = place(&lowered, &machine, floats).unwrap();
            assert_eq!(placement.order, [vec![0, 1, 2], vec![3, 4, 5, 6, 7, 8], vec![9, 10, 11]]);
            // Whoever would be free first moves next.
            assert_eq!(placement.sequence[..4], [0, 3, 9, 4]);
        }
    }

    #[test]
    fn tasks_go_to_units_that_run_their_code() {
        let other = Kind { code: "other".to_string(), ..Kind::cpu().named("other") };
        let task =
            |position: (usize, usize), code| Task { code, position, ..Task::untouching((position.0, 9)) };
        let cores = (0..6).map(|tile| task((tile, 6), "cpu"));
        let tasks = cores.chain((0..3).map(|tile| task((tile, 3), "other"))).collect();
        let lowered = Lowered { tasks, depth: 1, ..Lowered::default() };
        let machine = Machine::with_workers(3).with_kind(1, other);
        for floats in [Floats::Some, Floats::None] {
            let placement = place(&lowered, &machine, floats).unwrap();
            assert_eq!(placement.order, [[0, 1, 2], [6, 7, 8], [3, 4, 5]]);
        }
        let error = place(&lowered, &Machine::with_workers(3), Floats::Some).unwrap_err().to_string();
        assert!(error.contains("no unit of this machine runs"), "{error}");
    }
}
