//! Dynamic execution: tasks are taken as they become ready, by whom a [`Scheduler`] decides.
//!
//! Where the scheduler lets it, a worker that makes a task ready goes on with it at once, while the data is
//! in its cache; what else it makes ready goes to the scheduler (`offers.rs`). If it began a task and is told
//! later that it has ended, what became ready is kept for the time when it is polled next.
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

#![expect(unsafe_code, reason = "has tasks executed when their dependencies are met")]

use super::offers::{Asked, OFFERED};
use super::{Blocked, Doing, Driver, Outcome};
use crate::graph::{Edge, TaskId};
use crate::schedule::{Appointed, longest_distance, n_turns, steps_under_way};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, Padded, lock};

/// What has been let in, decided under a lock that is taken once per step.
#[derive(Default)]
struct Gate {
    released: u64,
    admitted: u64,
}

/// A graph whose tasks are taken as they become ready.
pub(crate) struct Dynamic<D> {
    pub(super) driver: D,
    pub(super) n_tasks: usize,
    /// Steps that may be under way.
    window: u64,
    /// Turns less one: the bits of a step's number that are its turn.
    pub(super) turn_bits: u64,
    /// Generations less one: the bits of a step's number that are its generation.
    pub(super) generation_bits: u64,
    /// Tasks that follow each task, with the distance in steps.
    successors: Vec<Vec<(u32, u32)>>,
    /// Number of predecessors of each task in a step that has all others before it, with the admission
    /// counted among them.
    predecessors: Vec<u32>,
    /// The tasks that wait for the admission of their step.
    roots: Vec<u32>,
    /// Of each generation, what each task still waits for; then whether it was offered, and taken.
    pub(super) pending: Vec<AtomicU32>,
    /// Of each generation, what its step's completion still waits for.
    remaining: Vec<AtomicU32>,
    complete: AtomicU64,
    gate: Mutex<Gate>,
    /// Steps that are released, for those who must not wait for the gate.
    pub(super) released: AtomicU64,
    pub(super) appointed: Appointed,
    /// Whether the scheduler hears of starts and ends.
    listens: bool,
    /// Whether workers go on with what they made ready.
    goes_on: bool,
    /// For each worker, the slot of a task that it made ready when another one ended, or [`NOTHING`].
    kept: Vec<Padded<AtomicU64>>,
    /// For each worker, what came of its last question to the scheduler.
    pub(super) asked: Vec<Padded<Asked>>,
    /// Things that happened which the scheduler may answer otherwise after: for each worker, and for all
    /// others.
    pub(super) events: Vec<Padded<AtomicU64>>,
    /// Tasks that were begun and have not ended, and admissions. A task that ends before it is counted makes
    /// it negative for a moment.
    pub(super) under_way: AtomicI64,
    /// Whether the scheduler has failed and is not asked any more.
    pub(super) is_broken: AtomicBool,
    /// Where to look first for what it left behind.
    pub(super) searched: AtomicUsize,
}

/// No slot.
const NOTHING: u64 = u64::MAX;

impl<D: Driver> Dynamic<D> {
    /// Prepares the counters of a graph for so many workers.
    pub fn new(driver: D, n_tasks: usize, n_workers: usize, edges: &[Edge], appointed: Appointed) -> Self {
        let (window, distance) = (steps_under_way(edges), longest_distance(edges));
        let n_generations = (window + distance).next_power_of_two();
        let mut successors = vec![Vec::new(); n_tasks];
        let mut predecessors = vec![0; n_tasks];
        let mut is_root = vec![true; n_tasks];
        let mut pairs: Vec<(u32, u32, u32)> = edges.iter().map(|e| (e.from, e.to, e.distance)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for &(from, to, distance) in &pairs {
            successors[from as usize].push((to, distance));
            predecessors[to as usize] += 1;
            is_root[to as usize] &= distance > 0;
        }
        let roots: Vec<u32> = (0..n_tasks as u32).filter(|&task| is_root[task as usize]).collect();
        roots.iter().for_each(|&task| predecessors[task as usize] += 1);
        let dynamic = Dynamic {
            driver,
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
            released: AtomicU64::new(0),
            listens: appointed.scheduler.listens(),
            goes_on: appointed.scheduler.lets_go_on(),
            appointed,
            asked: (0..n_workers).map(|_| Padded::default()).collect(),
            events: (0..=n_workers).map(|_| Padded::default()).collect(),
            under_way: AtomicI64::new(0),
            is_broken: AtomicBool::new(false),
            searched: AtomicUsize::new(0),
            kept: (0..n_workers).map(|_| Padded(AtomicU64::new(NOTHING))).collect(),
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

    pub(super) fn slot(&self, step: u64, task: usize) -> usize {
        self.generation(step) * self.n_tasks + task
    }

    pub(super) fn turn(&self, step: u64) -> usize {
        (step & self.turn_bits) as usize
    }

    /// Admits what may be admitted.
    fn admit(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let mut gate = lock(&self.gate);
        while gate.admitted < gate.released
            && gate.admitted < self.complete.load(Ordering::Acquire) + self.window
        {
            for &task in &self.roots {
                if self.count_down(gate.admitted, task) {
                    self.offer(task, gate.admitted, None);
                }
            }
            gate.admitted += 1;
        }
        drop(gate);
        self.note(self.kept.len());
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.driver.ring();
    }

    /// One predecessor less; the last one makes the task ready, which is then the caller's to run or to
    /// offer.
    fn count_down(&self, step: u64, task: TaskId) -> bool {
        self.pending[self.slot(step, task as usize)].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Runs a task; returns one that it made ready, for the same worker to go on with.
    fn run(&self, worker: usize, task: TaskId, step: u64) -> Option<(TaskId, u64)> {
        if self.listens {
            self.ask(|scheduler| scheduler.started(task, self.turn(step), worker));
        }
        // SAFETY: we poll for the worker, the step has been admitted, so it was released, and all
        // predecessors have counted this task down after they ran (`AcqRel`). Whoever made it ready runs it,
        // or has offered it and it was claimed once.
        match unsafe { self.driver.execute(worker, task, step) } {
            Outcome::Done => self.end((worker, worker), task, step),
            Outcome::Later => {
                self.under_way.fetch_add(1, Ordering::SeqCst);
                None
            }
        }
    }

    /// A task of a worker has ended, as somebody notes; returns one that it made ready.
    #[inline(always)]
    fn end(&self, (worker, noted_by): (usize, usize), task: TaskId, step: u64) -> Option<(TaskId, u64)> {
        if self.listens {
            self.ask(|scheduler| scheduler.ended(task, self.turn(step), worker));
        }
        let mut next = None;
        let mut is_news = self.listens;
        for &(successor, distance) in &self.successors[task as usize] {
            let step = step + u64::from(distance);
            if !self.count_down(step, successor) {
                continue;
            }
            if self.goes_on && next.is_none() && self.appointed.allowed.may(successor, worker) {
                next = Some((successor, step));
            } else {
                self.offer(successor, step, Some(worker));
                is_news = true;
            }
        }
        if is_news {
            self.note(noted_by);
            self.driver.ring();
        }
        self.finish_one(step);
        next
    }

    /// A task that was begun has ended. What it made ready waits for the worker, which is polled next, or
    /// goes to the scheduler.
    pub fn complete(&self, worker: usize, task: TaskId, step: u64) {
        let others = self.kept.len();
        if let Some((next, of)) = self.end((worker, others), task, step) {
            let (kept, slot) = (&self.kept[worker].0, self.slot(of, next as usize) as u64);
            if kept.compare_exchange(NOTHING, slot, Ordering::Release, Ordering::Relaxed).is_err() {
                self.offer(next, of, Some(worker));
            }
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.note(others);
        self.driver.ring();
    }

    /// The task that waits for this worker.
    fn take_kept(&self, worker: usize) -> Option<(TaskId, u64)> {
        let kept = &self.kept[worker].0;
        if kept.load(Ordering::Relaxed) == NOTHING {
            return None;
        }
        let slot = kept.swap(NOTHING, Ordering::Acquire);
        let n_tasks = self.n_tasks as u64;
        // Only its worker takes it, so it is still there.
        Some(((slot % n_tasks) as TaskId, self.step_of(slot / n_tasks, self.generation_bits)))
    }

    /// Steps that are complete.
    pub(super) fn n_complete(&self) -> u64 {
        self.complete.load(Ordering::Relaxed)
    }

    /// The step under way whose number has these last bits: that of a task that was taken and has not run.
    pub(super) fn step_of(&self, last: u64, bits: u64) -> u64 {
        let complete = self.complete.load(Ordering::Acquire);
        complete + (last.wrapping_sub(complete) & bits)
    }

    /// One thing less that the completion of `step` waits for.
    fn finish_one(&self, mut step: u64) {
        while self.remaining[self.generation(step)].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.set_up(step + self.generation_bits + 1);
            self.complete.store(step + 1, Ordering::SeqCst);
            self.admit();
            self.driver.tell(step + 1, || self.finished());
            step += 1;
        }
    }
}

impl<D: Driver> Dynamic<D> {
    /// Who executes.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// See [`Progress::poll`](super::Progress::poll).
    pub fn poll(&self, worker: usize) -> bool {
        let mut ran = false;
        while self.driver.has_room(worker)
            && let Some(taken) = self.take_kept(worker).or_else(|| self.take(worker))
        {
            self.asked[worker].0.is_given_something();
            let mut next = Some(taken);
            while let Some((task, step)) = next {
                next = self.run(worker, task, step);
            }
            ran = true;
        }
        ran
    }

    /// See [`Progress::has_work`](super::Progress::has_work).
    pub fn has_work(&self, worker: usize) -> bool {
        let is_kept = || self.kept[worker].0.load(Ordering::Relaxed) != NOTHING;
        self.driver.has_room(worker) && (is_kept() || self.may_be_given_something(worker))
    }

    /// See [`Progress::release`](super::Progress::release).
    pub fn release(&self, step: u64) {
        lock(&self.gate).released = step;
        self.released.store(step, Ordering::Release);
        self.admit();
    }

    /// See [`Progress::finished`](super::Progress::finished).
    pub fn finished(&self) -> u64 {
        match self.n_tasks {
            0 => lock(&self.gate).released,
            _ => self.complete.load(Ordering::Acquire),
        }
    }

    /// See [`Progress::blocked`](super::Progress::blocked).
    pub fn blocked(&self, doing: &[Doing]) -> Vec<Blocked> {
        let (complete, admitted) = (self.complete.load(Ordering::Acquire), lock(&self.gate).admitted);
        let mut predecessors = vec![Vec::new(); self.n_tasks];
        for (task, successors) in self.successors.iter().enumerate() {
            for &(successor, distance) in successors {
                predecessors[successor as usize].push((task, u64::from(distance)));
            }
        }
        let waits = |task: usize, step: u64| {
            (complete..admitted).contains(&step)
                && (1..OFFERED).contains(&self.pending[self.slot(step, task)].load(Ordering::Acquire))
        };
        let runs = |task: usize, step: u64| {
            let mut running = doing.iter().filter_map(|doing| doing.running);
            running.any(|(id, of)| (id as usize, of) == (task, step as u32))
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
