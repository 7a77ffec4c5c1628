//! Tasks that a program submits one by one.
//!
//! [`Tasks::submit`] finds the predecessors of a task from the regions it touches, links the task to those
//! that have not finished, and returns; it never waits for a task. Workers take ready tasks in order, urgent
//! ones first; of the successors that a worker makes ready, it runs the first itself.
//!
//! One mutex guards the dependency analysis and the list of free slots; a slot's own mutex guards the list of
//! its successors. Locks are taken in this order: submission, then one slot, then nothing. Workers never take
//! the submission lock, so a submitting thread never waits for a kernel, nor a kernel for a submission.
//!
//! Kernels that need scratch find it with their worker: whoever is the first to submit a task that needs more
//! than there is makes it for all workers, and each takes its own before it executes such a task.
//!
//! The rules of `../../progress/` are not these: they count down a graph whose tasks, edges and steps are
//! known before it runs, and here neither tasks nor successors are known until somebody submits them, so that
//! a slot has its counter and its successors in itself and is used again. There is no scheduler to be checked
//! either: ready tasks are taken in order.
//!
//! Every wake-up goes through a [`Bell`]: the pool's, after something became ready; `done`, after a task
//! finished that a thread had marked as watched.

#![expect(unsafe_code, reason = "lets workers use the memory that dependencies reserve for their task")]

mod failures;
mod slots;
mod templates;
mod watched;

pub(crate) use slots::{Address, MAX_ARGS};
pub(crate) use templates::{Argument, Request};

use super::bell::Bell;
use super::memory::allocate;
use super::pool::{Pool, WorkSource, current_worker};
use super::queue::Queue;
use super::runner::call_kernel;
use super::watchdog::Watch;
use crate::bytes::Bytes;
use crate::codelet::{Call, CallSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::deps::Tracker;
use crate::machine::{CPU, HOST, Machine, Unit};
use crate::shape::Region;
use crate::sync::Padded;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, lock, spin_loop};
use crate::trace::Clock;
use crate::trace::recorder::Recorder;
use failures::Failures;
use slots::{Body, FEW_SUCCESSORS, FIRST_CHUNK, Slots, Ticket};
use std::collections::VecDeque;
use std::panic::Location;
use std::ptr;
use std::time::Duration;
use templates::{Finder, Found, N_TEMPLATES, Template, TemplateId, Templates};

/// Names the best implementation there is: the last one listed that can take the arrays as they lie in
/// memory.
pub const BEST: &str = "best";

/// Ready tasks that fit into the lock-free queue; more wait in a list.
const N_READY: usize = if cfg!(feature = "shuttle") { 4 } else { 4096 };
/// How many submissions ahead the slot is fetched.
const PREFETCH: usize = 4;
/// Tasks that a worker runs before it looks at other sources again.
const BATCH: usize = 64;
/// Looks at a task before a waiting thread goes to sleep.
const SPINS: usize = if cfg!(feature = "shuttle") { 0 } else { 2000 };

/// The dynamic executor. What different threads write lies on different cache lines.
pub(crate) struct Tasks {
    slots: Slots,
    templates: Templates,
    failures: Failures,
    workers: Vec<Worker>,
    bell: Arc<Bell>,
    done: Padded<Done>,
    submission: Padded<Mutex<Submission>>,
    n_submitted: Padded<AtomicUsize>,
    /// Ready tasks, the urgent ones in the first queue.
    ready: [Queue; 2],
    /// Tasks with a smaller number are passed over if they have not started.
    cancelled: AtomicUsize,
    n_overflow: Padded<AtomicUsize>,
    overflow: Padded<Mutex<VecDeque<u32>>>,
    freed: Padded<Mutex<Vec<u32>>>,
    n_finished: Padded<AtomicUsize>,
    machine: Machine,
    clock: Clock,
    watchdog: Option<Duration>,
}

/// What waiting threads sleep on.
#[derive(Default)]
struct Done {
    bell: Bell,
    /// Threads that wait until no task is unfinished.
    n_waiting: AtomicUsize,
}

/// What the submission lock guards.
#[derive(Default)]
struct Submission {
    tracker: Tracker<Ticket>,
    finder: Finder,
    n_slots: u32,
    free_slots: Vec<u32>,
    n_bases: usize,
    free_bases: Vec<usize>,
    args: Vec<Argument>,
    preds: Vec<Ticket>,
    /// An empty list for whoever waits next.
    waits: Vec<Ticket>,
    /// Bytes of scratch that every worker has, or will take before it needs them.
    scratch_bytes: usize,
}

#[repr(align(128))]
struct Worker {
    /// Whether it is a core that computes in the host's memory, where submitted tasks are.
    serves: bool,
    recorder: Recorder,
    /// Scratch for its kernels, from whoever submitted a task that needs more than it has.
    larger: Mutex<Option<Bytes>>,
    /// Never contended: only the worker takes it, also around kernels, whose panics are caught inside.
    reused: Mutex<Reused>,
}

/// What a worker reuses from task to task.
#[derive(Default)]
struct Reused {
    /// The call of the last task, and the template it was made from.
    spec: CallSpec,
    template: Option<TemplateId>,
    successors: Vec<u32>,
    freed: Vec<u32>,
    /// What kernels may use while they run.
    scratch: Option<Bytes>,
}

impl Reused {
    /// So many bytes of scratch: what there is, or what was left in `larger` before the task was submitted.
    fn scratch(&mut self, bytes: usize, larger: &Mutex<Option<Bytes>>) -> *mut [u8] {
        let len = |scratch: &Option<Bytes>| scratch.as_ref().map_or(0, Bytes::len);
        if bytes > len(&self.scratch) {
            self.scratch = lock(larger).take();
        }
        let first = self.scratch.as_ref().map_or(ptr::null_mut(), Bytes::pointer);
        ptr::slice_from_raw_parts_mut(first, bytes.min(len(&self.scratch)))
    }
}

impl Tasks {
    /// An executor whose tasks the workers of `pool` will run once it is attached there. Each worker keeps
    /// its newest `trace_capacity` events; whoever waits gives up when no task finishes for as long as
    /// `watchdog` says.
    pub fn new(pool: &Pool, trace_capacity: usize, watchdog: Option<Duration>) -> Self {
        let worker = |unit: &Unit| {
            let recorder = Recorder::new(trace_capacity);
            if watchdog.is_some() {
                recorder.watch();
            }
            // Who runs which task differs from round to round; nobody should need more room for it later.
            let reused = Mutex::new(Reused {
                successors: Vec::with_capacity(FEW_SUCCESSORS),
                freed: Vec::with_capacity(BATCH),
                ..Reused::default()
            });
            let is_core = pool.machine().kinds[unit.kind].code == CPU;
            let serves = is_core && unit.memory == HOST;
            Worker { serves, recorder, larger: Mutex::new(None), reused }
        };
        Tasks {
            slots: Slots::new(),
            templates: Templates::new(),
            failures: Failures::default(),
            workers: pool.machine().units.iter().map(worker).collect(),
            bell: pool.bell(),
            done: Padded::default(),
            submission: Padded(Mutex::new(Submission {
                free_slots: Vec::with_capacity(FIRST_CHUNK),
                ..Submission::default()
            })),
            n_submitted: Padded::default(),
            ready: [Queue::new(N_READY), Queue::new(N_READY)],
            cancelled: AtomicUsize::new(0),
            n_overflow: Padded::default(),
            overflow: Padded::default(),
            freed: Padded(Mutex::new(Vec::with_capacity(FIRST_CHUNK))),
            n_finished: Padded::default(),
            machine: pool.machine().clone(),
            clock: Clock::start(),
            watchdog,
        }
    }

    /// A number for a new allocation, to which dependencies belong.
    pub fn new_base(&self) -> usize {
        let mut submission = lock(&self.submission.0);
        submission.free_bases.pop().unwrap_or_else(|| {
            submission.n_bases += 1;
            submission.n_bases - 1
        })
    }

    /// Gives back the number of an allocation, none of whose tasks is unfinished.
    pub fn free_base(&self, base: usize) {
        let mut submission = lock(&self.submission.0);
        submission.tracker.drop_base(base);
        self.failures.drop_base(base);
        submission.free_bases.push(base);
    }

    /// Checks the arguments against the codelet's relation and submits a task. `arguments` adds the arguments
    /// in call order, at most [`MAX_ARGS`].
    ///
    /// # Safety
    /// Each argument's memory must be valid until [`Tasks::is_idle`] has said that its base is idle, and the
    /// program must not touch it before [`Tasks::wait`] has returned for that region. The region must cover
    /// the memory. Arrays and arenas keep this: they borrow for the program and retire memory by base.
    pub unsafe fn submit(
        &self,
        request: Request<'_>,
        arguments: impl FnOnce(&mut Vec<Argument>) -> Result<()>,
        scalars: &[f64],
        location: &'static Location<'static>,
    ) -> Result<()> {
        let mut guard = lock(&self.submission.0);
        let submission = &mut *guard;
        submission.args.clear();
        arguments(&mut submission.args)?;
        let found = submission.finder.find(&self.templates, &request, &submission.args)?;
        self.make_scratch(submission, self.template(&found).scratch_bytes)?;
        let index = self.take_slot(submission);
        let slot = self.slots.get(index);
        let ticket = self.slots.ticket(index);
        let alive = |ticket| self.slots.is_alive(ticket);
        let Submission { tracker, args, preds, .. } = submission;
        preds.clear();
        // SAFETY: the slot has just been taken from the free list and is nowhere else.
        let body = unsafe { slot.body() };
        body.n_args = args.len() as u32;
        body.number = self.n_submitted.0.load(Ordering::Relaxed);
        body.location = location;
        body.scalars.clear();
        body.scalars.extend_from_slice(scalars);
        body.template = found;
        // The slot keeps this list and gives its old one back.
        std::mem::swap(&mut body.args, args);
        args.clear();
        args.reserve(body.args.len());
        let n_inputs = self.template(&body.template).spec.n_inputs;
        for (i, arg) in body.args.iter().enumerate() {
            body.pointers[i] = arg.pointer;
            tracker.access_alive(arg.base, &arg.region, i >= n_inputs, ticket, preds, alive);
        }
        slot.urgent.store(request.urgent, Ordering::Relaxed);
        slot.pending.store(1, Ordering::Relaxed);
        for &pred in &*preds {
            let mut links = lock(&self.slots.get(pred.slot()).links);
            // Looked at again under the lock: from here on the task cannot finish without seeing its
            // successor.
            if alive(pred) {
                slot.pending.fetch_add(1, Ordering::Relaxed);
                links.successors.push(index);
            }
        }
        let n_submitted = &self.n_submitted.0;
        n_submitted.store(n_submitted.load(Ordering::Relaxed) + 1, Ordering::Release);
        drop(guard);
        if slot.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.push_ready(index);
            self.bell.ring();
        }
        Ok(())
    }

    /// Leaves scratch of so many bytes to every worker, unless they have as much.
    fn make_scratch(&self, submission: &mut Submission, bytes: usize) -> Result<()> {
        if bytes <= submission.scratch_bytes {
            return Ok(());
        }
        let workers = || self.workers.iter().filter(|worker| worker.serves);
        let made = workers().map(|_| allocate(bytes)).collect::<Result<Vec<Bytes>>>()?;
        workers().zip(made).for_each(|(worker, scratch)| *lock(&worker.larger) = Some(scratch));
        submission.scratch_bytes = bytes;
        Ok(())
    }

    fn template<'t>(&'t self, found: &'t Found) -> &'t Template {
        match found {
            Found::Known(id) => self.templates.get(*id),
            Found::Own(template) => template,
        }
    }

    fn take_slot(&self, submission: &mut Submission) -> u32 {
        if submission.free_slots.is_empty() {
            std::mem::swap(&mut submission.free_slots, &mut *lock(&self.freed.0));
        }
        let next = submission.free_slots.len().checked_sub(PREFETCH).map(|i| submission.free_slots[i]);
        next.into_iter().for_each(|index| self.slots.prefetch(index));
        submission.free_slots.pop().unwrap_or_else(|| {
            self.slots.ensure(submission.n_slots);
            submission.n_slots += 1;
            submission.n_slots - 1
        })
    }

    fn push_ready(&self, index: u32) {
        let urgent = self.slots.get(index).urgent.load(Ordering::Relaxed);
        if self.ready[usize::from(!urgent)].push(index as usize).is_err() {
            let mut overflow = lock(&self.overflow.0);
            overflow.push_back(index);
            self.n_overflow.0.store(overflow.len(), Ordering::Release);
        }
    }

    fn pop_ready(&self) -> Option<u32> {
        if let Some(index) = self.ready.iter().find_map(Queue::pop) {
            return Some(index as u32);
        }
        if self.n_overflow.0.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut overflow = lock(&self.overflow.0);
        let index = overflow.pop_front();
        self.n_overflow.0.store(overflow.len(), Ordering::Release);
        index
    }

    /// Waits until the tasks that must precede an access by the program have finished. Returns the error of
    /// the task that poisoned the region, if one did.
    pub fn wait(&self, base: usize, region: &Region, writes: bool) -> Result<()> {
        refuse_workers("an array cannot be read or written by the program inside of a task")?;
        let alive = |ticket| self.slots.is_alive(ticket);
        self.wait_for_all(|tracker, tickets| tracker.pending(base, region, writes, tickets, alive))?;
        self.failures.cause(base, region).map_or(Ok(()), Err)
    }

    /// Waits until every task on these allocations has finished.
    pub fn wait_idle(&self, bases: &[usize]) -> Result<()> {
        refuse_workers("memory cannot be taken back inside of a task")?;
        let alive = |ticket| self.slots.is_alive(ticket);
        for &base in bases {
            self.wait_for_all(|tracker, tickets| tracker.unfinished(base, tickets, alive))?;
        }
        Ok(())
    }

    /// Waits for the tasks that `find` finds.
    fn wait_for_all(&self, find: impl FnOnce(&Tracker<Ticket>, &mut Vec<Ticket>)) -> Result<()> {
        let mut submission = lock(&self.submission.0);
        let mut tickets = std::mem::take(&mut submission.waits);
        find(&submission.tracker, &mut tickets);
        if tickets.is_empty() {
            submission.waits = tickets;
            return Ok(());
        }
        drop(submission);
        let waited = tickets.drain(..).try_for_each(|ticket| self.wait_for(ticket));
        lock(&self.submission.0).waits = tickets;
        waited
    }

    /// Passes over every task that has been submitted and has not started; what they would have written is
    /// poisoned.
    pub fn cancel(&self) {
        let _submission = lock(&self.submission.0);
        self.cancelled.store(self.n_submitted.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether no task on this allocation is unfinished.
    pub fn is_idle(&self, base: usize) -> bool {
        let mut tickets = Vec::new();
        let submission = lock(&self.submission.0);
        submission.tracker.unfinished(base, &mut tickets, |ticket| self.slots.is_alive(ticket));
        tickets.is_empty()
    }

    /// Waits until no task is unfinished, however long it takes: what tasks use may be gone afterwards.
    pub fn wait_all(&self) {
        // Without a watchdog, waiting cannot fail.
        let _ = self.until_all_done(None);
    }

    fn until_all_done(&self, watchdog: Option<Duration>) -> Result<()> {
        let n_waiting = &self.done.0.n_waiting;
        n_waiting.fetch_add(1, Ordering::SeqCst);
        let done = self.sleep_until(watchdog, || self.is_all_done());
        n_waiting.fetch_sub(1, Ordering::SeqCst);
        done
    }

    /// Sleeps until `ready` holds, which the end of some task brings about.
    fn sleep_until(&self, watchdog: Option<Duration>, ready: impl Fn() -> bool) -> Result<()> {
        let bell = &self.done.0.bell;
        let Some(limit) = watchdog else {
            bell.sleep_until(ready);
            return Ok(());
        };
        let mut watch = Watch::new(limit, self.progress());
        while !bell.sleep_until_or(Some(watch.pause()), &ready) {
            if watch.is_over(self.progress()) {
                return Err(self.stuck(limit));
            }
        }
        Ok(())
    }

    /// Both counters only rise, so equal counters were equal when the first was read. Whoever has run a task
    /// or counts on others having done so has seen its submission counted.
    fn is_all_done(&self) -> bool {
        self.n_finished.0.load(Ordering::SeqCst) == self.n_submitted.0.load(Ordering::SeqCst)
    }

    /// Like [`Tasks::wait_all`], for the program.
    pub fn wait_submitted(&self) -> Result<()> {
        refuse_workers("tasks cannot be waited for inside of a task")?;
        self.until_all_done(self.watchdog)
    }

    fn wait_for(&self, ticket: Ticket) -> Result<()> {
        for _ in (0u32..).take(SPINS) {
            if !self.slots.is_alive(ticket) {
                return Ok(());
            }
            spin_loop();
        }
        let slot = self.slots.get(ticket.slot());
        {
            let mut links = lock(&slot.links);
            if !self.slots.is_alive(ticket) {
                return Ok(());
            }
            links.watched = true;
        }
        self.sleep_until(self.watchdog, || !self.slots.is_alive(ticket))
    }

    /// Runs a ready task and everything that follows from its end. Returns a successor to run next.
    fn run(&self, index: u32, worker: usize, reused: &mut Reused) -> Option<u32> {
        let slot = self.slots.get(index);
        {
            // SAFETY: this worker has found the task ready, and puts the slot on the free list later.
            let body = unsafe { slot.body() };
            let template = self.template(&body.template);
            let cause = if body.number < self.cancelled.load(Ordering::Relaxed) {
                Some(template.in_context(cancelled()).at(body.location))
            } else if self.failures.any() {
                self.failures.cause_of(&body.args, &template.reads)
            } else {
                None
            };
            let outcome = match cause {
                Some(cause) => Err(cause),
                None => self
                    .execute(body, worker, reused)
                    .map_err(|error| template.in_context(error).on_worker(worker).at(body.location)),
            };
            self.failures.record(&body.args[template.spec.n_inputs..], outcome);
        }
        let watched = {
            let mut links = lock(&slot.links);
            slot.finish();
            std::mem::swap(&mut links.successors, &mut reused.successors);
            std::mem::take(&mut links.watched)
        };
        reused.freed.push(index);
        let (mut next, mut pushed) = (None, false);
        for successor in reused.successors.drain(..) {
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
            self.done.0.bell.ring();
        }
        next
    }
}

impl Tasks {
    fn execute(&self, body: &Body, worker: usize, reused: &mut Reused) -> Result<()> {
        let template = self.template(&body.template);
        let known = match body.template {
            Found::Known(id) => Some(id),
            Found::Own(_) => None,
        };
        let scratch = reused.scratch(template.scratch_bytes, &self.workers[worker].larger);
        let spec = &mut reused.spec;
        if known.is_none() || reused.template != known {
            spec.args.clone_from(&template.spec.args);
            spec.ints.clone_from(&template.spec.ints);
            spec.n_inputs = template.spec.n_inputs;
            spec.accumulate = template.spec.accumulate;
            spec.in_place = template.spec.in_place;
            reused.template = known;
        }
        spec.scalars.clone_from(&body.scalars);
        let pointers = &body.pointers[..body.n_args as usize];
        // SAFETY: `Address` is a transparent wrapper of the pointer. The memory is valid by the contract of
        // `submit`; the tracker has ordered this task after every task that conflicts with it, and the borrow
        // checker keeps the program's own accesses away (`wait`). Inputs and outputs are different arrays.
        // The scratch is this worker's own, which executes one task at a time.
        let call = unsafe {
            let pointers = std::slice::from_raw_parts(pointers.as_ptr().cast::<*mut u8>(), pointers.len());
            Call::new(spec, pointers, scratch)
        };
        let kernel = template.implementation.kernel;
        let recorder = &self.workers[worker].recorder;
        let slot = recorder.begin(known.map_or(N_TEMPLATES as u32, TemplateId::number), 0);
        let outcome = call_kernel(kernel, &call);
        recorder.end(slot);
        outcome
    }
}

impl WorkSource for Tasks {
    fn poll(&self, worker: usize) -> bool {
        if !self.has_work(worker) {
            return false;
        }
        let mut reused = lock(&self.workers[worker].reused);
        let mut next = None;
        for _ in 0..BATCH {
            let Some(index) = next.take().or_else(|| self.pop_ready()) else { break };
            next = self.run(index, worker, &mut reused);
        }
        if let Some(index) = next {
            self.push_ready(index);
            self.bell.ring();
        }
        let n = reused.freed.len();
        if n > 0 {
            lock(&self.freed.0).append(&mut reused.freed);
            self.n_finished.0.fetch_add(n, Ordering::SeqCst);
            // Whoever finishes the last task sees that it is the last, and either sees the waiting thread or
            // is seen by it.
            if self.done.0.n_waiting.load(Ordering::SeqCst) > 0 && self.is_all_done() {
                self.done.0.bell.ring();
            }
        }
        n > 0
    }

    fn has_work(&self, worker: usize) -> bool {
        self.workers[worker].serves
            && (!self.ready.iter().all(Queue::is_empty) || self.n_overflow.0.load(Ordering::Acquire) > 0)
    }
}

#[cold]
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the task was cancelled before it started")
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
