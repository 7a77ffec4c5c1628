//! Threads that execute a graph: the driver of [progress](crate::progress) in real time.
//!
//! What may be executed is decided there; here are the calls, the bell that workers sleep on, the roster that
//! says who walks whose list, and the program's thread, which waits for steps. The thread of a device gives
//! it what may be executed, and hears of what has ended when it polls (`bound/later.rs`).

#![expect(unsafe_code, reason = "executes tasks when their dependencies are met")]

use super::bell::Bell;
use super::bound::BoundGraph;
use super::pool::{Pool, WorkSource};
use super::roster::Roster;
use super::waiter::Waiter;
use crate::graph::TaskId;
use crate::machine::MemoryId;
use crate::progress::{Driver, Fault, Outcome, Progress};
use crate::sync::{Arc, thread};
use std::time::Duration;

/// The workers of a pool on a graph.
pub(super) struct Threads {
    program: Arc<BoundGraph>,
    workers_bell: Arc<Bell>,
    roster: Arc<Roster>,
    host: Waiter,
}

impl Threads {
    /// The workers of this pool.
    pub fn new(program: Arc<BoundGraph>, pool: &Pool) -> Self {
        Threads { program, workers_bell: pool.bell(), roster: pool.roster(), host: Waiter::new() }
    }

    /// Sleeps until `finished` says `steps`, for at most `limit`. Returns whether it does.
    pub fn wait(&self, steps: u64, limit: Option<Duration>, finished: impl Fn() -> u64) -> bool {
        self.host.wait(steps, limit, finished)
    }
}

impl Driver for Threads {
    #[inline(always)]
    fn has_room(&self, worker: usize) -> bool {
        self.program.has_room(worker)
    }

    #[inline(always)]
    unsafe fn execute(&self, worker: usize, node: TaskId, step: u64) -> Outcome {
        // SAFETY: a worker polls on its own thread, and the rest is what the caller promises.
        unsafe {
            if self.program.is_later(worker) {
                return self.program.enqueue(worker, node, step);
            }
            self.program.execute(worker, node as usize, step);
        }
        Outcome::Done
    }

    #[inline(always)]
    fn ring(&self) {
        self.workers_bell.ring();
    }

    #[inline(always)]
    fn tell(&self, steps: u64, finished: impl Fn() -> u64) {
        self.host.tell(steps, finished);
    }

    #[inline(always)]
    fn served_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        self.roster.served_by(worker)
    }

    #[inline(always)]
    fn hand(&self, home: usize) -> usize {
        self.roster.hand(home)
    }

    fn pause(&self) {
        thread::yield_now();
    }

    fn task_of(&self, node: TaskId) -> TaskId {
        self.program.task_of(node)
    }

    fn missing(&self, task: TaskId, step: u64, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize)) {
        self.program.missing(task as usize, step, memory, each);
    }

    fn fail(&self, fault: Fault) {
        let runner = &self.program.runner;
        runner.fail(fault.error(|task| runner.name(task as usize).to_string()));
    }
}

impl WorkSource for Progress<Threads> {
    fn poll(&self, worker: usize) -> bool {
        let ended = |node, step| self.complete(worker, node, step);
        let has_ended = self.driver().program.collect(worker, ended);
        Progress::poll(self, worker) || has_ended
    }

    fn has_work(&self, worker: usize) -> bool {
        // What has not ended is asked about until it has.
        self.is_busy(worker) || Progress::has_work(self, worker)
    }

    fn is_busy(&self, worker: usize) -> bool {
        self.driver().program.is_busy(worker)
    }
}
