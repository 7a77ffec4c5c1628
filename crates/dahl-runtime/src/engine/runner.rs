//! Calling kernels: what every engine does the same way. Panics become errors, errors end the run, and every
//! call is traced.
//!
//! After a failure later tasks are passed over, but clocks and counters go on, so nothing hangs. The run
//! returns the first error, with task, codelet, regions, step, worker and the line that recorded the task.

#![expect(unsafe_code, reason = "hands addresses to kernels")]

use super::watchdog;
use crate::codelet::{ArgSpec, Call, CallSpec, Kernel};
use crate::error::{Error, ErrorKind, Result, panic_message};
use crate::graph::Lowered;
use crate::machine::{HOST, Machine, MemoryId};
use crate::progress::Blocked;
use crate::sync::Padded;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, lock};
use crate::trace::recorder::{Look, MAX_BLOCKS, Recorder};
use crate::trace::{Clock, Trace};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::time::Duration;

/// What is needed to call one task, close together.
struct Exec {
    kernel: Kernel,
    spec: CallSpec,
    scratch_bytes: usize,
}

/// What is needed to speak of one task.
struct Origin {
    name: String,
    codelet: &'static str,
    /// The buffer of each argument.
    buffers: Vec<usize>,
    location: Option<&'static Location<'static>>,
}

/// The first failure of a run, after which all others of its tasks are passed over.
#[derive(Default)]
pub struct Failure {
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Failure {
    /// Ends the run: what is left of it is passed over.
    #[cold]
    pub fn set(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// The first one, if there was any.
    pub fn get(&self) -> Option<Error> {
        if self.failed.load(Ordering::Acquire) { lock(&self.failure).clone() } else { None }
    }
}

/// Calls the kernels of a lowered graph.
pub struct Runner {
    execs: Vec<Exec>,
    origins: Vec<Origin>,
    buffers: Vec<String>,
    /// One for each worker, and one for what the program copies itself.
    recorders: Vec<Padded<Recorder>>,
    /// The memory that each worker computes in.
    memory_of: Vec<MemoryId>,
    clock: Clock,
    failure: Arc<Failure>,
}

impl Runner {
    /// A runner for the units of a machine, each of which is a worker. It keeps the newest `trace_capacity`
    /// events of each worker, and of the program where there are several memories to copy between.
    pub fn new(lowered: &Lowered, machine: &Machine, trace_capacity: usize) -> Self {
        let (n_workers, program_copies) = (machine.units.len(), machine.memories.len() > 1);
        let exec = |task: &crate::graph::Task| Exec {
            kernel: task.kernel,
            spec: task.spec.clone(),
            scratch_bytes: task.scratch_bytes,
        };
        let origin = |task: &crate::graph::Task| Origin {
            name: format!("{task:?}"),
            codelet: task.codelet,
            buffers: task.places.iter().map(|place| place.buffer).collect(),
            location: task.location,
        };
        let recorder = |who: usize| {
            let capacity = if who < n_workers || program_copies { trace_capacity } else { 0 };
            Padded(Recorder::new(capacity))
        };
        Runner {
            execs: lowered.tasks.iter().map(exec).collect(),
            origins: lowered.tasks.iter().map(origin).collect(),
            buffers: lowered.buffers.iter().map(|buffer| buffer.name.clone()).collect(),
            recorders: (0..=n_workers).map(recorder).collect(),
            memory_of: machine.units.iter().map(|unit| unit.memory).collect(),
            clock: Clock::start(),
            failure: Arc::default(),
        }
    }

    /// Whether a task has failed; the rest of the run is then passed over.
    #[inline(always)]
    pub fn has_failed(&self) -> bool {
        self.failure.failed.load(Ordering::Relaxed)
    }

    /// The first failure, if there was one. It stays: what the run has left behind is not consistent.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get()
    }

    /// Where failures are noted, for whoever ends a run from outside.
    pub fn failures(&self) -> Arc<Failure> {
        Arc::clone(&self.failure)
    }

    /// Calls the kernel of a task. Who finds that the run [has failed](Runner::has_failed) passes the task
    /// over instead.
    ///
    /// A worker executes one task at a time. If two threads called under one number, their events would be
    /// mixed up.
    ///
    /// # Safety
    /// The addresses must be as [`Call::new`] asks for: valid for the tiles of the task's arguments, and not
    /// used by anybody else where the task writes. `scratch` must be valid for as many bytes as the task has
    /// scratch, aligned to [`ALIGN`](crate::bytes::ALIGN), and not used by anybody else meanwhile.
    ///
    /// # Panics
    /// If the machine has no such unit, or the graph no such task.
    #[inline(always)]
    pub unsafe fn call(
        &self,
        worker: usize,
        task: usize,
        step: u64,
        addresses: &[*mut u8],
        scratch: *mut u8,
    ) {
        let exec = &self.execs[task];
        let scratch = ptr::slice_from_raw_parts_mut(scratch, exec.scratch_bytes);
        // SAFETY: the caller vouches for the addresses.
        let call = unsafe { Call::new(&exec.spec, addresses, scratch) };
        let recorder = &self.recorders[worker].0;
        let slot = recorder.begin(task as u32, step);
        let outcome = call_kernel(exec.kernel, &call);
        recorder.end(slot);
        if let Err(error) = outcome {
            self.fail(self.in_context(error, worker, task, step));
        }
    }

    /// Copies a block for a worker, or for the program, whose number follows the last worker's, and records
    /// it.
    pub fn transfer(&self, who: usize, block: usize, from: MemoryId, step: u64, copy: impl FnOnce()) {
        match block < MAX_BLOCKS {
            true => self.recorders[who].0.transfer(block, from, step, copy),
            false => copy(),
        }
    }

    /// Where somebody's events are recorded.
    pub(super) fn recorder(&self, who: usize) -> &Recorder {
        &self.recorders[who].0
    }

    /// The number under which the program's own copies are recorded.
    pub fn program(&self) -> usize {
        self.recorders.len() - 1
    }

    /// An error in a task, with everything that is known about it.
    #[cold]
    pub fn in_context(&self, error: Error, worker: usize, task: usize, step: u64) -> Error {
        let origin = &self.origins[task];
        let names = origin.buffers.iter().map(|&buffer| self.buffers[buffer].as_str());
        let arguments = describe_arguments(names, &self.execs[task].spec.args);
        let error = error.in_task(&*origin.name).of_codelet(origin.codelet).with_arguments(arguments);
        let error = error.in_step(step).on_worker(worker);
        origin.location.map_or(error.clone(), |location| error.at(location))
    }

    /// A task's name.
    pub fn name(&self, task: usize) -> &str {
        &self.origins[task].name
    }

    /// Ends the run: what is left of it is passed over.
    #[cold]
    pub fn fail(&self, error: Error) {
        self.failure.set(error);
    }

    /// Keeps note of what every worker is doing, also where nothing is traced, for whoever watches.
    pub fn watch(&self) {
        self.recorders.iter().for_each(|recorder| recorder.0.watch());
    }

    /// Tasks and copies that were recorded so far, on all workers, for whoever watches.
    pub fn n_events(&self) -> u64 {
        self.recorders[..self.program()].iter().map(|recorder| recorder.0.look().count).sum()
    }

    /// What every worker is doing.
    pub(crate) fn looks(&self) -> Vec<Look> {
        self.recorders[..self.program()].iter().map(|recorder| recorder.0.look()).collect()
    }

    /// Says what a run is stuck in, in which no task has finished for so long: who has been executing what,
    /// and which tasks wait, as far as the engine knows.
    pub fn stuck(&self, limit: Duration, blocked: &[Blocked]) -> Error {
        watchdog::stuck(self, limit, &self.looks(), blocked, &self.clock)
    }

    /// Adds the events since the last call to a trace: those of each worker, and the copies of the program.
    pub fn take_events(&self, trace: &mut Trace) {
        trace.ticks_per_second = self.clock.ticks_per_second();
        for (who, recorder) in self.recorders.iter().enumerate() {
            let taken = recorder.0.take(self.memory_of.get(who).copied().unwrap_or(HOST));
            // The program executes no tasks.
            if who < self.program() {
                trace.workers.push(taken.events);
            }
            trace.transfers.push(taken.transfers);
            trace.n_dropped.push(taken.n_dropped);
        }
    }
}

/// Arguments for an error: the name of each, the region that the task works on, and the shape of the whole.
pub(super) fn describe_arguments<'a>(names: impl Iterator<Item = &'a str>, specs: &[ArgSpec]) -> String {
    let describe = |(name, spec): (&str, &ArgSpec)| match spec.region.is_empty() {
        true => format!("{name} (nothing of {})", spec.extent),
        false => format!("{name}{} of {}", spec.region, spec.extent),
    };
    names.zip(specs).map(describe).collect::<Vec<_>>().join(", ")
}

/// Calls a kernel; its panic becomes an error.
#[inline(always)]
pub(super) fn call_kernel(kernel: Kernel, call: &Call<'_>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| kernel(call))).unwrap_or_else(|panic| {
        Err(Error::new(ErrorKind::Task, format!("a kernel panicked: {}", panic_message(panic))))
    })
}
