//! Replay: every worker walks its own list of tasks, step after step, and waits only for other workers.
//!
//! Because a worker executes its list in order, one number says how far it is: the tasks it has finished since the
//! beginning, over all steps. This number is its *clock*. A task that depends on another worker's task waits until
//! that worker's clock has passed it. Compared with counting down predecessors, nothing is ever reset, no
//! read-modify-write is needed, steps overlap by themselves (a clock simply keeps rising), and dependencies within
//! a worker cost nothing. Most waits are dropped when the program is made, because an earlier wait of the same
//! worker implies them.
//!
//! Memory order: a clock is stored with `Release` after the kernel has run, and loaded with `Acquire` before a
//! kernel that depends on it, so everything the first kernel wrote is visible to the second.

#![expect(unsafe_code, reason = "executes tasks when their dependencies are met")]

use super::bell::Bell;
use super::local::{Padded, PerWorker};
use super::pool::Source;
use super::program::Program;
use super::watchdog::Blocked;
use crate::graph::Edge;
use crate::plan::Placement;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::trace::recorder::Look;
use std::time::Duration;

/// A task in a worker's list.
struct Entry {
    task: u32,
    /// Whether another worker waits for this task, so that the clock must be shown to it at once.
    published: bool,
    waits: Vec<Wait>,
}

/// Waits for `clock[worker] > position + (step - distance) * tasks per step`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wait {
    worker: usize,
    position: u64,
    distance: u64,
}

/// How far a worker is; only it knows.
#[derive(Default)]
struct Track {
    step: u64,
    position: usize,
}

/// A planned graph that is replayed.
pub(super) struct Replay {
    program: Arc<Program>,
    lists: Vec<Vec<Entry>>,
    tracks: PerWorker<Track>,
    clocks: Vec<Padded<AtomicU64>>,
    /// Steps that may be executed.
    released: AtomicU64,
    /// The number of finished steps that the program waits for.
    wanted: AtomicU64,
    workers_bell: Arc<Bell>,
    host_bell: Bell,
}

impl Replay {
    /// Compiles a placement and all edges into lists with waits.
    pub fn new(
        program: Arc<Program>,
        placement: &Placement,
        edges: &[Edge],
        workers_bell: Arc<Bell>,
    ) -> Self {
        let n_workers = placement.order.len();
        Replay {
            program,
            lists: compile(placement, edges),
            tracks: PerWorker::new(n_workers, |_| Track::default()),
            clocks: (0..n_workers).map(|_| Padded::default()).collect(),
            released: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            workers_bell,
            host_bell: Bell::default(),
        }
    }

    /// Lets workers execute all steps before `step`.
    pub fn release(&self, step: u64) {
        self.released.store(step, Ordering::Release);
        self.workers_bell.ring();
    }

    /// Steps that all workers have finished.
    pub fn finished(&self) -> u64 {
        let of = |(clock, list): (&Padded<AtomicU64>, &Vec<Entry>)| {
            (!list.is_empty()).then(|| clock.0.load(Ordering::Acquire) / list.len() as u64)
        };
        let released = || self.released.load(Ordering::Acquire);
        self.clocks.iter().zip(&self.lists).filter_map(of).min().unwrap_or_else(released)
    }

    /// Sleeps until `steps` steps are finished, for at most `limit`. Returns whether they are.
    pub fn wait(&self, steps: u64, limit: Option<Duration>) -> bool {
        if self.finished() >= steps {
            return true;
        }
        self.wanted.store(steps, Ordering::SeqCst);
        let done = self.host_bell.sleep_until_or(limit, || self.finished() >= steps);
        self.wanted.store(u64::MAX, Ordering::SeqCst);
        done
    }

    #[inline(always)]
    fn is_met(&self, wait: &Wait, step: u64) -> bool {
        if step < wait.distance {
            return true;
        }
        let needed = (step - wait.distance) * self.lists[wait.worker].len() as u64 + wait.position;
        self.clocks[wait.worker].0.load(Ordering::Acquire) > needed
    }

    fn advance(&self, worker: usize, track: &mut Track) -> bool {
        let list = &self.lists[worker];
        let mut ran = false;
        loop {
            if track.step >= self.released.load(Ordering::Acquire) {
                return ran;
            }
            for (position, entry) in list.iter().enumerate().skip(track.position) {
                if !entry.waits.iter().all(|wait| self.is_met(wait, track.step)) {
                    track.position = position;
                    return ran;
                }
                // SAFETY: we are on the worker's thread, the step is released, so its ports are filled and the state
                // is bound; dependencies on this worker hold by list order, those on others by the waits above.
                unsafe { self.program.execute(worker, entry.task as usize, track.step) };
                ran = true;
                if entry.published {
                    let done = track.step * list.len() as u64 + position as u64 + 1;
                    self.clocks[worker].0.store(done, Ordering::Release);
                    self.workers_bell.ring();
                }
            }
            track.position = 0;
            track.step += 1;
            self.clocks[worker].0.store(track.step * list.len() as u64, Ordering::Release);
            // Either the program's thread sees this clock, or we see that it waits (see `bell`).
            fence(Ordering::SeqCst);
            if track.step >= self.wanted.load(Ordering::Relaxed) {
                self.host_bell.ring();
            }
        }
    }
}

impl Replay {
    /// What keeps each worker from its next task, for the watchdog. `looks` says what the workers did last.
    pub fn blocked(&self, looks: &[Look]) -> Vec<Blocked> {
        let released = self.released.load(Ordering::Acquire);
        let of_worker = |(worker, look): (usize, &Look)| {
            let list = &self.lists[worker];
            if list.is_empty() || look.running.is_some() {
                return None;
            }
            // A clock is shown only where others wait for it, so the last event may be further.
            let clock = self.clocks[worker].0.load(Ordering::Acquire);
            let after = |(task, step): (u32, u32)| {
                let position = list.iter().position(|entry| entry.task == task)?;
                Some(u64::from(step) * list.len() as u64 + position as u64 + 1)
            };
            let done = look.last.and_then(after).map_or(clock, |done| done.max(clock));
            let (step, position) = (done / list.len() as u64, (done % list.len() as u64) as usize);
            if step >= released {
                return None;
            }
            let awaited = |wait: &Wait| {
                let (other, before) = (&self.lists[wait.worker], step - wait.distance);
                let (needs, at) =
                    (before * other.len() as u64 + wait.position + 1, &self.clocks[wait.worker].0);
                let at = at.load(Ordering::Acquire);
                let note =
                    format!(" on worker {}, whose clock is at {at} and must reach {needs}", wait.worker);
                (other[wait.position as usize].task, before, note)
            };
            let unmet = list[position].waits.iter().filter(|wait| !self.is_met(wait, step));
            let awaited = unmet.map(awaited).collect();
            Some(Blocked { worker: Some(worker), task: list[position].task, step, awaited })
        };
        looks.iter().enumerate().filter_map(of_worker).collect()
    }
}

impl Source for Replay {
    fn poll(&self, worker: usize) -> bool {
        if self.lists[worker].is_empty() {
            return false;
        }
        // SAFETY: the pool calls `poll` on the thread of `worker`, and `advance` does not come back here.
        unsafe { self.tracks.with(worker, |track| self.advance(worker, track)) }
    }

    fn has_work(&self, worker: usize) -> bool {
        // SAFETY: as in `poll`.
        let (step, position) = unsafe { self.tracks.with(worker, |track| (track.step, track.position)) };
        let released = step < self.released.load(Ordering::Acquire);
        let entry = self.lists[worker].get(position);
        released && entry.is_some_and(|entry| entry.waits.iter().all(|wait| self.is_met(wait, step)))
    }
}

fn compile(placement: &Placement, edges: &[Edge]) -> Vec<Vec<Entry>> {
    let workers = placement.workers();
    let mut position = vec![0_u64; workers.len()];
    for order in &placement.order {
        for (i, &task) in order.iter().enumerate() {
            position[task as usize] = i as u64;
        }
    }
    let mut incoming: Vec<Vec<Wait>> = vec![Vec::new(); workers.len()];
    for edge in edges {
        let (from, to) = (edge.from as usize, edge.to as usize);
        if workers[from] != workers[to] {
            let distance = u64::from(edge.distance);
            incoming[to].push(Wait { worker: workers[from], position: position[from], distance });
        }
    }
    let lengths: Vec<i64> = placement.order.iter().map(|order| order.len() as i64).collect();
    // What a wait asks of the other worker's clock, relative to the current step.
    let level = |wait: &Wait| wait.position as i64 - wait.distance as i64 * lengths[wait.worker];
    let mut published = vec![false; workers.len()];
    let mut lists = Vec::new();
    for order in &placement.order {
        // The highest level waited for so far, per worker. The whole previous step has been waited for before.
        let mut reached = vec![i64::MIN; lengths.len()];
        for wait in order.iter().flat_map(|&task| &incoming[task as usize]) {
            reached[wait.worker] = reached[wait.worker].max(level(wait) - lengths[wait.worker]);
        }
        let mut list = Vec::new();
        for &task in order {
            let mut waits: Vec<Wait> = Vec::new();
            for (other, reached) in reached.iter_mut().enumerate() {
                let strongest = incoming[task as usize]
                    .iter()
                    .filter(|w| w.worker == other)
                    .max_by_key(|wait| level(wait));
                if let Some(wait) = strongest.filter(|wait| level(wait) > *reached) {
                    *reached = level(wait);
                    published[placement.order[other][wait.position as usize] as usize] = true;
                    waits.push(*wait);
                }
            }
            list.push(Entry { task, published: false, waits });
        }
        lists.push(list);
    }
    for entry in lists.iter_mut().flatten() {
        entry.published = published[entry.task as usize];
    }
    lists
}
