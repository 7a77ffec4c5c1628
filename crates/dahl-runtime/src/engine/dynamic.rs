//! Dynamic execution: tasks are taken as they become ready, by whom a [`Scheduler`] decides.
//!
//! A worker that makes a task ready goes on with it at once, while the data is in its cache; what else it
//! makes ready goes to the scheduler.
//!
//! Every task counts down its predecessors. Steps overlap, so the counters exist in G *generations*, used in
//! turn: step `s` uses generation `s % G`. Let W be the steps that may be under way
//! ([`steps_under_way`](crate::schedule::steps_under_way)), and D the steps that the longest edge reaches
//! back. W + D generations suffice:
//!
//! - A step is *admitted* when the step W before it is complete. Tasks without a predecessor in their own
//!   step wait for the admission, and so all tasks do. If steps below `c` are complete, only tasks of steps
//!   from `c` to below `c + W` run.
//! - They count down into steps from `c` to below `c + W + D`, which have generations of their own.
//! - The generation of step `s` is set up again, for step `s + G`, when step `s` is complete and before that
//!   is told. Whoever counts down into step `s + G` belongs to a step from `s + G - D` on, which is at least
//!   `s + W`, and was admitted after that.
//!
//! Steps complete in order, because a step's completion is one of the things the next one's completion
//! counts. Where edges reach back one step, W is 2 and D is 1. G is rounded up to a power of two, so that
//! nobody divides. Schedulers see the *turn* of a step, its number modulo W, rounded up likewise. Of the
//! steps under way each has its own, so the step of a task that was taken and has not run follows from its
//! turn.

#![expect(unsafe_code, reason = "executes tasks when their dependencies are met")]

use super::bell::Bell;
use super::bound::BoundGraph;
use super::executor::Executor;
use super::pool::{Pool, WorkSource};
use super::roster::Roster;
use super::waiter::Waiter;
use super::watchdog::Blocked;
use crate::graph::{Edge, TaskId};
use crate::schedule::{Scheduler, longest_distance, n_turns, steps_under_way};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, lock};
use crate::trace::recorder::Look;
use std::time::Duration;

/// What has been let in, decided under a lock that is taken once per step.
#[derive(Default)]
struct Gate {
    released: u64,
    admitted: u64,
}

/// A graph whose tasks are taken as they become ready.
pub(super) struct Dynamic {
    program: Arc<BoundGraph>,
    n_tasks: usize,
    /// Steps that may be under way.
    window: u64,
    /// Turns less one: the bits of a step's number that are its turn.
    turn_bits: u64,
    /// Generations less one: the bits of a step's number that are its generation.
    generation_bits: u64,
    /// Tasks that follow each task, with the distance in steps.
    successors: Vec<Vec<(u32, u64)>>,
    /// Number of predecessors of each task in a step that has all others before it, with the admission
    /// counted among them.
    predecessors: Vec<u32>,
    /// The tasks that wait for the admission of their step.
    roots: Vec<u32>,
    /// Of each generation, what each task still waits for.
    pending: Vec<AtomicU32>,
    /// Of each generation, what its step's completion still waits for.
    remaining: Vec<AtomicU32>,
    complete: AtomicU64,
    gate: Mutex<Gate>,
    scheduler: Box<dyn Scheduler>,
    workers_bell: Arc<Bell>,
    roster: Arc<Roster>,
    host: Waiter,
}

impl Dynamic {
    /// Prepares the counters of a graph.
    pub fn new(
        program: Arc<BoundGraph>,
        n_tasks: usize,
        edges: &[Edge],
        scheduler: Box<dyn Scheduler>,
        pool: &Pool,
    ) -> Self {
        let (window, distance) = (steps_under_way(edges), longest_distance(edges));
        let n_generations = (window + distance).next_power_of_two();
        let mut successors = vec![Vec::new(); n_tasks];
        let mut predecessors = vec![0; n_tasks];
        let mut is_root = vec![true; n_tasks];
        let mut pairs: Vec<(u32, u32, u32)> = edges.iter().map(|e| (e.from, e.to, e.distance)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for &(from, to, distance) in &pairs {
            successors[from as usize].push((to, u64::from(distance)));
            predecessors[to as usize] += 1;
            is_root[to as usize] &= distance > 0;
        }
        let roots: Vec<u32> = (0..n_tasks as u32).filter(|&task| is_root[task as usize]).collect();
        roots.iter().for_each(|&task| predecessors[task as usize] += 1);
        let dynamic = Dynamic {
            program,
            n_tasks,
            window: window as u64,
            turn_bits: n_turns(window) as u64 - 1,
            generation_bits: n_generations as u64 - 1,
            successors,
            predecessors,
            roots,
            pending: (0..n_tasks * n_generations).map(|_| AtomicU32::new(0)).collect(),
            remaining: (0..n_generations).map(|_| AtomicU32::new(0)).collect(),
            complete: AtomicU64::new(0),
            gate: Mutex::default(),
            scheduler,
            workers_bell: pool.bell(),
            roster: pool.roster(),
            host: Waiter::new(),
        };
        for step in 0..n_generations as u64 {
            dynamic.set_up(step);
        }
        // Nothing comes before the first step.
        for (_, to, distance) in pairs {
            for step in 0..u64::from(distance) {
                dynamic.pending[dynamic.slot(step, to as usize)].fetch_sub(1, Ordering::Relaxed);
            }
        }
        dynamic.remaining[0].fetch_sub(1, Ordering::Relaxed);
        dynamic
    }

    /// Sets the counters of a step's generation. Nobody may be using that generation.
    fn set_up(&self, step: u64) {
        let first = self.slot(step, 0);
        for (counter, &predecessors) in self.pending[first..].iter().zip(&self.predecessors) {
            counter.store(predecessors, Ordering::Relaxed);
        }
        // The completion of the previous step counts too, so that steps complete in order.
        self.remaining[self.generation(step)].store(self.n_tasks as u32 + 1, Ordering::Relaxed);
    }

    fn generation(&self, step: u64) -> usize {
        (step & self.generation_bits) as usize
    }

    fn slot(&self, step: u64, task: usize) -> usize {
        self.generation(step) * self.n_tasks + task
    }

    fn turn(&self, step: u64) -> usize {
        (step & self.turn_bits) as usize
    }

    /// Admits what may be admitted.
    fn admit(&self) {
        let mut gate = lock(&self.gate);
        while gate.admitted < gate.released
            && gate.admitted < self.complete.load(Ordering::Acquire) + self.window
        {
            for &task in &self.roots {
                if self.count_down(gate.admitted, task) {
                    self.scheduler.push(task, self.turn(gate.admitted), None);
                }
            }
            gate.admitted += 1;
        }
        drop(gate);
        self.workers_bell.ring();
    }

    /// One predecessor less; the last one makes the task ready, which is then the caller's to run or to
    /// offer.
    fn count_down(&self, step: u64, task: TaskId) -> bool {
        self.pending[self.slot(step, task as usize)].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Runs a task; returns one that it made ready, for the same worker to go on with.
    fn run(&self, worker: usize, task: TaskId, step: u64) -> Option<(TaskId, u64)> {
        // SAFETY: we are on the worker's thread, the step has been admitted, so it was released, and all
        // predecessors have counted this task down after they ran (`AcqRel`).
        unsafe { self.program.execute(worker, task as usize, step) };
        let mut next = None;
        let mut offered = false;
        for &(successor, distance) in &self.successors[task as usize] {
            let step = step + distance;
            if !self.count_down(step, successor) {
                continue;
            }
            if next.is_none() {
                next = Some((successor, step));
            } else {
                self.scheduler.push(successor, self.turn(step), Some(worker));
                offered = true;
            }
        }
        if offered {
            self.workers_bell.ring();
        }
        self.finish_one(step);
        next
    }

    /// One thing less that the completion of `step` waits for.
    fn finish_one(&self, mut step: u64) {
        while self.remaining[self.generation(step)].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.set_up(step + self.generation_bits + 1);
            self.complete.store(step + 1, Ordering::SeqCst);
            self.admit();
            self.host.tell(step + 1, || self.finished());
            step += 1;
        }
    }
}

impl WorkSource for Dynamic {
    fn poll(&self, worker: usize) -> bool {
        let mut ran = false;
        while !self.roster.is_resting(worker)
            && let Some((task, taken)) =
                self.scheduler.pop(worker, self.turn(self.complete.load(Ordering::Relaxed)))
        {
            // The step of a task that was taken and has not run is under way: the one from `complete` on that
            // has its turn.
            let complete = self.complete.load(Ordering::Acquire);
            let step = complete + ((taken as u64).wrapping_sub(complete) & self.turn_bits);
            let mut next = Some((task, step));
            while let Some((task, step)) = next {
                next = self.run(worker, task, step);
            }
            ran = true;
        }
        ran
    }

    fn has_work(&self, worker: usize) -> bool {
        !self.roster.is_resting(worker) && self.scheduler.has_ready(worker)
    }
}

impl Executor for Dynamic {
    fn release(&self, step: u64) {
        lock(&self.gate).released = step;
        self.admit();
    }

    fn finished(&self) -> u64 {
        match self.n_tasks {
            0 => lock(&self.gate).released,
            _ => self.complete.load(Ordering::Acquire),
        }
    }

    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool {
        self.host.wait(steps, limit, || self.finished())
    }

    fn blocked(&self, looks: &[Look]) -> Vec<Blocked> {
        let (complete, admitted) = (self.complete.load(Ordering::Acquire), lock(&self.gate).admitted);
        let mut predecessors = vec![Vec::new(); self.n_tasks];
        for (task, successors) in self.successors.iter().enumerate() {
            for &(successor, distance) in successors {
                predecessors[successor as usize].push((task, distance));
            }
        }
        let waits = |task: usize, step: u64| {
            (complete..admitted).contains(&step)
                && self.pending[self.slot(step, task)].load(Ordering::Acquire) > 0
        };
        let runs = |task: usize, step: u64| {
            let running = looks.iter().filter_map(|look| look.running);
            running.into_iter().any(|(id, of, _)| (id as usize, of) == (task, step as u32))
        };
        let mut blocked: Vec<(bool, Blocked)> = Vec::new();
        for step in complete..admitted {
            for task in (0..self.n_tasks).filter(|&task| waits(task, step)) {
                let before = |&(from, distance): &(usize, u64)| Some((from, step.checked_sub(distance)?));
                let of_task: Vec<(usize, u64)> = predecessors[task].iter().filter_map(before).collect();
                let is_first = !of_task.iter().any(|&(from, step)| waits(from, step));
                let unfinished =
                    of_task.into_iter().filter(|&(from, step)| waits(from, step) || runs(from, step));
                let awaited = unfinished.map(|(from, step)| (from as u32, step, String::new())).collect();
                blocked.push((!is_first, Blocked { worker: None, task: task as u32, step, awaited }));
            }
        }
        blocked.sort_by_key(|(is_later, _)| *is_later);
        blocked.into_iter().map(|(_, blocked)| blocked).collect()
    }
}
