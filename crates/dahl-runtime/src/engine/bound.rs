//! A lowered graph made ready to run: its memory, and the addresses of what a task touches.
//!
//! Both ways of running a graph, replay and dynamic, end in [`BoundGraph::execute`].

#![expect(unsafe_code, reason = "hands addresses to kernels and copies between memories")]

use super::coherence::Coherence;
use super::local::PerWorker;
use super::memory::{Held, Store};
use super::runner::Runner;
use super::workspace::{Lease, Workspace};
use crate::bytes::ALIGN;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Block, BufferKind, Lowered, Place};
use crate::machine::{HOST, Machine, MemoryId};
use crate::plan::MemoryPlan;
use crate::shape::Dtype;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Mutex, lock};
use crate::trace::recorder::Taken;
use std::ptr;

/// Room for the addresses of one call.
struct Addresses(Vec<*mut u8>);

// SAFETY: the addresses are scratch space that is filled and used within one call of `execute`.
unsafe impl Send for Addresses {}

/// One memory: where in its arena each buffer lies, and the address of each buffer during a run.
struct Memory {
    /// None where the buffer is the store's.
    offsets: Vec<Option<usize>>,
    addresses: Vec<AtomicPtr<u8>>,
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
    /// Bytes from one version of a buffer to the next; 0 where there is one version.
    strides: Vec<usize>,
    depth: u64,
    memories: Vec<Memory>,
    /// The arenas.
    workspace: Workspace,
    memory_of: Vec<MemoryId>,
    coherence: Option<Coherence>,
    scratch: PerWorker<Addresses>,
    /// What a run that was given up worked on: a kernel may still be using it.
    kept: Mutex<Vec<Held>>,
}

impl BoundGraph {
    /// Makes room for what the plan asks for in every memory of the machine.
    pub fn new(
        lowered: &Lowered,
        plan: &MemoryPlan,
        machine: &Machine,
        trace_capacity: usize,
        workspace: &Workspace,
    ) -> Result<Self> {
        let (units, n_memories) = (&machine.units, machine.memories.len());
        let (mut memories, mut bytes) = (Vec::new(), Vec::new());
        for memory in 0..n_memories {
            // Other memories than the host's also need room for copies of the state.
            let mut end = plan.bytes;
            let mut offsets = plan.offsets.clone();
            for (offset, buffer) in offsets.iter_mut().zip(&lowered.buffers) {
                if offset.is_none() && memory != HOST {
                    *offset = Some(end);
                    end += buffer.bytes.next_multiple_of(ALIGN);
                }
            }
            let addresses = offsets.iter().map(|_| AtomicPtr::new(ptr::null_mut())).collect();
            memories.push(Memory { offsets, addresses });
            bytes.push(end);
        }
        workspace.reserve(&bytes)?;
        let stride = |buffer: usize| match lowered.buffers[buffer].kind {
            BufferKind::Ring => lowered.buffers[buffer].bytes.next_multiple_of(ALIGN),
            _ => 0,
        };
        let mut is_written = vec![false; lowered.buffers.len()];
        let accesses = lowered.tasks.iter().flat_map(|task| &task.accesses);
        accesses.filter(|access| access.writes).for_each(|access| is_written[access.buffer] = true);
        let max_args = lowered.tasks.iter().map(|task| task.places.len()).max().unwrap_or(0);
        Ok(BoundGraph {
            runner: Runner::new(lowered, units.len(), trace_capacity, n_memories > 1),
            places: lowered.tasks.iter().map(|task| task.places.clone()).collect(),
            kinds: lowered.buffers.iter().map(|buffer| buffer.kind).collect(),
            dtypes: lowered.buffers.iter().map(|buffer| buffer.dtype).collect(),
            is_written,
            sizes: lowered.buffers.iter().map(|buffer| buffer.bytes).collect(),
            strides: (0..lowered.buffers.len()).map(stride).collect(),
            depth: lowered.depth as u64,
            memories,
            workspace: workspace.clone(),
            memory_of: units.iter().map(|unit| unit.memory).collect(),
            coherence: (n_memories > 1).then(|| Coherence::new(lowered)),
            scratch: PerWorker::new(units.len(), |_| Addresses(Vec::with_capacity(max_args))),
            kept: Mutex::new(Vec::new()),
        })
    }

    /// Points the state buffers at the store's arrays, and all others into the workspace.
    ///
    /// The caller keeps the store exclusively borrowed, and the lease, until the run is over.
    pub fn bind(&self, store: &mut Store) -> Result<Lease> {
        for (i, kind) in self.kinds.iter().enumerate() {
            let BufferKind::State(id) = *kind else { continue };
            if self.is_written[i] {
                store.own(id)?;
            }
            let is_same = store.dtype(id) == Some(self.dtypes[i]);
            match store.raw(id) {
                Some((pointer, bytes)) if is_same && bytes == self.sizes[i] => {
                    self.memories[HOST].addresses[i].store(pointer, Ordering::Relaxed);
                }
                _ if store.is_lost() => {
                    let message =
                        "the arrays of the store were lost with a run that was given up: make a new store";
                    return Err(Error::new(ErrorKind::Usage, message));
                }
                _ => return Err(Error::new(ErrorKind::Usage, "the graph was recorded for another store")),
            }
        }
        self.workspace.enter(|memory, base| {
            // The workspace may have memories that only others need.
            let Some(Memory { offsets, addresses }) = self.memories.get(memory) else { return };
            for (offset, address) in offsets.iter().zip(addresses) {
                if let Some(offset) = offset {
                    address.store(base.wrapping_add(*offset), Ordering::Relaxed);
                }
            }
        })
    }

    /// Keeps the memory of a store for kernels that may still be using it.
    pub fn keep(&self, memory: Vec<Held>) {
        lock(&self.kept).extend(memory);
    }

    /// The events of each worker, and of the program, since the last call.
    pub fn take_events(&self) -> Vec<Taken> {
        self.runner.take_events(&self.memory_of)
    }

    /// The memory that a worker computes in.
    pub fn memory_of(&self, worker: usize) -> MemoryId {
        self.memory_of[worker]
    }

    #[inline(always)]
    fn address(&self, memory: MemoryId, buffer: usize, step: u64) -> *mut u8 {
        let stride = self.strides[buffer];
        let version = if stride == 0 { 0 } else { (step % self.depth) as usize * stride };
        self.memories[memory].addresses[buffer].load(Ordering::Relaxed).wrapping_add(version)
    }

    /// Executes a task of a step on a worker. After a failure, tasks are passed over.
    ///
    /// # Safety
    /// Must be called on the thread of `worker`, during a run for which `bind` succeeded, when everything
    /// that the task depends on (data and memory edges) has happened before.
    #[inline]
    pub unsafe fn execute(&self, worker: usize, task: usize, step: u64) {
        if self.runner.has_failed() {
            return;
        }
        let memory = self.memory_of[worker];
        if let Some(coherence) = &self.coherence {
            coherence.prepare(task, step, memory, |number, block, from, step| {
                self.runner.transfer(worker, number, from, step, || self.copy(block, from, memory, step));
            });
        }
        // SAFETY: we are on the thread of `worker`, and kernels do not come back here. The addresses are
        // valid for their tiles: lowering made the buffers large enough and the memory plan gave them room.
        // Accesses are exclusive where they write: our caller has waited for all edges.
        unsafe {
            self.scratch.with(worker, |Addresses(addresses)| {
                addresses.clear();
                let of = |place: &Place| self.address(memory, place.buffer, step).wrapping_add(place.offset);
                addresses.extend(self.places[task].iter().map(of));
                self.runner.call(worker, task, step, addresses);
            });
        }
    }

    fn copy(&self, block: &Block, from: MemoryId, to: MemoryId, step: u64) {
        let source = self.address(from, block.buffer, step).wrapping_add(block.range.start);
        let target = self.address(to, block.buffer, step).wrapping_add(block.range.start);
        // SAFETY: both lie in buffers of different memories that are at least `range.end` long. The source is
        // valid and only read by others; the target is invalid, so nobody uses it, and its block is locked.
        unsafe { ptr::copy_nonoverlapping(source, target, block.range.len()) }
    }

    /// Where the first version of a buffer lies in the host's memory, during a run.
    pub fn host_address(&self, buffer: usize) -> *mut u8 {
        self.address(HOST, buffer, 0)
    }

    /// Notes that the program writes a buffer's version of a step.
    pub fn own(&self, buffer: usize, step: u64) {
        if let Some(coherence) = &self.coherence {
            coherence.own_buffer(buffer, step);
        }
    }

    /// Brings a buffer's version of a step into the host's memory, for the program.
    pub fn fetch(&self, buffer: usize, step: u64) {
        let Some(coherence) = &self.coherence else { return };
        coherence.fetch_buffer(buffer, step, |number, block, from, step| {
            let program = self.runner.program();
            self.runner.transfer(program, number, from, step, || self.copy(block, from, HOST, step));
        });
    }

    /// Brings all state back into the host's memory, and makes it valid only there.
    pub fn flush_state(&self) {
        for (buffer, kind) in self.kinds.iter().enumerate() {
            if matches!(kind, BufferKind::State(_)) {
                self.fetch(buffer, 0);
                self.own(buffer, 0);
            }
        }
    }
}
