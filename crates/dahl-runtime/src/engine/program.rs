//! A lowered graph made ready to run: memory, addresses, and the execution of a single task.
//!
//! Both ways of running a graph, replay and eager, end in [`Program::execute`].

#![expect(unsafe_code, reason = "hands addresses to kernels and copies between memories")]

use super::coherence::{Block, Coherence};
use super::local::PerWorker;
use super::memory::{Bytes, Store};
use crate::array::Element;
use crate::codelet::{Call, CallSpec, Kernel};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{BufferKind, Lowered, Place};
use crate::machine::{HOST, Machine, MemoryId};
use crate::plan::MemoryPlan;
use crate::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sync::{Mutex, lock};
use crate::trace::{Event, Recorder, ticks};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

/// What is needed to execute one task, close together.
struct Exec {
    kernel: Kernel,
    spec: CallSpec,
    places: Vec<Place>,
    name: String,
}

/// What a worker has for itself.
struct Local {
    pointers: Vec<*mut u8>,
    recorder: Recorder,
}

// SAFETY: the pointers are scratch space that is filled and used within one call of `execute`.
unsafe impl Send for Local {}

/// One memory: an arena for what a run needs, and the address of each buffer.
struct Memory {
    /// Keeps the memory alive that `addresses` points into.
    _arena: Bytes,
    addresses: Vec<AtomicPtr<u8>>,
}

/// A lowered graph with its memory.
pub(super) struct Program {
    execs: Vec<Exec>,
    kinds: Vec<BufferKind>,
    /// Bytes of each buffer's version.
    sizes: Vec<usize>,
    /// Bytes from one version of a buffer to the next; 0 where there is one version.
    strides: Vec<usize>,
    depth: u64,
    memories: Vec<Memory>,
    memory_of: Vec<MemoryId>,
    coherence: Option<Coherence>,
    locals: PerWorker<Local>,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Program {
    /// Allocates what the plan asks for in every memory.
    pub fn new(
        lowered: &Lowered,
        plan: &MemoryPlan,
        machine: &Machine,
        trace_capacity: usize,
    ) -> Result<Self> {
        let align = |bytes: usize| bytes.next_multiple_of(64);
        let stride = |i: usize| match lowered.buffers[i].kind {
            BufferKind::Ring => align(lowered.buffers[i].bytes),
            _ => 0,
        };
        let mut memories = Vec::new();
        for memory in 0..machine.n_memories {
            // Other memories than the host's also need room for copies of the state.
            let mut end = plan.bytes;
            let mut offsets = plan.offsets.clone();
            for (offset, buffer) in offsets.iter_mut().zip(&lowered.buffers) {
                if offset.is_none() && memory != HOST {
                    *offset = Some(end);
                    end += align(buffer.bytes);
                }
            }
            let arena = Bytes::zeroed(end)?;
            let address = |offset: &Option<usize>| match offset {
                Some(offset) => AtomicPtr::new(arena.pointer().wrapping_add(*offset)),
                None => AtomicPtr::new(ptr::null_mut()),
            };
            memories.push(Memory { addresses: offsets.iter().map(address).collect(), _arena: arena });
        }
        let execs: Vec<Exec> = lowered
            .tasks
            .iter()
            .map(|task| Exec {
                kernel: task.kernel,
                spec: task.spec.clone(),
                places: task.places.clone(),
                name: format!("{task:?}"),
            })
            .collect();
        let max_args = execs.iter().map(|exec| exec.places.len()).max().unwrap_or(0);
        Ok(Program {
            kinds: lowered.buffers.iter().map(|buffer| buffer.kind).collect(),
            sizes: lowered.buffers.iter().map(|buffer| buffer.bytes).collect(),
            strides: (0..lowered.buffers.len()).map(stride).collect(),
            depth: lowered.depth as u64,
            memories,
            memory_of: machine.units.iter().map(|unit| unit.memory).collect(),
            coherence: (machine.n_memories > 1).then(|| Coherence::new(lowered)),
            locals: PerWorker::new(machine.units.len(), |_| Local {
                pointers: Vec::with_capacity(max_args),
                recorder: Recorder::new(trace_capacity),
            }),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            execs,
        })
    }

    /// Points the state buffers at the store's arrays.
    ///
    /// The caller keeps the store exclusively borrowed until the run is over.
    pub fn bind(&self, store: &mut Store) -> Result<()> {
        for (i, kind) in self.kinds.iter().enumerate() {
            let BufferKind::State(id) = *kind else { continue };
            match store.raw(id) {
                Some((pointer, bytes)) if bytes == self.sizes[i] => {
                    self.memories[HOST].addresses[i].store(pointer, Ordering::Relaxed);
                }
                _ => return Err(Error::new(ErrorKind::Usage, "the graph was recorded for another store")),
            }
        }
        Ok(())
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
    /// Must be called on the thread of `worker`, during a run for which `bind` succeeded, when everything that the
    /// task depends on (data and memory edges) has happened before.
    #[inline]
    pub unsafe fn execute(&self, worker: usize, task: usize, step: u64) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let exec = &self.execs[task];
        let memory = self.memory_of[worker];
        if let Some(coherence) = &self.coherence {
            coherence.prepare(task, step, memory, |block, from, step| self.copy(block, from, memory, step));
        }
        // SAFETY: we are on the thread of `worker`, and neither kernels nor the recorder come back here.
        unsafe {
            self.locals.with(worker, |local| {
                local.pointers.clear();
                for place in &exec.places {
                    local.pointers.push(self.address(memory, place.buffer, step).wrapping_add(place.offset));
                }
                // The addresses are valid for their tiles: lowering made the buffers large enough, the memory plan
                // gave them room. Accesses are exclusive where they write: our caller has waited for all edges.
                let call = Call::new(&exec.spec, &local.pointers);
                let traced = local.recorder.is_on();
                let start = if traced { ticks() } else { 0 };
                let outcome = catch_unwind(AssertUnwindSafe(|| (exec.kernel)(&call)));
                if traced {
                    let (task, step) = (task as u32, step as u32);
                    local.recorder.push(Event { task, step, start, end: ticks() });
                }
                if !matches!(outcome, Ok(Ok(()))) {
                    self.fail(exec, worker, step, outcome);
                }
            });
        }
    }

    #[cold]
    fn fail(&self, exec: &Exec, worker: usize, step: u64, outcome: std::thread::Result<Result<()>>) {
        let error = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => {
                Error::new(ErrorKind::Task, format!("a kernel panicked: {}", panic_message(&*panic)))
            }
        };
        let error = error.in_task(format!("{} of step {}", exec.name, step + 1)).on_worker(worker);
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// The first failure, if there was one. It stays: what the run has left behind is not consistent.
    pub fn failure(&self) -> Option<Error> {
        if self.failed.load(Ordering::Acquire) { lock(&self.failure).clone() } else { None }
    }

    fn copy(&self, block: &Block, from: MemoryId, to: MemoryId, step: u64) {
        let source = self.address(from, block.buffer, step).wrapping_add(block.range.start);
        let target = self.address(to, block.buffer, step).wrapping_add(block.range.start);
        // SAFETY: both lie in buffers of different memories that are at least `range.end` long. The source is valid
        // and only read by others; the target is invalid, so nobody uses it, and its block is locked.
        unsafe { ptr::copy_nonoverlapping(source, target, block.range.len()) }
    }

    /// Brings all state back into the host's memory, and makes it valid only there.
    pub fn flush_state(&self) {
        let Some(coherence) = &self.coherence else { return };
        for (buffer, kind) in self.kinds.iter().enumerate() {
            if matches!(kind, BufferKind::State(_)) {
                coherence.fetch_buffer(buffer, 0, |block, from, step| self.copy(block, from, HOST, step));
                coherence.own_buffer(buffer, 0);
            }
        }
    }

    /// The version of a port that a step will read, for the program to fill.
    ///
    /// # Safety
    /// No task may be using this version: step `step - depth` has finished and `step` has not been released.
    pub unsafe fn port<T: Element>(&self, buffer: usize, step: u64) -> &mut [T] {
        if let Some(coherence) = &self.coherence {
            coherence.own_buffer(buffer, step);
        }
        let pointer = self.address(HOST, buffer, step).cast::<T>();
        // SAFETY: the ring buffer has room for this many initialised elements, aligned to 64 bytes, and the caller
        // vouches for exclusive access.
        unsafe { slice::from_raw_parts_mut(pointer, self.sizes[buffer] / size_of::<T>()) }
    }

    /// The version of an output that a step has written.
    ///
    /// # Safety
    /// Step `step` has finished and step `step + depth` has not been released.
    pub unsafe fn output<T: Element>(&self, buffer: usize, step: u64) -> &[T] {
        if let Some(coherence) = &self.coherence {
            coherence.fetch_buffer(buffer, step, |block, from, step| self.copy(block, from, HOST, step));
        }
        let pointer = self.address(HOST, buffer, step).cast::<T>();
        // SAFETY: as in `port`, and nobody writes while the caller's promise holds.
        unsafe { slice::from_raw_parts(pointer, self.sizes[buffer] / size_of::<T>()) }
    }

    /// The events of all workers since the last call.
    ///
    /// # Safety
    /// No run may be under way.
    pub unsafe fn take_events(&self) -> Vec<Vec<Event>> {
        // SAFETY: no run is under way, so no worker touches its local data.
        (0..self.locals.len())
            .map(|w| unsafe { self.locals.with(w, |local| local.recorder.take()) })
            .collect()
    }
}

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
