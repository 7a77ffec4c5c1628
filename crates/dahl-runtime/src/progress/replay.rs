//! Replay: every worker walks its own list of tasks, step after step, and waits only for other workers.
//!
//! Because a worker executes its list in order, one number says how far it is: the tasks it has finished
//! since the beginning, over all steps. This number is its *clock*. A task that depends on another worker's
//! task waits until that worker's clock has passed it. Compared with counting down predecessors, nothing is
//! ever reset, no read-modify-write is needed, steps overlap by themselves (a clock simply keeps rising), and
//! dependencies within a worker cost nothing. Most waits are dropped when the lists are made (`lists.rs`),
//! because an earlier wait of the same worker implies them.
//!
//! Tasks that *float* may be taken over by a worker that would otherwise wait. Each has two numbers of its
//! own: the steps for which it has been claimed and those for which it is done. Whoever raises the first by
//! one executes the task; when the list of its own worker comes to it after that, it is passed over. Since
//! nobody knows who executes it, everything before and after it is waited for explicitly, also on its own
//! worker.
//!
//! A list is walked by its own worker or, while that one rests, by another, as the driver says. Who walks it
//! has the lock of its track, which is never waited for: whoever finds it taken comes back later.
//!
//! A worker that answers *later* goes on with its list while it has room: it executes what it has begun in
//! order, so what is on the list before is over in time. For everybody else the clock rises when a task is
//! complete. Such a list is *behind*: its clock is less than what was walked. Its *tail* has both, under a
//! lock that nobody takes for lists that are never behind. Nobody else walks a list that is behind.
//!
//! Memory order: a clock (or the number of steps done) is stored with `Release` after the kernel has run, and
//! loaded with `Acquire` before a kernel that depends on it, so everything the first kernel wrote is visible
//! to the second.

#![expect(unsafe_code, reason = "has tasks executed when their dependencies are met")]

use super::lists::{Entry, FIXED, Lists, Loose, Wait};
use super::{Blocked, Doing, Driver, Outcome};
use crate::graph::{Edge, TaskId};
use crate::machine::MemoryId;
use crate::schedule::Allowed;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, Padded, lock, try_lock};

/// A task that any worker of its memory and code may execute.
struct Float {
    node: TaskId,
    /// The worker whose list it is in.
    home: usize,
    waits: (u32, u32),
    /// Steps for which somebody has taken it.
    claimed: Padded<AtomicU64>,
    /// Steps for which it has been executed.
    done: AtomicU64,
}

impl Float {
    fn new(Loose { node, home, waits }: Loose) -> Self {
        Float { node, home, waits, claimed: Padded::default(), done: AtomicU64::new(0) }
    }
}

/// What came of the attempt to take a floating task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    Begun,
    Gone,
    NotReady,
}

/// How far a list has been walked; only who walks it knows.
#[derive(Default)]
struct Track {
    step: u64,
    position: usize,
    /// Whether something that was begun may not have ended, so that the clock is the tail's to raise.
    is_behind: bool,
    /// Who has begun it.
    by: usize,
}

/// The end of a list that is behind.
#[derive(Default)]
struct Tail {
    /// How many nodes have been begun and have not ended. One that ends before it is counted makes it
    /// negative for a moment.
    under_way: i64,
    /// What the clock is when all of them have ended.
    walked: u64,
}

/// A planned graph that is replayed.
pub(crate) struct Replay<D> {
    driver: D,
    lists: Vec<Vec<Entry>>,
    waits: Vec<Wait>,
    floats: Vec<Float>,
    /// The worker and the position of each node.
    homes: Vec<(u32, u32)>,
    /// The memory of each worker.
    memories: Vec<MemoryId>,
    allowed: Allowed,
    tracks: Vec<Padded<Mutex<Track>>>,
    tails: Vec<Padded<Mutex<Tail>>>,
    clocks: Vec<Padded<AtomicU64>>,
    /// Steps that may be executed.
    released: AtomicU64,
}

impl<D: Driver> Replay<D> {
    /// The lists of workers that compute in these memories. Of `floating` tasks, which are in ascending
    /// order, the place in the list orders nothing, and others take over what they may execute.
    pub fn new(
        driver: D,
        order: &[Vec<TaskId>],
        floating: &[TaskId],
        edges: &[Edge],
        memories: Vec<MemoryId>,
        allowed: Allowed,
    ) -> Self {
        let Lists { lists, floats, waits, homes } = Lists::new(order, floating, edges);
        Replay {
            driver,
            waits,
            floats: floats.into_iter().map(Float::new).collect(),
            homes,
            memories,
            allowed,
            tracks: lists.iter().map(|_| Padded::default()).collect(),
            tails: lists.iter().map(|_| Padded::default()).collect(),
            clocks: lists.iter().map(|_| Padded::default()).collect(),
            lists,
            released: AtomicU64::new(0),
        }
    }

    /// Who executes.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Whether what a worker waits for in a step has happened, and it knows.
    #[inline(always)]
    fn is_met(&self, wait: &Wait, by: usize, step: u64) -> bool {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                let Some(step) = step.checked_sub(u64::from(distance)) else { return true };
                let list = &self.lists[worker as usize];
                let before = step * list.len() as u64 + u64::from(position);
                self.clocks[worker as usize].0.load(Ordering::Acquire) > before
                    && (D::IS_HEARD_AT_ONCE || self.driver.has_heard(by, list[position as usize].node, step))
            }
            Wait::Float { float, distance } => {
                let Some(step) = step.checked_sub(u64::from(distance)) else { return true };
                let float = &self.floats[float as usize];
                float.done.load(Ordering::Acquire) > step
                    && (D::IS_HEARD_AT_ONCE || self.driver.has_heard(by, float.node, step))
            }
        }
    }

    #[inline(always)]
    fn waits(&self, (first, end): (u32, u32)) -> &[Wait] {
        &self.waits[first as usize..end as usize]
    }

    #[inline(always)]
    fn are_met(&self, waits: (u32, u32), by: usize, step: u64) -> bool {
        self.waits(waits).iter().all(|wait| self.is_met(wait, by, step))
    }

    /// Whether a worker could execute a floating task for a step now.
    fn is_takeable(&self, float: &Float, by: usize, step: u64) -> bool {
        // Its previous execution may still be under way, on the worker that took it.
        let is_free = float.done.load(Ordering::Acquire) == step
            && (D::IS_HEARD_AT_ONCE || step == 0 || self.driver.has_heard(by, float.node, step - 1));
        is_free && self.are_met(float.waits, by, step)
    }

    /// Executes a floating task for a step, unless somebody else has taken it. The step must be released, and
    /// the worker must have room.
    fn take(&self, worker: usize, float: &Float, step: u64) -> Take {
        if float.claimed.0.load(Ordering::Relaxed) != step {
            return Take::Gone;
        }
        if !self.is_takeable(float, worker, step) {
            return Take::NotReady;
        }
        if float.claimed.0.compare_exchange(step, step + 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Take::Gone;
        }
        // SAFETY: we poll for the worker, the step is released, all dependencies were waited for, and nobody
        // else has claimed this step of the task.
        if unsafe { self.driver.execute(worker, float.node, step) } == Outcome::Done {
            self.end_float(float, step);
        }
        Take::Begun
    }

    /// A floating task has been executed for a step.
    fn end_float(&self, float: &Float, step: u64) {
        float.done.store(step + 1, Ordering::Release);
        self.driver.ring();
        self.driver.tell(step + 1, || self.finished());
    }

    /// Executes a floating task of another worker, if one is ready. Whoever rests helps nobody.
    #[cold]
    fn help(&self, worker: usize) -> bool {
        let released = self.released.load(Ordering::Acquire);
        if self.driver.hand(worker) != worker || !self.driver.has_room(worker) {
            return false;
        }
        self.floats_for(worker).any(|float| {
            let step = float.claimed.0.load(Ordering::Relaxed);
            step < released && self.take(worker, float, step) == Take::Begun
        })
    }

    /// The floating tasks that a worker may take over.
    fn floats_for(&self, worker: usize) -> impl Iterator<Item = &Float> {
        let memory = self.memories[worker];
        let is_near = move |float: &&Float| self.memories[float.home] == memory;
        self.floats.iter().filter(is_near).filter(move |float| self.allowed.may(float.node, worker))
    }

    /// Walks the list of `home` as far as it can be walked now. Returns whether anything was executed.
    fn walk(&self, worker: usize, home: usize) -> bool {
        let list = &self.lists[home];
        if list.is_empty() {
            return false;
        }
        let Some(mut track) = try_lock(&self.tracks[home].0) else {
            // Who walked it before has not come to the end of its step yet.
            self.driver.pause();
            return false;
        };
        if track.is_behind && !self.may_go_on(&mut track, worker, home) {
            return false;
        }
        let mut ran = false;
        loop {
            let is_released = track.step < self.released.load(Ordering::Acquire);
            if !is_released || self.driver.hand(home) != worker {
                return ran;
            }
            for (position, entry) in list.iter().enumerate().skip(track.position) {
                let is_blocked = !self.driver.has_room(worker)
                    || match entry.float {
                        FIXED => !self.are_met(entry.waits, worker, track.step),
                        float => {
                            self.take(worker, &self.floats[float as usize], track.step) == Take::NotReady
                        }
                    };
                if is_blocked {
                    track.position = position;
                    return ran;
                }
                ran = true;
                if entry.float != FIXED {
                    continue;
                }
                // SAFETY: we poll for the worker, the step is released, so its ports are filled and the state
                // is bound; dependencies within the list hold by its order, which the lock on the track
                // keeps, those on others by the waits above.
                let outcome = unsafe { self.driver.execute(worker, entry.node, track.step) };
                let done = track.step * list.len() as u64 + position as u64 + 1;
                if outcome == Outcome::Later || track.is_behind {
                    self.fall_behind(&mut track, (worker, home), done, outcome);
                } else if entry.published {
                    self.clocks[home].0.store(done, Ordering::Release);
                    self.driver.ring();
                }
            }
            track.position = 0;
            track.step += 1;
            let done = track.step * list.len() as u64;
            if track.is_behind {
                // What floats at the end of the list has numbers of its own.
                self.fall_behind(&mut track, (worker, home), done, Outcome::Done);
            } else {
                self.clocks[home].0.store(done, Ordering::Release);
                self.driver.tell(track.step, || self.finished());
            }
        }
    }

    /// Whether a worker may walk a list that is behind: another one waits until it is not.
    #[cold]
    fn may_go_on(&self, track: &mut Track, worker: usize, home: usize) -> bool {
        track.is_behind = lock(&self.tails[home].0).under_way > 0;
        !track.is_behind || track.by == worker
    }

    /// A node was executed or begun on a list that is behind, or is so from here on. When all of it has
    /// ended, the clock is `walked`.
    #[cold]
    fn fall_behind(&self, track: &mut Track, (worker, home): (usize, usize), walked: u64, outcome: Outcome) {
        let mut tail = lock(&self.tails[home].0);
        tail.walked = walked;
        if outcome == Outcome::Later {
            tail.under_way += 1;
            track.by = worker;
        }
        track.is_behind = tail.under_way > 0;
        if !track.is_behind {
            self.show(home, walked);
        }
    }

    /// A node that was begun has ended.
    pub fn complete(&self, node: TaskId, step: u64) {
        let (home, position) = self.homes[node as usize];
        let list = &self.lists[home as usize];
        match list[position as usize].float {
            FIXED => {
                let mut tail = lock(&self.tails[home as usize].0);
                tail.under_way -= 1;
                let done = step * list.len() as u64 + u64::from(position) + 1;
                // Those begun before it have ended before it, and what was done at once needs no end.
                let done = if tail.under_way == 0 { done.max(tail.walked) } else { done };
                self.show(home as usize, done);
            }
            float => self.end_float(&self.floats[float as usize], step),
        }
    }

    /// Raises the clock of a list whose tail is locked.
    fn show(&self, home: usize, done: u64) {
        let (clock, length) = (&self.clocks[home].0, self.lists[home].len() as u64);
        let before = clock.load(Ordering::Relaxed);
        clock.store(done, Ordering::Release);
        self.driver.ring();
        if done / length > before / length {
            self.driver.tell(done / length, || self.finished());
        }
    }

    /// See [`Progress::poll`](super::Progress::poll).
    #[inline]
    pub fn poll(&self, worker: usize) -> bool {
        let mut ran = false;
        for home in self.driver.served_by(worker) {
            ran |= self.walk(worker, home);
        }
        ran || self.help(worker)
    }

    /// See [`Progress::has_work`](super::Progress::has_work).
    pub fn has_work(&self, worker: usize) -> bool {
        if !self.driver.has_room(worker) {
            return false;
        }
        let released = self.released.load(Ordering::Acquire);
        let is_ready = |entry: &Entry, step: u64| match entry.float {
            FIXED => self.are_met(entry.waits, worker, step),
            float => {
                let float = &self.floats[float as usize];
                float.claimed.0.load(Ordering::Relaxed) != step || self.is_takeable(float, worker, step)
            }
        };
        let could_walk = |home: usize| {
            // Who still walks it rings no bell when it leaves, so nobody falls asleep meanwhile.
            let Some(mut track) = try_lock(&self.tracks[home].0) else { return true };
            let next = self.lists[home].get(track.position);
            track.step < released
                && next.is_some_and(|entry| is_ready(entry, track.step))
                && (!track.is_behind || self.may_go_on(&mut track, worker, home))
        };
        let could_help = |float: &Float| {
            let step = float.claimed.0.load(Ordering::Relaxed);
            step < released && self.is_takeable(float, worker, step)
        };
        self.driver.served_by(worker).any(could_walk)
            || self.driver.hand(worker) == worker && self.floats_for(worker).any(could_help)
    }

    /// See [`Progress::release`](super::Progress::release).
    pub fn release(&self, step: u64) {
        self.released.store(step, Ordering::Release);
        self.driver.ring();
    }

    /// See [`Progress::finished`](super::Progress::finished).
    pub fn finished(&self) -> u64 {
        let of = |(clock, list): (&Padded<AtomicU64>, &Vec<Entry>)| {
            (!list.is_empty()).then(|| clock.0.load(Ordering::Acquire) / list.len() as u64)
        };
        let walked = self.clocks.iter().zip(&self.lists).filter_map(of);
        let floated = self.floats.iter().map(|float| float.done.load(Ordering::Acquire));
        walked.chain(floated).min().unwrap_or_else(|| self.released.load(Ordering::Acquire))
    }

    /// What a wait is for: a task, its step, and how far it is.
    fn awaited(&self, wait: &Wait, step: u64) -> (TaskId, u64, String) {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                let (list, before) = (&self.lists[worker as usize], step - u64::from(distance));
                let needs = before * list.len() as u64 + u64::from(position) + 1;
                let at = self.clocks[worker as usize].0.load(Ordering::Acquire);
                let note = format!(" on worker {worker}, whose clock is at {at} and must reach {needs}");
                (self.driver.task_of(list[position as usize].node), before, note)
            }
            Wait::Float { float, distance } => {
                let note = ", which any worker may take".to_string();
                (self.floats[float as usize].node, step - u64::from(distance), note)
            }
        }
    }

    /// See [`Progress::blocked`](super::Progress::blocked).
    pub fn blocked(&self, doing: &[Doing]) -> Vec<Blocked> {
        let released = self.released.load(Ordering::Acquire);
        let of_worker = |worker: usize| {
            let (list, doing) = (&self.lists[worker], &doing[self.driver.hand(worker)]);
            if list.is_empty() || doing.running.is_some() {
                return None;
            }
            // A clock is shown only where others wait for it, so the last event may be further. A floating
            // task says nothing: it may have been taken out of turn.
            let clock = self.clocks[worker].0.load(Ordering::Acquire);
            let after = |(task, step): (u32, u32)| {
                let position = list.iter().position(|entry| entry.node == task && entry.float == FIXED)?;
                Some(u64::from(step) * list.len() as u64 + position as u64 + 1)
            };
            let done = doing.last.and_then(after).map_or(clock, |done| done.max(clock));
            let entry =
                |number: u64| (number / list.len() as u64, &list[(number % list.len() as u64) as usize]);
            let unmet = |&(step, entry): &(u64, &Entry)| -> Vec<(TaskId, u64, String)> {
                let waits = match entry.float {
                    FIXED => entry.waits,
                    float => {
                        let float = &self.floats[float as usize];
                        let is_gone = float.claimed.0.load(Ordering::Relaxed) > step;
                        if is_gone { (0, 0) } else { float.waits }
                    }
                };
                let unmet = self.waits(waits).iter().filter(|wait| !self.is_met(wait, worker, step));
                unmet.map(|wait| self.awaited(wait, step)).collect()
            };
            // What could be executed has been, so the worker is at the first task that cannot.
            let rest = (done..done + list.len() as u64).map(entry).filter(|(step, _)| *step < released);
            let (step, entry) =
                rest.clone().find(|at| !unmet(at).is_empty()).or_else(|| rest.clone().next())?;
            let task = self.driver.task_of(entry.node);
            Some(Blocked { worker: Some(worker), task, step, awaited: unmet(&(step, entry)) })
        };
        (0..self.lists.len()).filter_map(of_worker).collect()
    }
}
