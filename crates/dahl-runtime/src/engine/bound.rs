//! A lowered graph made ready to run: its memory, and the addresses of what a task touches.
//!
//! Both ways of running a graph, replay and dynamic, end in [`BoundGraph::execute`], or in
//! [`BoundGraph::enqueue`] where the unit finishes later.

#![expect(unsafe_code, reason = "hands addresses to kernels")]

mod copying;
mod later;

use super::device::Devices;
use super::local::PerWorker;
use super::memory::{Abandoned, Store};
use super::planned::{PlannedReplicas, memories};
use super::runner::Runner;
use super::workspace::{Lease, Workspace};
use crate::bytes::ALIGN;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Buffer, BufferKind, Lowered, Place, StateId, TaskId};
use crate::machine::{HOST, Machine, MemoryId, Unit};
use crate::plan::{Copy, MemoryPlan, Order, Plan};
use crate::progress::{Coherence, Stale};
use crate::shape::Dtype;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use later::Later;
use std::ptr;

/// Room for the addresses of one call.
struct Addresses(Vec<*mut u8>);

// SAFETY: the addresses are written and used within one call of `execute`.
unsafe impl Send for Addresses {}

/// One memory: where in its arena each buffer lies, and the address of each buffer during a run.
struct Memory {
    /// None where the buffer is the store's.
    offsets: Vec<Option<usize>>,
    addresses: Vec<AtomicPtr<u8>>,
}

/// What the kernels of a worker may use while they run.
struct Scratch {
    /// Where it lies in the arena of the worker's memory.
    offset: usize,
    /// Its first byte, during a run.
    address: AtomicPtr<u8>,
}

impl Scratch {
    /// That of each worker.
    fn of_workers(plan: &Plan, machine: &Machine) -> Vec<Self> {
        let mut n_units = vec![0; machine.memories.len()];
        let mut scratch = |unit: &Unit| {
            let offset = plan.memory(unit.memory).scratch_offset(n_units[unit.memory]);
            n_units[unit.memory] += 1;
            Scratch { offset, address: AtomicPtr::new(ptr::null_mut()) }
        };
        machine.units.iter().map(&mut scratch).collect()
    }
}

/// The versions of a buffer, one after the other in memory, and which of them a step uses. All engines must
/// agree on it: the program finds ports, outputs and state by it.
pub struct Versions {
    /// How many there are.
    count: u64,
    /// Bytes from one to the next; 0 where there is one.
    stride: usize,
    /// Whether every step has its own. What no task writes is the same for all steps.
    pub advances: bool,
    /// The version of step 0, which for state follows from the store at the beginning of a run.
    first: AtomicU64,
    /// The oldest age that a task reads.
    oldest: usize,
}

impl Versions {
    /// The versions of a buffer, which tasks write or not, and read up to this age.
    pub fn new(lowered: &Lowered, buffer: usize, is_written: bool, oldest: usize) -> Self {
        let Buffer { bytes, kind, versions, .. } = lowered.buffers[buffer];
        let stride = if versions == 1 { 0 } else { bytes.next_multiple_of(ALIGN) };
        let advances = is_written || !matches!(kind, BufferKind::State(_));
        Versions { count: versions as u64, stride, advances, first: AtomicU64::new(0), oldest }
    }

    /// A run begins with step `first`, and the newest version is the one that the step before it left.
    pub fn begin(&self, newest: usize, first: u64) {
        let after =
            if self.advances { newest as u64 + 1 + self.count - first % self.count } else { newest as u64 };
        self.first.store(after % self.count, Ordering::Relaxed);
    }

    /// The version that a step uses for what was written `age` steps before.
    #[inline(always)]
    pub fn number(&self, step: u64, age: usize) -> usize {
        if self.stride == 0 {
            return 0;
        }
        let step = if self.advances { step } else { 0 };
        ((step + self.first.load(Ordering::Relaxed) + self.count - age as u64) % self.count) as usize
    }
}

/// Who sees to it that data are where they are needed.
enum Replication {
    /// Nobody: there is one memory.
    Alone,
    /// Whoever needs them.
    OnDemand(Coherence),
    /// The plan.
    Planned(PlannedReplicas),
}

/// A lowered graph with its memory.
pub(super) struct BoundGraph {
    pub runner: Runner,
    /// Where the arguments of each task lie.
    places: Vec<Vec<Place>>,
    kinds: Vec<BufferKind>,
    dtypes: Vec<Dtype>,
    /// Whether any task writes a buffer.
    is_written: Vec<bool>,
    /// Bytes of each buffer's version.
    sizes: Vec<usize>,
    versions: Vec<Versions>,
    memories: Vec<Memory>,
    /// The arenas.
    workspace: Workspace,
    memory_of: Vec<MemoryId>,
    devices: Devices,
    /// What each worker has that finishes later; nothing where none does.
    later: Vec<Option<Later>>,
    /// What is copied in a planned order.
    copies: Vec<Copy>,
    replication: Replication,
    /// What each worker has beside the buffers.
    scratch: Vec<Scratch>,
    /// Room for the addresses of what each worker calls.
    addresses: PerWorker<Addresses>,
    /// What a run that was given up worked on: a kernel may still be using it.
    kept: Mutex<Vec<Abandoned>>,
}

impl BoundGraph {
    /// Makes room for what the plan asks for in every memory of the machine.
    pub fn new(
        lowered: &Lowered,
        plan: &Plan,
        (machine, devices): (&Machine, &Devices),
        trace_capacity: usize,
        workspace: &Workspace,
    ) -> Result<Self> {
        plan.check_scratch(lowered, machine)?;
        let (units, n_memories) = (&machine.units, machine.memories.len());
        let memory = |plan: &MemoryPlan| {
            let offsets = plan.offsets.clone();
            let addresses = offsets.iter().map(|_| AtomicPtr::new(ptr::null_mut())).collect();
            Memory { offsets, addresses }
        };
        let memories = plan.memories().iter().map(memory).collect();
        let bytes: Vec<usize> = plan.memories().iter().map(|memory| memory.bytes).collect();
        workspace.reserve_on(&bytes, devices)?;
        let later = Later::of_workers(lowered, plan, machine, devices)?;
        let (mut is_written, mut oldest) =
            (vec![false; lowered.buffers.len()], vec![0; lowered.buffers.len()]);
        for access in lowered.tasks.iter().flat_map(|task| &task.accesses) {
            is_written[access.buffer] |= access.writes;
            oldest[access.buffer] = access.age.max(oldest[access.buffer]);
        }
        let versions = |buffer: usize| Versions::new(lowered, buffer, is_written[buffer], oldest[buffer]);
        let versions = (0..lowered.buffers.len()).map(versions).collect();
        let max_args = lowered.tasks.iter().map(|task| task.places.len()).max().unwrap_or(0);
        Ok(BoundGraph {
            runner: Runner::new(lowered, machine, trace_capacity),
            places: lowered.tasks.iter().map(|task| task.places.clone()).collect(),
            kinds: lowered.buffers.iter().map(|buffer| buffer.kind).collect(),
            dtypes: lowered.buffers.iter().map(|buffer| buffer.dtype).collect(),
            is_written,
            sizes: lowered.buffers.iter().map(|buffer| buffer.bytes).collect(),
            versions,
            memories,
            workspace: workspace.clone(),
            memory_of: units.iter().map(|unit| unit.memory).collect(),
            devices: devices.clone(),
            later,
            copies: plan.copies().to_vec(),
            replication: match (plan.order(), n_memories) {
                (_, 1) => Replication::Alone,
                (Order::Planned(_), _) => Replication::Planned(PlannedReplicas::new(lowered, plan, machine)),
                (Order::Open(_), _) => {
                    Replication::OnDemand(Coherence::new(lowered).where_visible(devices.visible()))
                }
            },
            scratch: Scratch::of_workers(plan, machine),
            addresses: PerWorker::new(units.len(), |_| Addresses(Vec::with_capacity(max_args))),
            kept: Mutex::new(Vec::new()),
        })
    }

    /// Points the state buffers at the store's arrays, and all others into the workspace, for a run that
    /// begins with step `first`.
    ///
    /// The caller keeps the store exclusively borrowed, and the lease, until the run is over.
    pub fn bind(&self, store: &mut Store, first: u64) -> Result<Lease> {
        let bound = self.bind_memory(store, first);
        // Devices may still be reading what the store has, also after an error.
        let settled = self.settle();
        let lease = bound?;
        settled.map(|()| lease)
    }

    fn bind_memory(&self, store: &mut Store, first: u64) -> Result<Lease> {
        for (i, kind) in self.kinds.iter().enumerate() {
            let BufferKind::State(id) = *kind else { continue };
            if self.is_written[i] {
                store.own(id)?;
            }
            let is_same = store.dtype(id) == Some(self.dtypes[i])
                && store.versions(id) as u64 == self.versions[i].count;
            match store.raw(id) {
                Some((pointer, bytes)) if is_same && bytes == self.sizes[i] => {
                    self.memories[HOST].addresses[i].store(pointer, Ordering::Relaxed);
                    self.versions[i].begin(store.newest(id), first);
                    self.bind_replicas(store, i, id)?;
                }
                _ if store.is_lost() => {
                    let message =
                        "the arrays of the store were lost with a run that was given up: make a new store";
                    return Err(Error::new(ErrorKind::Usage, message));
                }
                _ => return Err(Error::new(ErrorKind::Usage, "the graph was recorded for another store")),
            }
        }
        let lease = self.workspace.enter(|memory, base| {
            // The workspace may have memories that only others need.
            let Some(Memory { offsets, addresses }) = self.memories.get(memory) else { return };
            for (offset, address) in offsets.iter().zip(addresses) {
                if let Some(offset) = offset {
                    address.store(base.wrapping_add(*offset), Ordering::Relaxed);
                }
            }
            let workers = self.scratch.iter().zip(&self.memory_of).filter(|(_, of)| **of == memory);
            for (Scratch { offset, address }, _) in workers {
                address.store(base.wrapping_add(*offset), Ordering::Relaxed);
            }
        })?;
        self.clear_past(first)?;
        Ok(lease)
    }

    /// Points a state buffer at its replicas in other memories, where everything that is not valid is copied
    /// at once (in a planned order) or when it is needed.
    fn bind_replicas(&self, store: &mut Store, buffer: usize, id: StateId) -> Result<()> {
        let used = match &self.replication {
            Replication::Alone => return Ok(()),
            Replication::OnDemand(_) => u32::MAX,
            Replication::Planned(planned) => planned.used[buffer],
        };
        for (memory, Memory { addresses, .. }) in self.memories.iter().enumerate().skip(1) {
            if used >> memory & 1 == 1 {
                let replica = store.replica_on(id, memory, self.devices.of(memory))?;
                addresses[buffer].store(replica, Ordering::Relaxed);
            }
        }
        match &self.replication {
            Replication::Alone => {}
            Replication::OnDemand(coherence) => {
                let n_memories = self.memories.len();
                coherence.begin_buffer(buffer, |memory, version, range| {
                    memory < n_memories && store.is_valid(id, memory, version, range)
                });
            }
            Replication::Planned(PlannedReplicas { blocks, begin, .. }) => {
                for number in blocks.of_buffer[buffer].clone() {
                    let block = &blocks.blocks[number];
                    for memory in memories(begin[number] & !(1 << HOST)) {
                        for version in 0..self.versions[buffer].count as usize {
                            if !store.is_valid(id, memory, version, &block.range) {
                                self.transfer(
                                    self.worker_in(memory),
                                    number,
                                    block,
                                    version,
                                    (HOST, memory),
                                    0,
                                );
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Somebody who computes in a memory, to record copies by.
    fn worker_in(&self, memory: MemoryId) -> usize {
        self.memory_of.iter().position(|&of| of == memory).unwrap_or_else(|| self.runner.program())
    }

    /// Makes zero what steps before the first one of a run left, as far as it is read and not state.
    fn clear_past(&self, first: u64) -> Result<()> {
        for (buffer, versions) in self.versions.iter().enumerate() {
            if versions.oldest == 0 || matches!(self.kinds[buffer], BufferKind::State(_)) {
                continue;
            }
            for age in 1..=versions.oldest {
                let version = versions.number(first, age);
                for (memory, Memory { offsets, .. }) in self.memories.iter().enumerate() {
                    if offsets[buffer].is_none() {
                        continue;
                    }
                    let (at, bytes) = (self.address(memory, buffer, version), self.sizes[buffer]);
                    // SAFETY: the version lies in the arena of this memory, which has room for it, and no
                    // task runs.
                    unsafe {
                        match self.devices.of(memory) {
                            Some(device) => device.clear(at, bytes)?,
                            None => at.write_bytes(0, bytes),
                        }
                    }
                }
                if let Replication::OnDemand(coherence) = &self.replication {
                    coherence.own_buffer(buffer, version);
                }
            }
        }
        Ok(())
    }

    /// Tells the store that so many steps of a run have written their versions of the state.
    pub fn advance_state(&self, store: &mut Store, steps: u64) {
        for (kind, versions) in self.kinds.iter().zip(&self.versions) {
            if let BufferKind::State(id) = *kind
                && versions.advances
            {
                store.advance(id, steps);
            }
        }
    }

    /// Keeps the memory of a store for kernels that may still be using it.
    pub fn keep(&self, memory: Abandoned) {
        lock(&self.kept).push(memory);
    }

    /// First byte of a version of a buffer.
    #[inline(always)]
    fn address(&self, memory: MemoryId, buffer: usize, version: usize) -> *mut u8 {
        let first = self.memories[memory].addresses[buffer].load(Ordering::Relaxed);
        first.wrapping_add(version * self.versions[buffer].stride)
    }

    /// The task that a node is, or that a copy is made before.
    pub fn task_of(&self, node: TaskId) -> TaskId {
        match (node as usize).checked_sub(self.places.len()) {
            Some(copy) => self.copies[copy].before,
            None => node,
        }
    }

    /// Calls `each` with what a task of a step reads and is not in a memory: where it is, and its bytes.
    pub fn missing(&self, task: usize, step: u64, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize)) {
        if let Replication::OnDemand(coherence) = &self.replication {
            coherence.missing(task, memory, |buffer, age| self.versions[buffer].number(step, age), each);
        }
    }

    /// Executes a task of a step on a worker, or makes a copy of the plan, whose number follows the last
    /// task's. After a failure, both are passed over.
    ///
    /// # Safety
    /// Must be called on the thread of `worker`, during a run for which `bind` succeeded, when everything
    /// that the node depends on (data and memory edges) has happened before.
    #[inline]
    pub unsafe fn execute(&self, worker: usize, node: usize, step: u64) {
        if self.runner.has_failed() {
            return;
        }
        let memory = self.memory_of[worker];
        if let Replication::OnDemand(coherence) = &self.replication {
            let version = |buffer: usize, age| self.versions[buffer].number(step, age);
            coherence.prepare(node, memory, version, |Stale { number, block, version, from, to }| {
                self.transfer(worker, number, block, version, (from, to), step);
            });
        }
        let Some(places) = self.places.get(node) else {
            return self.execute_copy(worker, node - self.places.len(), step);
        };
        // SAFETY: we are on the thread of `worker`, and kernels do not come back here. The addresses are
        // valid for their tiles: lowering made the buffers large enough and the memory plan gave them room.
        // Accesses are exclusive where they write: our caller has waited for all edges. The scratch of this
        // worker is as large as any task needs that it may execute, by the plan.
        unsafe {
            self.addresses.with(worker, |Addresses(addresses)| {
                self.locate(places, memory, step, addresses);
                let scratch = self.scratch[worker].address.load(Ordering::Relaxed);
                self.runner.call(worker, node, step, addresses, scratch);
            });
        }
    }

    /// Finds where arguments lie in a memory for a step.
    #[inline(always)]
    fn locate(&self, places: &[Place], memory: MemoryId, step: u64, addresses: &mut Vec<*mut u8>) {
        addresses.clear();
        let of = |place: &Place| {
            let version = self.versions[place.buffer].number(step, place.age);
            self.address(memory, place.buffer, version).wrapping_add(place.offset)
        };
        addresses.extend(places.iter().map(of));
    }
}
