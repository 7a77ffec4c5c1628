//! Units that finish later: what the thread that drives a device gives it, and what it hears of it.
//!
//! The device executes in order what it is given, so a node may follow others of the same list that have not
//! ended. What is copied elsewhere, which only a plan without a link asks of this unit, is not the device's
//! to order: it is done when the device has ended what it has. `../README.md` says why that suffices.

#![expect(unsafe_code, reason = "hands addresses to devices")]

use super::copying::copy_out;
use super::{Addresses, BoundGraph, PlannedReplicas, Replication};
use crate::engine::device::{Backlog, Devices, Event, Given, Launch};
use crate::error::{Error, Result};
use crate::graph::{Block, Lowered, Task, TaskId};
use crate::machine::{Machine, MemoryId};
use crate::plan::{Copy, Order, Plan};
use crate::progress::{Outcome, Stale};
use crate::sync::atomic::Ordering;
use crate::sync::thread;
use std::ptr;

/// How many nodes a device has under way. Where the order is planned, what is given early to it is its own
/// anyway. Where it is open, others could have taken what it has not begun, so it has one to go on with.
const PLANNED_DEPTH: usize = 16;
const OPEN_DEPTH: usize = 2;

/// A unit that finishes later.
pub(super) struct Later {
    backlog: Backlog,
    /// The tasks that the unit may execute.
    launches: Vec<Option<Box<dyn Launch>>>,
}

impl Later {
    /// What each worker has that is a device: all tasks that it may execute are made ready. Nothing if there
    /// is none.
    pub fn of_workers(
        lowered: &Lowered,
        plan: &Plan,
        machine: &Machine,
        devices: &Devices,
    ) -> Result<Vec<Option<Later>>> {
        let mut later = Vec::new();
        for (unit, device) in devices.all() {
            let (depth, workers, most_copies) = match plan.order() {
                Order::Planned(placement) => (PLANNED_DEPTH, Some(placement.workers()), 0),
                Order::Open(_) => {
                    let n_uses = lowered.blocks().uses.iter().map(Vec::len).max();
                    (OPEN_DEPTH, None, 2 * n_uses.unwrap_or(0))
                }
            };
            // Where the order is open, that is everything in its code.
            let executes = |id: usize, task: &Task| match &workers {
                Some(workers) => workers.get(id) == Some(&unit),
                None => machine.runs(unit, task.code),
            };
            let ready = |(id, task): (usize, &Task)| {
                let of_task = |error: Error| {
                    error.in_task(format!("{task:?}")).of_codelet(task.codelet).on_worker(unit)
                };
                executes(id, task).then(|| device.prepare(task).map_err(of_task)).transpose()
            };
            let launches = lowered.tasks.iter().enumerate().map(ready).collect::<Result<_>>()?;
            later.resize_with(machine.units.len(), || None);
            later[unit] = Some(Later { backlog: Backlog::new(device, depth, most_copies), launches });
        }
        Ok(later)
    }
}

impl BoundGraph {
    #[inline(always)]
    fn later(&self, worker: usize) -> Option<&Later> {
        self.later.get(worker)?.as_ref()
    }

    /// Whether a worker finishes later what it is given.
    #[inline(always)]
    pub fn is_later(&self, worker: usize) -> bool {
        self.later(worker).is_some()
    }

    /// Whether a worker can be given one more node. A thread that asks has nothing else to do.
    #[inline(always)]
    pub fn has_room(&self, worker: usize) -> bool {
        self.later(worker).is_none_or(|later| later.backlog.has_room())
    }

    /// Whether something that a worker was given has not ended.
    #[inline(always)]
    pub fn is_busy(&self, worker: usize) -> bool {
        self.later(worker).is_some_and(|later| !later.backlog.is_empty())
    }

    /// Gives a node to a worker that finishes later. After a failure it is passed over.
    ///
    /// # Safety
    /// As for [`BoundGraph::execute`], except that nodes of the same list that this worker was given before
    /// need not have ended.
    #[cold]
    pub unsafe fn enqueue(&self, worker: usize, node: TaskId, step: u64) -> Outcome {
        let Some(later) = self.later(worker).filter(|_| !self.runner.has_failed()) else {
            return Outcome::Done;
        };
        if let Replication::OnDemand(coherence) = &self.replication {
            let version = |buffer: usize, age| self.versions[buffer].number(step, age);
            coherence.prepare(node as usize, self.memory_of[worker], version, |stale| {
                let Stale { number, block, version, from, to } = stale;
                // Who used the target has ended, so nothing that the device has must end before.
                let ends = (from, to);
                let event = self.copy(worker, later, block, version, ends, false);
                self.give(worker, later, Given::Fetch { block: number, from }, step, event);
            });
        }
        match (node as usize).checked_sub(self.places.len()) {
            None => {
                let event = self.launch(worker, later, node as usize, step);
                self.give(worker, later, Given::Task(node), step, event);
            }
            Some(copy) => {
                let &Copy { block: number, age, from, to, .. } = &self.copies[copy];
                let Replication::Planned(PlannedReplicas { blocks, .. }) = &self.replication else {
                    return Outcome::Done;
                };
                let block = &blocks.blocks[number];
                let version = self.versions[block.buffer].number(step, age);
                let event = self.copy(worker, later, block, version, (from, to), true);
                self.give(worker, later, Given::Copy { node, block: number, from }, step, event);
            }
        }
        Outcome::Later
    }

    /// Notes what a device was given. If that failed, it ends with what was given before.
    fn give(&self, worker: usize, later: &Later, given: Given, step: u64, event: Result<Option<Event>>) {
        let event = event.unwrap_or_else(|error| {
            self.fail_later(worker, given, step, error);
            // A device that cannot even record does nothing any more.
            later.backlog.device().record().ok()
        });
        later.backlog.push(self.runner.recorder(worker), given, step, event);
    }

    /// Enqueues a task.
    fn launch(&self, worker: usize, later: &Later, task: usize, step: u64) -> Result<Option<Event>> {
        let Some(launch) = &later.launches[task] else {
            unreachable!("what a device may execute was made ready when the graph was bound")
        };
        let scratch = self.scratch[worker].address.load(Ordering::Relaxed);
        // SAFETY: we are on the thread of `worker`, and a launch does not come back here. The addresses are
        // valid for their tiles, in the device's memory, and whoever else uses what is there has ended or
        // was enqueued before: our caller has waited for all other edges. The scratch is this worker's, whose
        // tasks come one after the other. Memory and task stay until all has ended, since the run does not
        // end before, and what is given up is kept.
        unsafe {
            self.addresses.with(worker, |Addresses(addresses)| {
                self.locate(&self.places[task], self.memory_of[worker], step, addresses);
                launch.launch(addresses, scratch, step)
            })?;
        }
        later.backlog.device().record().map(Some)
    }

    /// Enqueues a copy to the memory of a device, or makes one to another memory, `after` what the device has
    /// or beside it. No event means that it has ended.
    fn copy(
        &self,
        worker: usize,
        later: &Later,
        block: &Block,
        version: usize,
        (from, to): (MemoryId, MemoryId),
        after: bool,
    ) -> Result<Option<Event>> {
        let device = later.backlog.device();
        let (source, target) = self.ends(block, version, (from, to));
        let bytes = block.range.len();
        // SAFETY: both lie in buffers of different memories that are at least `range.end` long. The source
        // was written by somebody who has ended, or by what this device was given before, and is only read by
        // others. Whoever used the target has ended or was enqueued before; where the copy is not enqueued,
        // all of that has ended.
        unsafe {
            match self.devices.of(from) {
                None if to == self.memory_of[worker] => device.copy_in(source, target, bytes)?,
                Some(other) if to == self.memory_of[worker] => {
                    device.copy_from(&**other, source, target, bytes)?;
                }
                other => {
                    if after {
                        device.record().and_then(|event| device.wait(event))?;
                    }
                    match other {
                        Some(other) => copy_out(&**other, source, target, bytes)?,
                        None => ptr::copy_nonoverlapping(source, target, bytes),
                    }
                    return Ok(None);
                }
            }
        }
        device.record().map(Some)
    }

    /// Tells which nodes of a worker have ended since the last time, in the order in which it was given them.
    /// Returns whether any has.
    pub fn collect(&self, worker: usize, mut ended: impl FnMut(TaskId, u64)) -> bool {
        let Some(later) = self.later(worker) else { return false };
        let mut has_ended = false;
        while let Some((given, step, outcome)) = later.backlog.take_over(self.runner.recorder(worker)) {
            if let Err(error) = outcome {
                self.fail_later(worker, given, step, error);
            }
            if let Some(node) = given.node() {
                ended(node, step);
            }
            has_ended = true;
        }
        if !has_ended && !later.backlog.is_empty() {
            // Somebody else may need this core, perhaps the device itself.
            thread::yield_now();
        }
        has_ended
    }

    #[cold]
    fn fail_later(&self, worker: usize, given: Given, step: u64, error: Error) {
        self.runner.fail(match given.node() {
            Some(node) => self.runner.in_context(error, worker, self.task_of(node) as usize, step),
            None => error.in_step(step).on_worker(worker),
        });
    }

    /// Waits until devices have ended what they were given outside of steps.
    pub fn settle(&self) -> Result<()> {
        let mut settled = Ok(());
        // All of them, also after an error.
        for (_, device) in self.devices.all() {
            let ended = device.record().and_then(|event| device.wait(event));
            settled = settled.and(ended.map(|_| ()));
        }
        settled
    }
}
