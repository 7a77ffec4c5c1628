//! Which tasks find their inputs in their worker's caches.
//!
//! A worker executes its list in order, so what it touched between two uses of a buffer is known before the
//! run. If that is less than its caches hold, and nobody else wrote the buffer meanwhile, the second use is
//! *warm*. It is a coarse picture of a cache, good enough to tell two kinds of executions apart whose times
//! differ.

use super::{Order, Plan};
use crate::graph::{Lowered, TaskId};
use crate::machine::Machine;

impl Plan {
    /// For each task, whether less than half of what it reads is in its worker's caches. Where the order is
    /// open nobody knows, and all tasks are cold.
    pub fn cold(&self, lowered: &Lowered, machine: &Machine) -> Vec<bool> {
        let n_tasks = lowered.tasks().len();
        let Order::Planned(placement) = &self.order else { return vec![true; n_tasks] };
        let (workers, n_workers) = (placement.workers(), placement.order.len());
        let mut cold = vec![false; n_tasks];
        // Bytes that each worker has touched so far, and what that was when it last touched each buffer.
        let mut touched = vec![0_u64; n_workers];
        let mut holders = vec![Vec::new(); lowered.buffers().len()];
        // Steps follow each other, so the second one shows what a step finds.
        for _ in 0..2 {
            for &id in &placement.sequence {
                let worker = workers[id as usize];
                let cache_bytes = machine.kind_of(worker).speed.cache_bytes;
                cold[id as usize] = step(lowered, id, (worker, cache_bytes), &mut touched, &mut holders);
            }
        }
        cold
    }
}

/// Who has touched a buffer since it was last written, the writer included: the worker, and the bytes that it
/// had touched then. They are few, however many workers there are.
type Holders = Vec<(usize, u64)>;

/// Executes a task on a worker with caches of this size, and says whether it was cold.
fn step(
    lowered: &Lowered,
    id: TaskId,
    (worker, cache_bytes): (usize, u64),
    touched: &mut [u64],
    holders: &mut [Holders],
) -> bool {
    let task = &lowered.tasks()[id as usize];
    let (mut read, mut near) = (0, 0);
    for access in &task.accesses {
        let bytes = match task.gathered.iter().find(|gathered| gathered.arg == access.arg) {
            // Other elements of it each time.
            Some(gathered) => {
                read = u64::saturating_add(read, gathered.bytes as u64);
                touched[worker] = touched[worker].saturating_add(gathered.bytes as u64);
                continue;
            }
            None => access.range.len() as u64,
        };
        let holders = &mut holders[access.buffer];
        let own = holders.iter().position(|(holder, _)| *holder == worker);
        if access.reads {
            read = read.saturating_add(bytes);
            let is_near = own.is_some_and(|own| touched[worker] - holders[own].1 <= cache_bytes);
            near = u64::saturating_add(near, if is_near { bytes } else { 0 });
        }
        touched[worker] = touched[worker].saturating_add(bytes);
        let now = (worker, touched[worker]);
        match own {
            _ if access.writes => {
                holders.clear();
                holders.push(now);
            }
            Some(own) => holders[own] = now,
            None => holders.push(now),
        }
    }
    near < read.div_ceil(2)
}
