//! Replay: every worker walks its own list of tasks, step after step, and waits only for other workers.
//!
//! Because a worker executes its list in order, one number says how far it is: the tasks it has finished
//! since the beginning, over all steps. This number is its *clock*. A task that depends on another worker's
//! task waits until that worker's clock has passed it. Compared with counting down predecessors, nothing is
//! ever reset, no read-modify-write is needed, steps overlap by themselves (a clock simply keeps rising), and
//! dependencies within a worker cost nothing. Most waits are dropped when the program is made, because an
//! earlier wait of the same worker implies them.
//!
//! Tasks that *float* may be taken over by a worker that would otherwise wait. Each has two numbers of its
//! own: the steps for which it has been claimed and those for which it is done. Whoever raises the first by
//! one executes the task; when the list of its own worker comes to it after that, it is passed over. Since
//! nobody knows who executes it, everything before and after it is waited for explicitly, also on its own
//! worker.
//!
//! A list is walked by its own worker or, while that one rests, by another (`roster.rs`). Who walks it has
//! the lock of its track, which is never waited for: whoever finds it taken comes back later.
//!
//! Memory order: a clock (or the number of steps done) is stored with `Release` after the kernel has run, and
//! loaded with `Acquire` before a kernel that depends on it, so everything the first kernel wrote is visible
//! to the second.

#![expect(unsafe_code, reason = "executes tasks when their dependencies are met")]

use super::bell::Bell;
use super::bound::BoundGraph;
use super::executor::Executor;
use super::pool::{Pool, WorkSource};
use super::roster::Roster;
use super::waiter::Waiter;
use super::watchdog::Blocked;
use crate::graph::{Edge, TaskId};
use crate::plan::{Interleaved, Placement};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Padded, thread, try_lock};
use crate::trace::recorder::Look;
use std::time::Duration;

/// A task in a worker's list, or a copy, whose number follows the last task's.
struct Entry {
    task: u32,
    /// Whether another worker waits for this task, so that the clock must be shown to it at once.
    published: bool,
    waits: Vec<Wait>,
    /// Its index among the floating tasks, if it is one.
    float: Option<usize>,
}

/// What must have happened before a task of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// A worker's clock has passed a position in its list, `distance` steps before.
    Clock { worker: usize, position: u64, distance: u64 },
    /// A floating task is done, `distance` steps before.
    Float { float: usize, distance: u64 },
}

/// A task that any worker of its memory may execute.
struct Float {
    task: u32,
    /// The worker whose list it is in.
    home: usize,
    waits: Vec<Wait>,
    /// Steps for which somebody has taken it.
    claimed: Padded<AtomicU64>,
    /// Steps for which it has been executed.
    done: AtomicU64,
}

/// What came of the attempt to take a floating task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    Executed,
    Gone,
    NotReady,
}

/// How far a list has been walked; only who walks it knows.
#[derive(Default)]
struct Track {
    step: u64,
    position: usize,
}

/// A planned graph that is replayed.
pub(super) struct Replay {
    program: Arc<BoundGraph>,
    lists: Vec<Vec<Entry>>,
    floats: Vec<Float>,
    tracks: Vec<Padded<Mutex<Track>>>,
    clocks: Vec<Padded<AtomicU64>>,
    /// Steps that may be executed.
    released: AtomicU64,
    workers_bell: Arc<Bell>,
    roster: Arc<Roster>,
    host: Waiter,
}

impl Replay {
    /// Compiles a placement with its copies and all edges into lists with waits.
    pub fn new(
        program: Arc<BoundGraph>,
        placement: &Placement,
        copies: &Interleaved,
        edges: &[Edge],
        pool: &Pool,
    ) -> Self {
        let n_workers = placement.order.len();
        let order = placement.order.iter().map(|tasks| copies.of(tasks)).collect();
        let (lists, floats) = compile(order, &placement.floating, edges);
        Replay {
            program,
            lists,
            floats,
            tracks: (0..n_workers).map(|_| Padded::default()).collect(),
            clocks: (0..n_workers).map(|_| Padded::default()).collect(),
            released: AtomicU64::new(0),
            workers_bell: pool.bell(),
            roster: pool.roster(),
            host: Waiter::new(),
        }
    }

    #[inline(always)]
    fn is_met(&self, wait: &Wait, step: u64) -> bool {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                let before = |step: u64| step * self.lists[worker].len() as u64 + position;
                step < distance || self.clocks[worker].0.load(Ordering::Acquire) > before(step - distance)
            }
            Wait::Float { float, distance } => {
                step < distance || self.floats[float].done.load(Ordering::Acquire) > step - distance
            }
        }
    }

    #[inline(always)]
    fn are_met(&self, waits: &[Wait], step: u64) -> bool {
        waits.iter().all(|wait| self.is_met(wait, step))
    }

    /// Whether a floating task could be executed for a step now.
    fn is_takeable(&self, float: &Float, step: u64) -> bool {
        // Its previous execution may still be under way, on the worker that took it.
        float.done.load(Ordering::Acquire) == step && self.are_met(&float.waits, step)
    }

    /// Executes a floating task for a step, unless somebody else has taken it. The step must be released.
    fn take(&self, worker: usize, float: &Float, step: u64) -> Take {
        if float.claimed.0.load(Ordering::Relaxed) != step {
            return Take::Gone;
        }
        if !self.is_takeable(float, step) {
            return Take::NotReady;
        }
        if float.claimed.0.compare_exchange(step, step + 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Take::Gone;
        }
        // SAFETY: we are on the worker's thread, the step is released, all dependencies were waited for, and
        // nobody else has claimed this step of the task.
        unsafe { self.program.execute(worker, float.task as usize, step) };
        float.done.store(step + 1, Ordering::Release);
        self.workers_bell.ring();
        self.host.tell(step + 1, || self.finished());
        Take::Executed
    }

    /// Executes a floating task of another worker, if one is ready. Whoever rests helps nobody.
    #[cold]
    fn help(&self, worker: usize) -> bool {
        let released = self.released.load(Ordering::Acquire);
        if self.roster.is_resting(worker) {
            return false;
        }
        self.floats_for(worker).any(|float| {
            let step = float.claimed.0.load(Ordering::Relaxed);
            step < released && self.take(worker, float, step) == Take::Executed
        })
    }

    /// The floating tasks that a worker may take over.
    fn floats_for(&self, worker: usize) -> impl Iterator<Item = &Float> {
        let memory = self.program.memory_of(worker);
        self.floats.iter().filter(move |float| self.program.memory_of(float.home) == memory)
    }

    /// Walks the list of `home` as far as it can be walked now. Returns whether anything ran.
    fn walk(&self, worker: usize, home: usize) -> bool {
        let list = &self.lists[home];
        if list.is_empty() {
            return false;
        }
        let Some(mut track) = try_lock(&self.tracks[home].0) else {
            // Who walked it before has not come to the end of its step yet.
            thread::yield_now();
            return false;
        };
        let mut ran = false;
        loop {
            let is_released = track.step < self.released.load(Ordering::Acquire);
            if !is_released || self.roster.hand(home) != worker {
                return ran;
            }
            for (position, entry) in list.iter().enumerate().skip(track.position) {
                let is_blocked = match entry.float {
                    Some(float) => self.take(worker, &self.floats[float], track.step) == Take::NotReady,
                    None => !self.are_met(&entry.waits, track.step),
                };
                if is_blocked {
                    track.position = position;
                    return ran;
                }
                ran = true;
                if entry.float.is_some() {
                    continue;
                }
                // SAFETY: we are on the worker's thread, the step is released, so its ports are filled and
                // the state is bound; dependencies within the list hold by its order, which the lock on the
                // track keeps, those on others by the waits above.
                unsafe { self.program.execute(worker, entry.task as usize, track.step) };
                if entry.published {
                    let done = track.step * list.len() as u64 + position as u64 + 1;
                    self.clocks[home].0.store(done, Ordering::Release);
                    self.workers_bell.ring();
                }
            }
            track.position = 0;
            track.step += 1;
            self.clocks[home].0.store(track.step * list.len() as u64, Ordering::Release);
            self.host.tell(track.step, || self.finished());
        }
    }
}

impl Replay {
    /// What a wait is for: a task, its step, and how far it is.
    fn awaited(&self, wait: &Wait, step: u64) -> (TaskId, u64, String) {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                let (list, before) = (&self.lists[worker], step - distance);
                let needs = before * list.len() as u64 + position + 1;
                let at = self.clocks[worker].0.load(Ordering::Acquire);
                let note = format!(" on worker {worker}, whose clock is at {at} and must reach {needs}");
                (self.program.task_of(list[position as usize].task), before, note)
            }
            Wait::Float { float, distance } => {
                let note = ", which any worker may take".to_string();
                (self.floats[float].task, step - distance, note)
            }
        }
    }
}

impl WorkSource for Replay {
    fn poll(&self, worker: usize) -> bool {
        let mut ran = false;
        for home in self.roster.served_by(worker) {
            ran |= self.walk(worker, home);
        }
        ran || self.help(worker)
    }

    fn has_work(&self, worker: usize) -> bool {
        let released = self.released.load(Ordering::Acquire);
        let is_ready = |entry: &Entry, step: u64| match entry.float.map(|float| &self.floats[float]) {
            Some(float) => float.claimed.0.load(Ordering::Relaxed) != step || self.is_takeable(float, step),
            None => self.are_met(&entry.waits, step),
        };
        let could_walk = |home: usize| {
            // Who still walks it rings no bell when it leaves, so nobody falls asleep meanwhile.
            let Some(track) = try_lock(&self.tracks[home].0) else { return true };
            let next = self.lists[home].get(track.position);
            track.step < released && next.is_some_and(|entry| is_ready(entry, track.step))
        };
        let could_help = |float: &Float| {
            let step = float.claimed.0.load(Ordering::Relaxed);
            step < released && self.is_takeable(float, step)
        };
        self.roster.served_by(worker).any(could_walk)
            || !self.roster.is_resting(worker) && self.floats_for(worker).any(could_help)
    }
}

impl Executor for Replay {
    fn release(&self, step: u64) {
        self.released.store(step, Ordering::Release);
        self.workers_bell.ring();
    }

    fn finished(&self) -> u64 {
        let of = |(clock, list): (&Padded<AtomicU64>, &Vec<Entry>)| {
            (!list.is_empty()).then(|| clock.0.load(Ordering::Acquire) / list.len() as u64)
        };
        let walked = self.clocks.iter().zip(&self.lists).filter_map(of);
        let floated = self.floats.iter().map(|float| float.done.load(Ordering::Acquire));
        walked.chain(floated).min().unwrap_or_else(|| self.released.load(Ordering::Acquire))
    }

    fn wait(&self, steps: u64, limit: Option<Duration>) -> bool {
        self.host.wait(steps, limit, || self.finished())
    }

    fn blocked(&self, looks: &[Look]) -> Vec<Blocked> {
        let released = self.released.load(Ordering::Acquire);
        let of_worker = |worker: usize| {
            let (list, look) = (&self.lists[worker], &looks[self.roster.hand(worker)]);
            if list.is_empty() || look.running.is_some() {
                return None;
            }
            // A clock is shown only where others wait for it, so the last event may be further. A floating
            // task says nothing: it may have been taken out of turn.
            let clock = self.clocks[worker].0.load(Ordering::Acquire);
            let after = |(task, step): (u32, u32)| {
                let position = list.iter().position(|entry| entry.task == task && entry.float.is_none())?;
                Some(u64::from(step) * list.len() as u64 + position as u64 + 1)
            };
            let done = look.last.and_then(after).map_or(clock, |done| done.max(clock));
            let entry =
                |number: u64| (number / list.len() as u64, &list[(number % list.len() as u64) as usize]);
            let unmet = |&(step, entry): &(u64, &Entry)| -> Vec<(TaskId, u64, String)> {
                let waits = match entry.float {
                    Some(float) if self.floats[float].claimed.0.load(Ordering::Relaxed) > step => {
                        return Vec::new();
                    }
                    Some(float) => &self.floats[float].waits,
                    None => &entry.waits,
                };
                waits
                    .iter()
                    .filter(|wait| !self.is_met(wait, step))
                    .map(|wait| self.awaited(wait, step))
                    .collect()
            };
            // What could be executed has been, so the worker is at the first task that cannot.
            let rest = (done..done + list.len() as u64).map(entry).filter(|(step, _)| *step < released);
            let (step, entry) =
                rest.clone().find(|at| !unmet(at).is_empty()).or_else(|| rest.clone().next())?;
            let task = self.program.task_of(entry.task);
            Some(Blocked { worker: Some(worker), task, step, awaited: unmet(&(step, entry)) })
        };
        (0..self.lists.len()).filter_map(of_worker).collect()
    }
}

/// The lists of all workers, and the floating tasks in them.
fn compile(order: Vec<Vec<TaskId>>, floating: &[TaskId], edges: &[Edge]) -> (Vec<Vec<Entry>>, Vec<Float>) {
    let n = order.iter().map(Vec::len).sum();
    let (mut workers, mut position) = (vec![0; n], vec![0_u64; n]);
    for (worker, order) in order.iter().enumerate() {
        for (i, &task) in order.iter().enumerate() {
            (workers[task as usize], position[task as usize]) = (worker, i as u64);
        }
    }
    let lengths: Vec<i64> = order.iter().map(|order| order.len() as i64).collect();
    let float_of = |task: TaskId| floating.binary_search(&task).ok();
    let mut incoming: Vec<Vec<Wait>> = vec![Vec::new(); workers.len()];
    for edge in edges {
        let (from, to) = (edge.from as usize, edge.to as usize);
        let distance = u64::from(edge.distance);
        match (float_of(edge.from), float_of(edge.to)) {
            (None, None) if workers[from] == workers[to] => {}
            (None, _) => {
                let (worker, position) = (workers[from], position[from]);
                incoming[to].push(Wait::Clock { worker, position, distance });
            }
            (Some(float), _) => incoming[to].push(Wait::Float { float, distance }),
        }
    }
    let mut published = vec![false; workers.len()];
    let mut lists: Vec<Vec<Entry>> = Vec::new();
    for order in &order {
        let fixed = order.iter().filter(|&&task| float_of(task).is_none());
        let mut needed = Needed::new(lengths.clone(), fixed.flat_map(|&task| &incoming[task as usize]));
        let entry = |&task: &TaskId| {
            let float = float_of(task);
            let waits = match float {
                // Whoever takes it may not have waited for anything before.
                Some(_) => Vec::new(),
                None => needed.reduce(&incoming[task as usize]),
            };
            Entry { task, published: false, waits, float }
        };
        lists.push(order.iter().map(entry).collect());
    }
    let float = |&task: &TaskId| Float {
        task,
        home: workers[task as usize],
        waits: std::mem::take(&mut incoming[task as usize]),
        claimed: Padded::default(),
        done: AtomicU64::new(0),
    };
    let floats: Vec<Float> = floating.iter().map(float).collect();
    let waits =
        lists.iter().flatten().map(|entry| &entry.waits).chain(floats.iter().map(|float| &float.waits));
    for wait in waits.flatten() {
        if let Wait::Clock { worker, position, .. } = *wait {
            published[order[worker][position as usize] as usize] = true;
        }
    }
    for entry in lists.iter_mut().flatten() {
        entry.published = published[entry.task as usize];
    }
    (lists, floats)
}

/// What a worker knows to have happened, so that it need not wait for it again.
struct Needed {
    lengths: Vec<i64>,
    /// The highest level waited for so far, per worker.
    reached: Vec<i64>,
    /// The floating tasks waited for in this step, with the least distance.
    floats: Vec<(usize, u64)>,
}

impl Needed {
    /// Before the first task of a step: the whole previous step has been waited for.
    fn new<'w>(lengths: Vec<i64>, waits: impl Iterator<Item = &'w Wait>) -> Self {
        let mut needed = Needed { reached: vec![i64::MIN; lengths.len()], floats: Vec::new(), lengths };
        for wait in waits {
            if let Wait::Clock { worker, .. } = *wait {
                let before = needed.level(wait) - needed.lengths[worker];
                needed.reached[worker] = needed.reached[worker].max(before);
            }
        }
        needed
    }

    /// What a wait asks of the other worker's clock, relative to the current step.
    fn level(&self, wait: &Wait) -> i64 {
        match *wait {
            Wait::Clock { worker, position, distance } => {
                position as i64 - distance as i64 * self.lengths[worker]
            }
            Wait::Float { .. } => 0,
        }
    }

    /// The waits of the next task that earlier ones do not imply.
    fn reduce(&mut self, waits: &[Wait]) -> Vec<Wait> {
        let mut kept = Vec::new();
        for other in 0..self.lengths.len() {
            let of_other = |wait: &&Wait| matches!(wait, Wait::Clock { worker, .. } if *worker == other);
            let strongest = waits.iter().filter(of_other).max_by_key(|wait| self.level(wait));
            if let Some(wait) = strongest.filter(|wait| self.level(wait) > self.reached[other]) {
                self.reached[other] = self.level(wait);
                kept.push(*wait);
            }
        }
        for wait in waits {
            let Wait::Float { float, distance } = *wait else { continue };
            if !self.floats.iter().any(|&(known, nearest)| known == float && nearest <= distance) {
                self.floats.push((float, distance));
                kept.push(*wait);
            }
        }
        kept
    }
}
