//! Executing a plan on a virtual clock.
//!
//! Workers do what the engines make them do. With a plan, each walks its list, step after step, and waits for
//! what its next task needs; one that waits takes over a floating task whose inputs are there. Without,
//! whoever is free takes the first ready task of the oldest step that it may execute. The same input gives
//! the same run: ties go to the lower worker and the lower task.
//!
//! Not modelled: copies between memories, the program's time between steps (only that it is [`Setup::depth`]
//! steps ahead at most), and which scheduler an open plan asks for.

use super::predict::Costs;
use crate::graph::{Edge, EdgeKind, TaskId};
use crate::machine::MemoryId;
use crate::schedule::Classes;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// What is executed, by whom, and how long it takes.
pub(super) struct Setup<'a> {
    /// The tasks of each worker, in order; none where the order is open.
    pub lists: Option<&'a [Vec<TaskId>]>,
    /// For each task, whether waiting workers may take it over.
    pub floating: Vec<bool>,
    /// All edges, of data and of memory.
    pub edges: &'a [Edge],
    /// The memory of each worker.
    pub memories: Vec<MemoryId>,
    /// Who may execute what.
    pub classes: Classes,
    /// What each task takes on its own worker, and elsewhere.
    pub seconds: Vec<[f64; 2]>,
    /// How many steps may be under way.
    pub depth: usize,
    /// What the runtime adds.
    pub costs: Costs,
}

/// Why an execution did not start earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing came before it.
    Start,
    /// Its worker was busy with the one before it.
    Worker,
    /// It needed data, or had to wait with overwriting them.
    Data,
    /// Its data lie where others lay.
    Memory,
    /// So many steps were under way that its own could not begin.
    Depth,
}

/// One execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    pub task: TaskId,
    pub step: usize,
    pub worker: usize,
    /// When its worker turned to it.
    pub start: f64,
    /// Of that, the time in the kernel.
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

/// Executes `n_steps` steps. Nothing if the plan cannot be executed.
pub(super) fn simulate(setup: &Setup<'_>, n_steps: usize) -> Option<Simulated> {
    let mut run = Simulation::new(setup, n_steps);
    run.go();
    let n_tasks = setup.seconds.len();
    if run.executions.len() != n_tasks * n_steps {
        return None;
    }
    let mut ends = run.step_ends;
    for step in 1..ends.len() {
        ends[step] = f64::max(ends[step], ends[step - 1]);
    }
    Some(Simulated { executions: run.executions, ends })
}

/// A time in an order that heaps understand; times are not negative.
fn ordered(time: f64) -> u64 {
    time.max(0.0).to_bits()
}

struct Simulation<'a> {
    setup: &'a Setup<'a>,
    n_steps: usize,
    /// What each task waits for: task, distance, kind.
    incoming: Vec<Vec<(usize, usize, EdgeKind)>>,
    executions: Vec<Execution>,
    /// For each step and task, its execution.
    done: Vec<Vec<Option<usize>>>,
    /// Tasks of each step that have not ended, and when the last one did so far.
    missing: Vec<usize>,
    step_ends: Vec<f64>,
    /// The last execution of each step to end.
    step_lasts: Vec<Option<usize>>,
    /// For each worker: its last execution, whether that has ended and nothing else was found.
    last: Vec<Option<usize>>,
    is_idle: Vec<bool>,
    is_executing: Vec<bool>,
    /// When the newest executions ended, and whose they were, as long as others may not have seen it.
    news: VecDeque<(f64, usize)>,
    /// Where each worker is in its list.
    track: Vec<(usize, usize)>,
    /// The floating tasks that each worker has waited for since its last execution, in case others took them.
    stuck: Vec<Vec<(usize, usize)>>,
    /// For each floating task, the steps for which it was claimed.
    claimed: Vec<usize>,
    floats: Vec<usize>,
    home: Vec<usize>,
    /// When which worker looks around next.
    looks: BinaryHeap<Reverse<(u64, usize)>>,
    open: Option<Open>,
}

/// What an open order needs: how many predecessors each task still waits for, who waits for it, and what is
/// ready.
struct Open {
    unmet: Vec<Vec<u32>>,
    outgoing: Vec<Vec<(usize, usize)>>,
    ready: BTreeSet<(usize, usize)>,
    n_begun: usize,
}

impl<'a> Simulation<'a> {
    fn new(setup: &'a Setup<'a>, n_steps: usize) -> Self {
        let (n_tasks, n_workers) = (setup.seconds.len(), setup.memories.len());
        let mut incoming = vec![Vec::new(); n_tasks];
        for edge in setup.edges {
            incoming[edge.to as usize].push((edge.from as usize, edge.distance as usize, edge.kind));
        }
        let mut home = vec![0; n_tasks];
        for (worker, list) in setup.lists.iter().flat_map(|lists| lists.iter().enumerate()) {
            list.iter().for_each(|&task| home[task as usize] = worker);
        }
        let open = setup.lists.is_none().then(|| {
            let unmet = |step: usize| {
                let waits = |edges: &Vec<(usize, usize, EdgeKind)>| {
                    edges.iter().filter(|(_, distance, _)| *distance <= step).count() as u32
                };
                incoming.iter().map(waits).collect()
            };
            let mut outgoing = vec![Vec::new(); n_tasks];
            for edge in setup.edges {
                outgoing[edge.from as usize].push((edge.to as usize, edge.distance as usize));
            }
            Open { unmet: (0..n_steps).map(unmet).collect(), outgoing, ready: BTreeSet::new(), n_begun: 0 }
        });
        let mut run = Simulation {
            setup,
            n_steps,
            incoming,
            executions: Vec::with_capacity(n_tasks * n_steps),
            done: vec![vec![None; n_tasks]; n_steps],
            missing: vec![n_tasks; n_steps],
            step_ends: vec![0.0; n_steps],
            step_lasts: vec![None; n_steps],
            last: vec![None; n_workers],
            is_idle: vec![false; n_workers],
            is_executing: vec![false; n_workers],
            news: VecDeque::new(),
            track: vec![(0, 0); n_workers],
            stuck: vec![Vec::new(); n_workers],
            claimed: vec![0; n_tasks],
            floats: (0..n_tasks).filter(|&task| setup.floating[task]).collect(),
            home,
            looks: (0..n_workers).map(|worker| Reverse((ordered(0.0), worker))).collect(),
            open,
        };
        run.begin_steps();
        run
    }

    fn go(&mut self) {
        while let Some(Reverse((time, worker))) = self.looks.pop() {
            let now = f64::from_bits(time);
            if self.is_executing[worker] {
                let execution = self.last[worker].map(|last| self.executions[last]);
                let Some(execution) = execution.filter(|execution| execution.end <= now) else { continue };
                self.finish(worker, execution, now);
            }
            match self.next(worker, now) {
                Some((task, step)) => self.start(worker, task, step, now),
                None => self.rest(worker, now),
            }
        }
    }

    /// The task that a worker turns to now.
    fn next(&mut self, worker: usize, now: f64) -> Option<(usize, usize)> {
        if let Some(open) = &mut self.open {
            let may_run = |&&(_, task): &&(usize, usize)| self.setup.classes.may_run(worker, task as TaskId);
            let &(step, task) = open.ready.iter().find(may_run)?;
            open.ready.remove(&(step, task));
            return Some((task, step));
        }
        let lists = self.setup.lists.unwrap_or_default();
        let list = lists.get(worker).map_or(&[][..], |list| &list[..]);
        while let Some(&task) = list.get(self.track[worker].1) {
            let (task, (step, position)) = (task as usize, self.track[worker]);
            if step >= self.n_steps {
                break;
            }
            if self.setup.floating[task] {
                let is_gone = self.claimed[task] > step;
                if !is_gone && !self.is_takeable(worker, task, step, now) {
                    self.stuck[worker].push((task, step));
                    self.stuck[worker].dedup();
                    break;
                }
                if !is_gone {
                    return Some((task, step));
                }
            } else {
                if !self.is_ready(worker, task, step, now) {
                    break;
                }
            }
            self.track[worker] =
                if position + 1 == list.len() { (step + 1, 0) } else { (step, position + 1) };
            if !self.setup.floating[task] {
                return Some((task, step));
            }
        }
        self.help(worker, now)
    }

    /// A floating task of another worker.
    fn help(&self, worker: usize, now: f64) -> Option<(usize, usize)> {
        let Setup { memories, classes, .. } = self.setup;
        let is_near = |&task: &usize| {
            memories[self.home[task]] == memories[worker] && classes.may_run(worker, task as TaskId)
        };
        let mut near = self.floats.iter().copied().filter(is_near);
        near.find_map(|task| {
            let step = self.claimed[task];
            (step < self.n_steps && self.is_takeable(worker, task, step, now)).then_some((task, step))
        })
    }

    fn is_takeable(&self, worker: usize, task: usize, step: usize, now: f64) -> bool {
        let is_before_over = step == 0 || self.is_visible(worker, self.done[step - 1][task], now);
        self.claimed[task] == step && is_before_over && self.is_ready(worker, task, step, now)
    }

    fn is_visible(&self, worker: usize, execution: Option<usize>, now: f64) -> bool {
        execution.is_some_and(|index| self.visible(worker, index) <= now)
    }

    /// When a worker sees that an execution has ended.
    fn visible(&self, worker: usize, execution: usize) -> f64 {
        let execution = &self.executions[execution];
        if execution.worker == worker { execution.end } else { execution.end + self.setup.costs.wait_seconds }
    }

    fn is_released(&self, step: usize, now: f64) -> bool {
        let Some(before) = step.checked_sub(self.setup.depth.max(1)) else { return true };
        self.missing[before] == 0 && self.step_ends[before] <= now
    }

    fn is_ready(&self, worker: usize, task: usize, step: usize, now: f64) -> bool {
        self.is_released(step, now)
            && self.incoming[task].iter().all(|&(from, distance, _)| {
                step < distance || self.is_visible(worker, self.done[step - distance][from], now)
            })
    }

    fn start(&mut self, worker: usize, task: usize, step: usize, now: f64) {
        let is_away = self.open.is_none() && self.home[task] != worker;
        let seconds = self.setup.seconds[task][usize::from(is_away)];
        let end = now + self.setup.costs.task_seconds + seconds;
        let cause = self.cause(worker, task, step);
        let index = self.executions.len();
        self.executions.push(Execution {
            task: task as TaskId,
            step,
            worker,
            start: now,
            seconds,
            end,
            cause,
        });
        self.done[step][task] = Some(index);
        self.claimed[task] = step + 1;
        self.last[worker] = Some(index);
        self.stuck[worker].clear();
        self.is_executing[worker] = true;
        self.is_idle[worker] = false;
        self.looks.push(Reverse((ordered(end), worker)));
    }

    /// What an execution that starts now waited for last. Being busy goes before waiting, where both end at
    /// once.
    fn cause(&self, worker: usize, task: usize, step: usize) -> (Option<usize>, Why) {
        let busy = self.last[worker].map(|last| (self.executions[last].end, last, Why::Worker));
        let depth = step.checked_sub(self.setup.depth.max(1)).and_then(|before| {
            let last = self.step_lasts[before]?;
            Some((self.executions[last].end, last, Why::Depth))
        });
        let needed = self.incoming[task].iter().filter_map(|&(from, distance, kind)| {
            let index = self.done[step.checked_sub(distance)?][from]?;
            let why = if kind == EdgeKind::Data { Why::Data } else { Why::Memory };
            Some((self.visible(worker, index), index, why))
        });
        // A task that floats may still be under way elsewhere for the step before.
        let itself = step.checked_sub(1).filter(|_| self.setup.floating[task]).and_then(|before| {
            let index = self.done[before][task]?;
            Some((self.visible(worker, index), index, Why::Data))
        });
        // If another worker took what this one waited for, both waited for the same.
        let stuck = self.stuck[worker].iter().filter_map(|&(task, step)| {
            let taken = &self.executions[self.done[step][task]?];
            Some((taken.start, taken.cause.0?, taken.cause.1))
        });
        let mut latest: Option<(f64, usize, Why)> = None;
        for candidate in busy.into_iter().chain(needed).chain(itself).chain(depth).chain(stuck) {
            if latest.is_none_or(|latest| candidate.0 > latest.0) {
                latest = Some(candidate);
            }
        }
        latest.map_or((None, Why::Start), |(_, index, why)| (Some(index), why))
    }

    fn finish(&mut self, worker: usize, execution: Execution, now: f64) {
        self.is_executing[worker] = false;
        let wait = self.setup.costs.wait_seconds;
        while self.news.front().is_some_and(|(end, _)| end + wait <= now) {
            self.news.pop_front();
        }
        self.news.push_back((now, worker));
        let step = execution.step;
        self.missing[step] -= 1;
        if now >= self.step_ends[step] {
            self.step_ends[step] = now;
            self.step_lasts[step] = self.last[worker];
        }
        let n_steps = self.n_steps;
        if let Some(open) = &mut self.open {
            for &(to, distance) in &open.outgoing[execution.task as usize] {
                let later = step + distance;
                if later < n_steps {
                    open.unmet[later][to] -= 1;
                    if open.unmet[later][to] == 0 && later < open.n_begun {
                        open.ready.insert((later, to));
                    }
                }
            }
        }
        if self.missing[step] == 0 {
            self.begin_steps();
        }
        for other in 0..self.is_idle.len() {
            if self.is_idle[other] {
                self.looks.push(Reverse((ordered(now + self.setup.costs.wait_seconds), other)));
            }
        }
    }

    /// Where the order is open: the tasks of steps that may begin, and that wait for nothing, are ready.
    fn begin_steps(&mut self) {
        let depth = self.setup.depth.max(1);
        let Some(open) = &mut self.open else { return };
        while open.n_begun < self.n_steps {
            let step = open.n_begun;
            if step >= depth && self.missing[step - depth] > 0 {
                return;
            }
            let free = open.unmet[step].iter().enumerate().filter(|(_, unmet)| **unmet == 0);
            open.ready.extend(free.map(|(task, _)| (step, task)));
            open.n_begun += 1;
        }
    }

    /// Nothing to do until something ends, or the news of something that has ended arrives.
    fn rest(&mut self, worker: usize, now: f64) {
        self.is_idle[worker] = true;
        let wait = self.setup.costs.wait_seconds;
        let next = self.news.iter().find(|&&(end, by)| by != worker && end + wait > now);
        let next = next.map(|(end, _)| end + wait);
        self.looks.extend(next.map(|time| Reverse((ordered(time), worker))));
    }
}

#[cfg(test)]
mod tests;
