//! Tasks that a program submits one by one.
//!
//! [`Tasks::submit`] finds the predecessors of a task from the regions it touches, links the task to those that
//! have not finished, and returns; it never waits for a task. Workers take ready tasks from one queue in order
//! (the eager scheduler); of the successors that a worker makes ready, it runs the first itself.
//!
//! One mutex guards the dependency analysis and the list of free slots; a slot's own mutex guards the list of its
//! successors. Locks are taken in this order: submission, then one slot, then nothing. Workers never take the
//! submission lock, so a submitting thread never waits for a kernel, nor a kernel for a submission.
//!
//! Every wake-up goes through a [`Bell`]: the pool's, after something became ready; `done`, after a task finished
//! that a thread had marked as watched.

#![expect(unsafe_code, reason = "lets workers use the memory that dependencies reserve for their task")]

mod failures;
mod slots;

pub(crate) use slots::{Address, Argument, Ticket, Work};

use super::bell::Bell;
use super::pool::{Pool, Source, current_worker};
use super::queue::Queue;
use crate::array::{Layout, Region, Shape};
use crate::codelet::{ArgSpec, Call, CallSpec, Codelet};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::deps::Tracker;
use crate::machine::HOST;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock, spin_loop};
use failures::Failures;
use slots::Slots;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Ready tasks that fit into the lock-free queue; more wait in a list.
const N_READY: usize = if cfg!(feature = "shuttle") { 4 } else { 4096 };
/// Tasks that a worker runs before it looks at other sources again.
const BATCH: usize = 64;
/// Looks at a task before a waiting thread goes to sleep.
const SPINS: usize = if cfg!(feature = "shuttle") { 0 } else { 2000 };
/// Remembered shape checks; a power of two.
const N_CHECKS: usize = 64;

/// The dynamic executor.
pub(crate) struct Tasks {
    slots: Slots,
    submission: Mutex<Submission>,
    ready: Queue,
    overflow: Mutex<VecDeque<u32>>,
    n_overflow: AtomicUsize,
    freed: Mutex<Vec<u32>>,
    n_finished: AtomicUsize,
    failures: Failures,
    bell: Arc<Bell>,
    done: Bell,
    workers: Vec<Worker>,
}

struct Submission {
    tracker: Tracker<Ticket>,
    n_slots: u32,
    free_slots: Vec<u32>,
    n_bases: usize,
    free_bases: Vec<usize>,
    n_submitted: usize,
    preds: Vec<Ticket>,
    checks: Vec<Option<Check>>,
}

/// Arguments that a relation has accepted. Programs submit the same few again and again.
struct Check {
    codelet: &'static Codelet,
    shapes: Vec<Shape>,
    ints: Vec<i64>,
}

struct Worker {
    /// Whether it computes in the host's memory, where submitted tasks are.
    serves: bool,
    scratch: Mutex<Scratch>,
}

/// What a worker reuses from task to task.
#[derive(Default)]
struct Scratch {
    spec: CallSpec,
    pointers: Vec<Address>,
    successors: Vec<u32>,
    freed: Vec<u32>,
}

// SAFETY: an address is only a number until a task uses it, and tasks use memory in the order of dependencies.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Tasks {
    /// An executor whose tasks the workers of `pool` will run once it is attached there.
    pub fn new(pool: &Pool) -> Self {
        let worker = |unit: &crate::machine::Unit| Worker {
            serves: unit.memory == HOST,
            scratch: Mutex::new(Scratch::default()),
        };
        Tasks {
            slots: Slots::new(),
            submission: Mutex::new(Submission {
                tracker: Tracker::new(),
                n_slots: 0,
                free_slots: Vec::new(),
                n_bases: 0,
                free_bases: Vec::new(),
                n_submitted: 0,
                preds: Vec::new(),
                checks: (0..N_CHECKS).map(|_| None).collect(),
            }),
            ready: Queue::new(N_READY),
            overflow: Mutex::new(VecDeque::new()),
            n_overflow: AtomicUsize::new(0),
            freed: Mutex::new(Vec::new()),
            n_finished: AtomicUsize::new(0),
            failures: Failures::default(),
            bell: pool.bell(),
            done: Bell::default(),
            workers: pool.units().iter().map(worker).collect(),
        }
    }

    /// A number for a new allocation, to which dependencies belong.
    pub fn new_base(&self) -> usize {
        let mut submission = lock(&self.submission);
        submission.free_bases.pop().unwrap_or_else(|| {
            submission.n_bases += 1;
            submission.n_bases - 1
        })
    }

    /// Gives back the number of an allocation, none of whose tasks is unfinished.
    pub fn free_base(&self, base: usize) {
        let mut submission = lock(&self.submission);
        submission.tracker.drop_base(base);
        self.failures.drop_base(base);
        submission.free_bases.push(base);
    }

    /// Checks the arguments against the codelet's relation and submits a task.
    ///
    /// # Safety
    /// Each argument's memory must be valid until [`Tasks::is_idle`] has said that its base is idle, and the
    /// program must not touch it before [`Tasks::wait`] has returned for that region. The region must cover the
    /// memory. Arrays and arenas keep this: they borrow for the program and retire memory by base.
    pub unsafe fn submit(&self, work: Work, args: &[Argument], ints: &[i64], scalars: &[f64]) -> Result<()> {
        let mut guard = lock(&self.submission);
        let submission = &mut *guard;
        submission.check(work.codelet, args, ints)?;
        let index = self.take_slot(submission);
        let slot = self.slots.get(index);
        {
            let mut body = lock(&slot.body);
            body.work = Some(work);
            body.args.clear();
            body.args.extend_from_slice(args);
            body.ints.clear();
            body.ints.extend_from_slice(ints);
            body.scalars.clear();
            body.scalars.extend_from_slice(scalars);
        }
        slot.pending.store(1, Ordering::Relaxed);
        let ticket = self.slots.ticket(index);
        let alive = |ticket| self.slots.is_alive(ticket);
        let Submission { tracker, preds, .. } = submission;
        preds.clear();
        for arg in args {
            tracker.access_alive(arg.base, &arg.region, arg.writes, ticket, preds, alive);
        }
        for &pred in &*preds {
            let mut links = lock(&self.slots.get(pred.slot()).links);
            // Looked at again under the lock: from here on the task cannot finish without seeing its successor.
            if alive(pred) {
                slot.pending.fetch_add(1, Ordering::Relaxed);
                links.successors.push(index);
            }
        }
        submission.n_submitted += 1;
        drop(guard);
        if slot.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.push_ready(index);
            self.bell.ring();
        }
        Ok(())
    }

    fn take_slot(&self, submission: &mut Submission) -> u32 {
        if submission.free_slots.is_empty() {
            std::mem::swap(&mut submission.free_slots, &mut *lock(&self.freed));
        }
        submission.free_slots.pop().unwrap_or_else(|| {
            self.slots.ensure(submission.n_slots);
            submission.n_slots += 1;
            submission.n_slots - 1
        })
    }

    fn push_ready(&self, index: u32) {
        if self.ready.push(index as usize).is_err() {
            let mut overflow = lock(&self.overflow);
            overflow.push_back(index);
            self.n_overflow.store(overflow.len(), Ordering::Release);
        }
    }

    fn pop_ready(&self) -> Option<u32> {
        if let Some(index) = self.ready.pop() {
            return Some(index as u32);
        }
        if self.n_overflow.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut overflow = lock(&self.overflow);
        let index = overflow.pop_front();
        self.n_overflow.store(overflow.len(), Ordering::Release);
        index
    }

    /// Waits until the tasks that must precede an access by the program have finished. Returns the error of the
    /// task that poisoned the region, if one did.
    pub fn wait(&self, base: usize, region: &Region, writes: bool) -> Result<()> {
        refuse_workers("an array cannot be read or written by the program inside of a task")?;
        let mut tickets = Vec::new();
        let alive = |ticket| self.slots.is_alive(ticket);
        lock(&self.submission).tracker.pending(base, region, writes, &mut tickets, alive);
        tickets.into_iter().for_each(|ticket| self.wait_for(ticket));
        self.failures.cause(base, region).map_or(Ok(()), Err)
    }

    /// Waits until every task on these allocations has finished.
    pub fn wait_idle(&self, bases: &[usize]) -> Result<()> {
        refuse_workers("memory cannot be taken back inside of a task")?;
        let mut tickets = Vec::new();
        for &base in bases {
            let submission = lock(&self.submission);
            submission.tracker.unfinished(base, &mut tickets, |ticket| self.slots.is_alive(ticket));
        }
        tickets.into_iter().for_each(|ticket| self.wait_for(ticket));
        Ok(())
    }

    /// Whether no task on this allocation is unfinished.
    pub fn is_idle(&self, base: usize) -> bool {
        let mut tickets = Vec::new();
        let submission = lock(&self.submission);
        submission.tracker.unfinished(base, &mut tickets, |ticket| self.slots.is_alive(ticket));
        tickets.is_empty()
    }

    /// Waits until everything submitted so far has finished.
    pub fn wait_all(&self) {
        let n_submitted = lock(&self.submission).n_submitted;
        let finished = || self.n_finished.load(Ordering::Acquire) >= n_submitted;
        if !finished() {
            self.done.sleep_until(finished);
        }
    }

    /// Like [`Tasks::wait_all`], for the program.
    pub fn wait_submitted(&self) -> Result<()> {
        refuse_workers("tasks cannot be waited for inside of a task")?;
        self.wait_all();
        Ok(())
    }

    fn wait_for(&self, ticket: Ticket) {
        for _ in 0..SPINS {
            if !self.slots.is_alive(ticket) {
                return;
            }
            spin_loop();
        }
        let slot = self.slots.get(ticket.slot());
        {
            let mut links = lock(&slot.links);
            if !self.slots.is_alive(ticket) {
                return;
            }
            links.watched = true;
        }
        self.done.sleep_until(|| !self.slots.is_alive(ticket));
    }

    /// Runs a ready task and everything that follows from its end. Returns a successor to run next.
    fn run(&self, index: u32, worker: usize, scratch: &mut Scratch) -> Option<u32> {
        let slot = self.slots.get(index);
        {
            let mut body = lock(&slot.body);
            let body = &mut *body;
            let work = body.work.take().expect("a ready task has been filled");
            let cause = if self.failures.any() { self.failures.cause_of(&body.args) } else { None };
            let outcome = match cause {
                Some(cause) => Err(cause),
                None => execute(&work, body, scratch).map_err(|error| {
                    error.in_task(describe(&work, &body.args)).on_worker(worker).at(work.location)
                }),
            };
            self.failures.record(&body.args, outcome);
        }
        let watched = {
            let mut links = lock(&slot.links);
            slot.finish();
            std::mem::swap(&mut links.successors, &mut scratch.successors);
            std::mem::take(&mut links.watched)
        };
        scratch.freed.push(index);
        let (mut next, mut pushed) = (None, false);
        for successor in scratch.successors.drain(..) {
            if self.slots.get(successor).pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                match next {
                    None => next = Some(successor),
                    Some(_) => {
                        self.push_ready(successor);
                        pushed = true;
                    }
                }
            }
        }
        if pushed {
            self.bell.ring();
        }
        if watched {
            self.done.ring();
        }
        next
    }
}

impl Source for Tasks {
    fn poll(&self, worker: usize) -> bool {
        if !self.has_work(worker) {
            return false;
        }
        let mut scratch = lock(&self.workers[worker].scratch);
        let mut next = None;
        for _ in 0..BATCH {
            let Some(index) = next.take().or_else(|| self.pop_ready()) else { break };
            next = self.run(index, worker, &mut scratch);
        }
        if let Some(index) = next {
            self.push_ready(index);
        }
        let n = scratch.freed.len();
        if n > 0 {
            lock(&self.freed).append(&mut scratch.freed);
            self.n_finished.fetch_add(n, Ordering::Release);
            self.done.ring();
        }
        n > 0
    }

    fn has_work(&self, worker: usize) -> bool {
        self.workers[worker].serves && (!self.ready.is_empty() || self.n_overflow.load(Ordering::Acquire) > 0)
    }
}

impl Submission {
    fn check(&mut self, codelet: &'static Codelet, args: &[Argument], ints: &[i64]) -> Result<()> {
        let shapes = || args.iter().map(|arg| arg.shape);
        let mut hash = std::ptr::from_ref(codelet) as usize;
        for number in args.iter().flat_map(|arg| arg.shape.iter().copied()) {
            hash = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        }
        let known = &mut self.checks[hash & (N_CHECKS - 1)];
        let is_known = known.as_ref().is_some_and(|check| {
            std::ptr::eq(check.codelet, codelet)
                && check.ints == ints
                && check.shapes.iter().copied().eq(shapes())
        });
        if !is_known {
            let shapes: Vec<Shape> = shapes().collect();
            codelet.relation().bind(&shapes, ints)?;
            *known = Some(Check { codelet, shapes, ints: ints.to_vec() });
        }
        Ok(())
    }
}

fn refuse_workers(what: &str) -> Result<()> {
    match current_worker() {
        None => Ok(()),
        Some(worker) => {
            let message =
                format!("{what}: the task would wait for other tasks; pass the array as an argument");
            Err(Error::new(ErrorKind::Usage, message).on_worker(worker))
        }
    }
}

fn execute(work: &Work, body: &slots::Body, scratch: &mut Scratch) -> Result<()> {
    let Scratch { spec, pointers, .. } = scratch;
    spec.args.clear();
    pointers.clear();
    for arg in &body.args {
        let region = Region::whole(arg.shape);
        let tile = Region::whole(arg.tile);
        let layout = Layout::RowMajor;
        spec.args.push(ArgSpec { dtype: arg.dtype, layout, tile, region, extent: arg.shape });
        pointers.push(arg.pointer);
    }
    spec.n_inputs = work.n_inputs;
    spec.accumulate = work.accumulate;
    spec.ints.clone_from(&body.ints);
    spec.scalars.clone_from(&body.scalars);
    // SAFETY: `Address` is a transparent wrapper of the pointer. The memory is valid by the contract of `submit`;
    // the tracker has ordered this task after every task that conflicts with it, and the borrow checker keeps the
    // program's own accesses away (`wait`). Inputs and outputs of a task are different arrays.
    let call = unsafe {
        let pointers = std::slice::from_raw_parts(pointers.as_ptr().cast::<*mut u8>(), pointers.len());
        Call::new(spec, pointers)
    };
    catch_unwind(AssertUnwindSafe(|| (work.kernel)(&call))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("the kernel panicked: {}", text.unwrap_or("(no message)"));
        Err(Error::new(ErrorKind::Task, message))
    })
}

/// The task for an error: codelet, implementation and the shapes of the arguments.
fn describe(work: &Work, args: &[Argument]) -> String {
    let named = work.codelet.relation().args().iter().zip(args);
    let args: Vec<String> = named.map(|(arg, given)| format!("{}{}", arg.name, given.shape)).collect();
    format!("{} ({}) {}", work.codelet.name, work.implementation, args.join(" "))
}
