//! What passes between an open order and its scheduler, and what becomes of one that breaks the rules.
//!
//! A scheduler may be anybody's code, so nothing rests on what it does. A task is *offered* when it is ready,
//! and what a scheduler returns is *claimed*: one compare-and-swap of the task's counter, from offered to
//! taken, which succeeds once. It also makes visible what was written before the offer, whatever the
//! scheduler did in between.
//!
//! A scheduler that keeps what it was offered would stop everything. Whoever falls asleep has therefore been
//! refused after the last *event*: an offer or, where the scheduler listens, an end. If all workers have, no
//! task is under way and one is offered, then nothing will ever happen again. Events are counted where they
//! happen, by each worker for itself, and added up by those who have nothing to do.
//!
//! A scheduler that has broken the rules is not asked any more. The run has failed, so whatever is offered is
//! passed over, in the order of tasks, until all released steps are finished.

use super::Driver;
use super::dynamic::Dynamic;
use super::fault::{Fault, What};
use crate::error::panic_message;
use crate::graph::TaskId;
use crate::machine::MemoryId;
use crate::schedule::{Scheduler, Whereabouts};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// In the place of a counter: the task was offered to the scheduler.
pub(super) const OFFERED: u32 = u32::MAX - 1;
/// It was taken from there.
const TAKEN: u32 = u32::MAX;

/// No number of events.
const NEVER: u64 = u64::MAX;

/// What came of a worker's last question.
pub(super) struct Asked {
    /// The number of events before which it was refused, or [`NEVER`].
    refused: AtomicU64,
    /// Whether it is to note that it was refused, because it would fall asleep otherwise.
    is_tired: AtomicBool,
    /// Whether it was not refused but rested.
    has_rested: AtomicBool,
}

impl Default for Asked {
    fn default() -> Self {
        let (is_tired, has_rested) = (AtomicBool::new(false), AtomicBool::new(false));
        Asked { refused: AtomicU64::new(NEVER), is_tired, has_rested }
    }
}

impl Asked {
    /// The worker has something to do.
    #[inline]
    pub fn is_given_something(&self) {
        if self.refused.load(Ordering::Relaxed) != NEVER {
            self.refused.store(NEVER, Ordering::Relaxed);
        }
    }
}

/// Where data lie, for a scheduler that is being asked.
struct View<'a, D>(&'a Dynamic<D>);

impl<D: Driver> Whereabouts for View<'_, D> {
    fn missing(&self, task: TaskId, turn: usize, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize)) {
        let View(dynamic) = self;
        let step = dynamic.step_of(turn as u64, dynamic.turn_bits);
        dynamic.driver.missing(task, step, memory, each);
    }
}

impl<D: Driver> Dynamic<D> {
    /// Asks the scheduler something, or tells it. There is no answer if it panics.
    #[inline(always)]
    pub(super) fn ask<R>(&self, question: impl FnOnce(&dyn Scheduler) -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(|| question(&*self.appointed.scheduler))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                self.break_off(What::Panicked(panic_message(panic)));
                None
            }
        }
    }

    /// Whether a worker rests. Only where others take what it might take: a scheduler of somebody else may
    /// have given it a task that it returns to nobody else.
    fn is_resting(&self, worker: usize) -> bool {
        self.appointed.may_rest && self.driver.hand(worker) != worker
    }

    /// Gives a ready task to the scheduler. Whoever offers notes it afterwards, and rings.
    pub(super) fn offer(&self, task: TaskId, step: u64, by: Option<usize>) {
        // Whoever made it ready has seen the ends of all its predecessors, and passes that on by this store.
        self.pending[self.slot(step, task as usize)].store(OFFERED, Ordering::Release);
        if !self.is_broken.load(Ordering::Acquire) {
            self.ask(|scheduler| scheduler.ready(task, self.turn(step), by, &View(self)));
        }
    }

    /// Notes an event, for a worker on its own thread, or for all others.
    pub(super) fn note(&self, by: usize) {
        let events = &self.events[by].0;
        match by + 1 == self.events.len() {
            true => drop(events.fetch_add(1, Ordering::SeqCst)),
            false => events.store(events.load(Ordering::Relaxed) + 1, Ordering::Release),
        }
    }

    /// Events so far.
    fn n_events(&self) -> u64 {
        self.events.iter().map(|events| events.0.load(Ordering::SeqCst)).sum()
    }

    /// A task that the scheduler has for this worker.
    pub(super) fn take(&self, worker: usize) -> Option<(TaskId, u64)> {
        if self.is_resting(worker) && !self.is_broken.load(Ordering::Acquire) {
            return None;
        }
        if let Some(task) = self.take_once(worker) {
            return Some(task);
        }
        match self.asked[worker].0.is_tired.load(Ordering::Relaxed) {
            true => self.take_or_sleep(worker),
            false => None,
        }
    }

    /// Asks once more, and notes a refusal.
    #[cold]
    fn take_or_sleep(&self, worker: usize) -> Option<(TaskId, u64)> {
        let asked = &self.asked[worker].0;
        asked.is_tired.store(false, Ordering::Relaxed);
        let events = self.n_events();
        let task = self.take_once(worker);
        if task.is_none() {
            asked.refused.store(events, Ordering::SeqCst);
            self.look_for_kept(events);
        }
        task
    }

    #[inline(always)]
    fn take_once(&self, worker: usize) -> Option<(TaskId, u64)> {
        if self.is_broken.load(Ordering::Acquire) {
            return self.take_any();
        }
        let oldest = self.turn(self.n_complete());
        let (task, turn) = self.ask(|scheduler| scheduler.take(worker, oldest, &View(self)))??;
        match self.claim(worker, task, turn) {
            Ok(step) => Some((task, step)),
            Err(what) => {
                self.break_off(what);
                self.take_any()
            }
        }
    }

    /// Claims a task that the scheduler has returned; its step.
    #[inline(always)]
    fn claim(&self, worker: usize, task: TaskId, turn: usize) -> Result<u64, What> {
        let n_turns = self.turn_bits as usize + 1;
        if task as usize >= self.n_tasks || turn >= n_turns {
            return Err(What::Unknown { task, turn, n_tasks: self.n_tasks, n_turns });
        }
        let step = self.step_of(turn as u64, self.turn_bits);
        if !self.appointed.allowed.may(task, worker) {
            return Err(What::Forbidden { task, step, worker });
        }
        let counter = &self.pending[self.slot(step, task as usize)];
        match counter.compare_exchange(OFFERED, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(step),
            Err(TAKEN) => Err(What::Twice { task, step }),
            Err(_) => Err(What::Unready { task, step }),
        }
    }

    /// Whether the scheduler may give this worker something, so that it must not fall asleep. One that lets
    /// a worker sleep has refused it, in so many words or by having nothing.
    pub(super) fn may_be_given_something(&self, worker: usize) -> bool {
        if self.is_broken.load(Ordering::Acquire) {
            return self.find_offered().is_some();
        }
        let (asked, events) = (&self.asked[worker].0, self.n_events());
        let is_resting = self.is_resting(worker);
        let has_rested = asked.has_rested.load(Ordering::Relaxed);
        asked.has_rested.store(is_resting, Ordering::Relaxed);
        if asked.refused.load(Ordering::Relaxed) == events && is_resting == has_rested {
            return false;
        }
        if !is_resting && self.ask(|scheduler| scheduler.has_ready(worker)).unwrap_or(true) {
            asked.is_tired.store(true, Ordering::Relaxed);
            return true;
        }
        asked.refused.store(events, Ordering::SeqCst);
        self.look_for_kept(events);
        self.is_broken.load(Ordering::Acquire)
    }

    /// Ends the run if the scheduler has refused every worker since the last of so many events, though
    /// something is offered and nothing is under way.
    #[cold]
    fn look_for_kept(&self, events: u64) {
        let is_refused = |worker: usize| self.asked[worker].0.refused.load(Ordering::SeqCst) == events;
        let is_quiet = || {
            self.under_way.load(Ordering::SeqCst) == 0
                && self.n_events() == events
                && (0..self.asked.len()).all(is_refused)
        };
        // Asked again afterwards, because what is offered may be an offer that is just being made: whoever
        // makes it is not refused, or counts as under way until the event is noted.
        if self.n_complete() < self.released.load(Ordering::Acquire)
            && is_quiet()
            && let Some(slot) = self.find_offered()
            && is_quiet()
        {
            let (task, step) = self.at(slot);
            self.break_off(What::Kept { task, step });
        }
    }

    /// Does not ask the scheduler any more, which has broken the rules. Nobody is woken: whoever finds it
    /// goes on with what was offered, or rings anyway.
    #[cold]
    fn break_off(&self, what: What) {
        self.driver.fail(Fault { scheduler: Arc::clone(&self.appointed.name), what });
        self.is_broken.store(true, Ordering::Release);
    }

    /// The slot of something that was offered and not taken.
    fn find_offered(&self) -> Option<usize> {
        let n = self.pending.len();
        let first = self.searched.load(Ordering::Relaxed).min(n);
        let is_offered = |&slot: &usize| self.pending[slot].load(Ordering::Acquire) == OFFERED;
        (first..n).chain(0..first).find(is_offered)
    }

    /// Takes something that was offered, without the scheduler.
    #[cold]
    fn take_any(&self) -> Option<(TaskId, u64)> {
        loop {
            let slot = self.find_offered()?;
            let counter = &self.pending[slot];
            if counter.compare_exchange(OFFERED, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                self.searched.store(slot + 1, Ordering::Relaxed);
                return Some(self.at(slot));
            }
        }
    }

    /// The task and the step under way of a slot.
    pub(super) fn at(&self, slot: usize) -> (TaskId, u64) {
        let (task, generation) = (slot % self.n_tasks, slot / self.n_tasks);
        (task as TaskId, self.step_of(generation as u64, self.generation_bits))
    }

    /// What a scheduler keeps though all workers have asked, where nothing will happen any more.
    pub(crate) fn find_kept(&self) -> Option<Fault> {
        let (task, step) = self.at(self.find_offered()?);
        Some(Fault { scheduler: Arc::clone(&self.appointed.name), what: What::Kept { task, step } })
    }
}
