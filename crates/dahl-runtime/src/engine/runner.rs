//! Calling kernels: what every engine does the same way. Panics become errors, errors end the run, and every
//! call is traced.

#![expect(unsafe_code, reason = "hands addresses to kernels")]

use super::local::PerWorker;
use crate::codelet::{Call, CallSpec, Kernel};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Lowered;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};
use crate::trace::{Event, Recorder, ticks};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is needed to call one task, close together.
struct Exec {
    kernel: Kernel,
    spec: CallSpec,
    name: String,
}

/// Calls the kernels of a lowered graph.
pub(super) struct Runner {
    execs: Vec<Exec>,
    recorders: PerWorker<Recorder>,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl Runner {
    /// A runner that keeps the newest `trace_capacity` events of each worker.
    pub fn new(lowered: &Lowered, n_workers: usize, trace_capacity: usize) -> Self {
        let exec = |task: &crate::graph::Task| Exec {
            kernel: task.kernel,
            spec: task.spec.clone(),
            name: format!("{task:?}"),
        };
        Runner {
            execs: lowered.tasks.iter().map(exec).collect(),
            recorders: PerWorker::new(n_workers, |_| Recorder::new(trace_capacity)),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Whether a task has failed; the rest of the run is then passed over.
    #[inline(always)]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The first failure, if there was one. It stays: what the run has left behind is not consistent.
    pub fn failure(&self) -> Option<Error> {
        if self.failed.load(Ordering::Acquire) { lock(&self.failure).clone() } else { None }
    }

    /// Ends the run: tasks that have not started are passed over.
    pub fn cancel(&self) {
        let error = Error::new(ErrorKind::Cancelled, "the run was cancelled, so its state is not consistent");
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Calls the kernel of a task.
    ///
    /// # Safety
    /// Must be called on the thread of `worker`. The addresses must be as [`Call::new`] asks for: valid for the
    /// tiles of the task's arguments, and not used by anybody else where the task writes.
    #[inline(always)]
    pub unsafe fn call(&self, worker: usize, task: usize, step: u64, addresses: &[*mut u8]) {
        let exec = &self.execs[task];
        // SAFETY: the caller vouches for the addresses.
        let call = unsafe { Call::new(&exec.spec, addresses) };
        let start = ticks();
        let outcome = call_kernel(exec.kernel, &call);
        let event = Event { task: task as u32, step: step as u32, start, end: ticks() };
        // SAFETY: we are on the thread of `worker`, and the recorder does not come back here.
        unsafe { self.recorders.with(worker, |recorder| recorder.push(event)) };
        if let Err(error) = outcome {
            self.fail(exec, worker, step, error);
        }
    }

    #[cold]
    fn fail(&self, exec: &Exec, worker: usize, step: u64, error: Error) {
        let error = error.in_task(format!("{} of step {}", exec.name, step + 1)).on_worker(worker);
        lock(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// The events of all workers since the last call.
    ///
    /// # Safety
    /// No run may be under way.
    pub unsafe fn take_events(&self) -> Vec<Vec<Event>> {
        // SAFETY: no run is under way, so no worker touches its recorder.
        (0..self.recorders.len()).map(|w| unsafe { self.recorders.with(w, Recorder::take) }).collect()
    }
}

/// Calls a kernel; its panic becomes an error.
#[inline(always)]
pub(super) fn call_kernel(kernel: Kernel, call: &Call<'_>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| kernel(call))).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(ErrorKind::Task, format!("a kernel panicked: {}", text.unwrap_or("(no message)")))
}
