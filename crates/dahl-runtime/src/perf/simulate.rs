//! Executing a plan on a virtual clock.
//!
//! Virtual workers ask the same [progress](crate::progress) as threads do, and so keep the same rules. A
//! worker has room for one node; the end of what it has begun is an event, and so is the moment at which
//! others hear of it. The same input gives the same run: ties go to the lower worker.
//!
//! In a planned order, copies between memories are nodes like tasks. In an open one, a task takes longer by
//! what it must copy first, as [`Coherence`](crate::progress::Coherence) says (`on_demand.rs`).
//!
//! Others hear of an end [`Costs::wait_seconds`] after it, the worker itself at once. What an open order
//! makes ready is there at once for whoever looks just then, but nobody is woken for it before.
//!
//! Not modelled: the program's time between steps (only that it is [`Setup::depth`] steps ahead at most), and
//! copies at the same time over one link.

mod cause;
mod on_demand;

pub use cause::Why;
pub(super) use on_demand::OnDemand;

use super::predict::Costs;
use crate::graph::{Edge, TaskId};
use crate::machine::{KindId, MemoryId};
use crate::progress::{Driver, Dynamic, Fault, Outcome, Progress, Replay};
use crate::schedule::{Allowed, Appointed};
use cause::Causes;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What is executed, by whom, and how long it takes.
pub(super) struct Setup<'a> {
    pub order: Order<'a>,
    /// All edges, of data and of memory.
    pub edges: &'a [Edge],
    /// The memory of each worker.
    pub memories: Vec<MemoryId>,
    /// Number of tasks; nodes that follow are copies.
    pub n_tasks: usize,
    /// How many steps may be under way.
    pub depth: usize,
    /// What the runtime adds.
    pub costs: Costs,
}

type Appoint<'a> = dyn Fn() -> (Appointed, Option<OnDemand<'a>>) + 'a;

/// Who decides on units and order.
pub(super) enum Order<'a> {
    /// The plan.
    Planned {
        /// The nodes of each worker, in order.
        lists: Vec<Vec<TaskId>>,
        /// The tasks, in ascending order, that waiting workers may take over.
        floating: &'a [TaskId],
        /// Who may execute what.
        allowed: Allowed,
        /// What each node takes on its own worker, and elsewhere.
        seconds: Vec<[f64; 2]>,
    },
    /// A scheduler.
    Open {
        /// Makes the scheduler, and says where data lie; nobody where there is one memory.
        appoint: Box<Appoint<'a>>,
        /// For each kind of units, what each task takes.
        seconds: Vec<Vec<f64>>,
        /// The kind of each worker.
        kinds: Vec<KindId>,
    },
}

impl Order<'_> {
    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        match self {
            Order::Planned { seconds, .. } => seconds.len(),
            Order::Open { seconds, .. } => seconds.first().map_or(0, Vec::len),
        }
    }
}

/// One execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    /// A task, or a copy, whose number follows the last task's.
    pub node: TaskId,
    pub step: usize,
    pub worker: usize,
    /// When its worker turned to it.
    pub start: f64,
    /// Of that, the time in the kernel and for copies.
    pub seconds: f64,
    pub end: f64,
    /// The execution it waited for last, and why.
    pub cause: (Option<usize>, Why),
}

/// A run of some steps.
pub(super) struct Simulated {
    pub executions: Vec<Execution>,
    /// When each step and all before it had ended.
    pub ends: Vec<f64>,
}

/// Why a run came to no end.
pub(super) enum Stop {
    /// Tasks wait for each other in a circle.
    Circle,
    /// The scheduler broke a rule.
    Fault(Fault),
}

/// Executes `n_steps` steps.
pub(super) fn simulate(setup: &Setup<'_>, n_steps: usize) -> Result<Simulated, Stop> {
    let n_workers = setup.memories.len();
    let progress = match &setup.order {
        Order::Planned { lists, floating, allowed, .. } => {
            let mut homes = vec![0; setup.order.n_nodes()];
            for (worker, list) in (0..).zip(lists) {
                list.iter().for_each(|&node| homes[node as usize] = worker);
            }
            let workers = Virtual::new(setup, n_steps, homes, None);
            let (memories, allowed) = (setup.memories.clone(), allowed.clone());
            Progress::Replay(Replay::new(workers, lists, floating, setup.edges, memories, allowed))
        }
        Order::Open { appoint, .. } => {
            let (appointed, data) = appoint();
            let workers = Virtual::new(setup, n_steps, Vec::new(), data);
            Progress::Dynamic(Dynamic::new(workers, setup.n_tasks, n_workers, setup.edges, appointed))
        }
    };
    Run { setup, n_steps, progress, n_over: 0, n_released: 0 }.go()
}

/// A time in an order that heaps understand; times are not negative.
fn ordered(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

/// What virtual workers do, and when: the driver of a run.
struct Virtual<'s, 'a> {
    setup: &'s Setup<'a>,
    /// In a planned order, the worker of each node.
    homes: Vec<u32>,
    data: Option<OnDemand<'a>>,
    now: Cell<f64>,
    state: RefCell<State>,
}

struct State {
    executions: Vec<Execution>,
    causes: Causes,
    /// Whether each worker executes something.
    is_busy: Vec<bool>,
    /// When which worker ends which execution.
    ends: BinaryHeap<Reverse<(u64, usize, usize)>>,
    fault: Option<Fault>,
}

impl<'s, 'a> Virtual<'s, 'a> {
    fn new(setup: &'s Setup<'a>, n_steps: usize, homes: Vec<u32>, data: Option<OnDemand<'a>>) -> Self {
        let n_workers = setup.memories.len();
        let state = State {
            executions: Vec::with_capacity(setup.order.n_nodes() * n_steps),
            causes: Causes::new(setup, n_steps),
            is_busy: vec![false; n_workers],
            ends: BinaryHeap::new(),
            fault: None,
        };
        Virtual { setup, homes, data, now: Cell::new(0.0), state: RefCell::new(state) }
    }

    /// What a node takes on a worker.
    fn seconds(&self, worker: usize, node: usize, step: u64) -> f64 {
        match &self.setup.order {
            Order::Planned { seconds, .. } => seconds[node][usize::from(self.homes[node] as usize != worker)],
            Order::Open { seconds, kinds, .. } => {
                let memory = self.setup.memories[worker];
                let copying = self.data.as_ref().map_or(0.0, |data| data.prepare(node, step, memory));
                copying + seconds[kinds[worker]][node]
            }
        }
    }
}

impl Driver for Virtual<'_, '_> {
    const IS_HEARD_AT_ONCE: bool = false;

    fn has_heard(&self, worker: usize, node: TaskId, step: u64) -> bool {
        let State { executions, causes, .. } = &*self.state.borrow();
        let ended = causes.execution(step as usize, node as usize).map(|index| executions[index]);
        ended.is_none_or(|ended| {
            let wait = if ended.worker == worker { 0.0 } else { self.setup.costs.wait_seconds };
            ended.end + wait <= self.now.get()
        })
    }

    fn has_room(&self, worker: usize) -> bool {
        !self.state.borrow().is_busy[worker]
    }

    #[expect(unsafe_code, reason = "as the trait says; nothing is touched here")]
    unsafe fn execute(&self, worker: usize, node: TaskId, step: u64) -> Outcome {
        let (start, seconds) = (self.now.get(), self.seconds(worker, node as usize, step));
        let mut state = self.state.borrow_mut();
        if state.fault.is_some() {
            return Outcome::Done;
        }
        let is_task = (node as usize) < self.setup.n_tasks;
        let overhead = if is_task { self.setup.costs.task_seconds } else { 0.0 };
        let (end, step, index) = (start + overhead + seconds, step as usize, state.executions.len());
        let State { executions, causes, .. } = &mut *state;
        let cause = causes.of(executions, worker, node as usize, step, start);
        causes.begin(worker, node as usize, step, index);
        executions.push(Execution { node, step, worker, start, seconds, end, cause });
        state.is_busy[worker] = true;
        state.ends.push(Reverse((ordered(end), worker, index)));
        Outcome::Later
    }

    fn ring(&self) {}

    fn tell(&self, _steps: u64, _finished: impl Fn() -> u64) {}

    fn served_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        std::iter::once(worker)
    }

    fn hand(&self, home: usize) -> usize {
        home
    }

    fn pause(&self) {}

    fn task_of(&self, node: TaskId) -> TaskId {
        node
    }

    fn missing(&self, task: TaskId, step: u64, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize)) {
        if let Some(data) = &self.data {
            data.missing(task as usize, step, memory, each);
        }
    }

    fn fail(&self, fault: Fault) {
        self.state.borrow_mut().fault.get_or_insert(fault);
    }
}

/// A run under way.
struct Run<'s, 'a> {
    setup: &'s Setup<'a>,
    n_steps: usize,
    progress: Progress<Virtual<'s, 'a>>,
    /// Steps that are over, with all before them, and steps that may begin.
    n_over: usize,
    n_released: usize,
}

impl Run<'_, '_> {
    fn go(mut self) -> Result<Simulated, Stop> {
        let n_workers = self.setup.memories.len();
        let mut missing = vec![self.setup.order.n_nodes(); self.n_steps];
        let mut step_ends = vec![0.0; self.n_steps];
        // Of which ends others hear when.
        let mut news: VecDeque<(f64, usize)> = VecDeque::new();
        let mut looks = vec![true; n_workers];
        self.release(&missing);
        loop {
            for (worker, looks) in looks.iter_mut().enumerate() {
                if std::mem::take(looks) {
                    self.progress.poll(worker);
                    self.state(|state| state.causes.forget_news(worker));
                }
            }
            let first_end = self.state(|state| state.ends.peek().map(|Reverse((time, ..))| *time));
            let first_news = news.front().map(|(time, _)| ordered(*time));
            let Some(time) = first_end.into_iter().chain(first_news).min() else { break };
            let now = f64::from_bits(time);
            self.progress.driver().now.set(now);
            while let Some((worker, index)) = self.next_end(time) {
                let Execution { node, step, .. } = self.state(|state| {
                    state.is_busy[worker] = false;
                    state.executions[index]
                });
                looks[worker] = true;
                missing[step] -= 1;
                step_ends[step] = now;
                self.state(|state| state.causes.end(step, index));
                self.progress.complete(worker, node, step as u64);
                news.push_back((now + self.setup.costs.wait_seconds, index));
                self.release(&missing);
            }
            while let Some((_, index)) = news.pop_front_if(|(at, _)| ordered(*at) <= time) {
                self.state(|state| {
                    for other in (0..n_workers).filter(|&other| !state.is_busy[other]) {
                        looks[other] = true;
                        state.causes.hear(other, index);
                    }
                });
            }
        }
        self.over(step_ends)
    }

    /// The result, if all steps are over.
    fn over(self, mut ends: Vec<f64>) -> Result<Simulated, Stop> {
        let kept = match &self.progress {
            Progress::Dynamic(dynamic) => dynamic.find_kept(),
            Progress::Replay(_) => None,
        };
        let (fault, executions) =
            self.state(|state| (state.fault.take(), std::mem::take(&mut state.executions)));
        match fault.or(kept) {
            Some(fault) => Err(Stop::Fault(fault)),
            None if executions.len() < self.setup.order.n_nodes() * self.n_steps => Err(Stop::Circle),
            None => {
                (1..ends.len()).for_each(|step| ends[step] = f64::max(ends[step], ends[step - 1]));
                Ok(Simulated { executions, ends })
            }
        }
    }

    fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.progress.driver().state.borrow_mut())
    }

    /// Whose execution ends by now.
    fn next_end(&self, time: u64) -> Option<(usize, usize)> {
        self.state(|state| {
            let Reverse((end, worker, index)) = *state.ends.peek()?;
            (end <= time).then(|| state.ends.pop()).map(|_| (worker, index))
        })
    }

    /// Lets steps begin while not too many are under way.
    fn release(&mut self, missing: &[usize]) {
        let data = self.progress.driver().data.as_ref();
        while self.n_over < self.n_released && missing[self.n_over] == 0 {
            data.into_iter().for_each(|data| data.end_step(self.n_over as u64));
            self.n_over += 1;
        }
        let room = self.n_steps.min(self.n_over + self.setup.depth.max(1));
        if room > self.n_released {
            for step in self.n_released..room {
                data.into_iter().for_each(|data| data.begin_step(step as u64));
            }
            self.n_released = room;
            self.progress.release(room as u64);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
