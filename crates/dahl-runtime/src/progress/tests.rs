//! Random graphs on workers that end what they begin at once, or later and in the order of a queue: every
//! node is executed once and after what it needs, whatever ends when.

use super::*;
use crate::graph::{Edge, EdgeKind};
use crate::schedule::{Classes, Eager, Scheduler, Steal, n_turns, steps_under_way};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
struct Case {
    n_tasks: usize,
    /// The list of each worker.
    order: Vec<Vec<TaskId>>,
    floating: Vec<TaskId>,
    edges: Vec<Edge>,
    /// Nodes that each worker has room for; none where it executes at once.
    rooms: Vec<usize>,
    /// Decides who is polled, what ends, and what a worker with room does at once.
    seed: u64,
    n_steps: u64,
}

/// Edges within a step lead to later tasks, and lists are in ascending order, so that every case can be
/// executed.
fn cases() -> impl Strategy<Value = Case> {
    (1_usize..12, 1_usize..4).prop_flat_map(|(n_tasks, n_workers)| {
        let edges = prop::collection::vec((0..n_tasks, 0..n_tasks, 0_u32..3), 0..2 * n_tasks);
        let tasks = prop::collection::vec((0..n_workers, any::<bool>()), n_tasks);
        let rooms = prop::collection::vec(0_usize..4, n_workers);
        (edges, tasks, rooms, any::<u64>(), 1_u64..6).prop_map(move |(edges, tasks, rooms, seed, n_steps)| {
            let edge = |(a, b, distance): (usize, usize, u32)| {
                let (from, to) = if distance == 0 { (a.min(b), a.max(b)) } else { (a, b) };
                Edge { from: from as TaskId, to: to as TaskId, distance, kind: EdgeKind::Data }
            };
            let of = |worker: usize| {
                let is_here = |task: &TaskId| tasks[*task as usize].0 == worker;
                (0..n_tasks as TaskId).filter(is_here).collect()
            };
            Case {
                n_tasks,
                order: (0..n_workers).map(of).collect(),
                floating: (0..n_tasks as TaskId).filter(|&task| tasks[task as usize].1).collect(),
                edges: edges.into_iter().map(edge).filter(|e| e.distance > 0 || e.from != e.to).collect(),
                rooms,
                seed,
                n_steps,
            }
        })
    })
}

/// What has happened so far.
struct State {
    /// What each worker has begun and not ended, in order.
    queues: Vec<VecDeque<(TaskId, u64)>>,
    /// For each step and task, who began it and whether it has ended.
    begun: Vec<Vec<Option<usize>>>,
    ended: Vec<Vec<bool>>,
    random: u64,
}

impl State {
    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) as usize % below
    }
}

struct Queues<'a> {
    case: &'a Case,
    is_planned: bool,
    state: RefCell<State>,
}

impl Driver for Queues<'_> {
    fn has_room(&self, worker: usize) -> bool {
        let room = self.case.rooms[worker];
        room == 0 || self.state.borrow().queues[worker].len() < room
    }

    #[expect(unsafe_code, reason = "as the trait says")]
    unsafe fn execute(&self, worker: usize, node: TaskId, step: u64) -> Outcome {
        let mut state = self.state.borrow_mut();
        let before = state.begun[step as usize][node as usize].replace(worker);
        assert!(before.is_none(), "{node} of step {step} is executed twice");
        let is_fixed = |task: TaskId| self.is_planned && !self.case.floating.contains(&task);
        let mut needs_queue = false;
        for edge in self.case.edges.iter().filter(|edge| edge.to == node) {
            let Some(earlier) = step.checked_sub(edge.distance.into()) else { continue };
            let is_over = state.ended[earlier as usize][edge.from as usize];
            let is_queued = is_fixed(edge.from)
                && is_fixed(node)
                && state.begun[earlier as usize][edge.from as usize] == Some(worker);
            assert!(is_over || is_queued, "{edge:?} in step {step}");
            needs_queue |= !is_over;
        }
        let is_at_once = self.case.rooms[worker] == 0 || !needs_queue && state.draw(3) == 0;
        match is_at_once {
            true => {
                state.ended[step as usize][node as usize] = true;
                Outcome::Done
            }
            false => {
                state.queues[worker].push_back((node, step));
                Outcome::Later
            }
        }
    }

    fn ring(&self) {}

    fn tell(&self, _steps: u64, _finished: impl Fn() -> u64) {}

    fn served_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        std::iter::once(worker)
    }

    fn hand(&self, home: usize) -> usize {
        home
    }

    fn pause(&self) {
        panic!("nobody else walks");
    }

    fn task_of(&self, node: TaskId) -> TaskId {
        node
    }
}

impl Case {
    fn queues(&self, is_planned: bool) -> Queues<'_> {
        let (n, steps) = (self.n_tasks, self.n_steps as usize);
        let state = State {
            queues: vec![VecDeque::new(); self.rooms.len()],
            begun: vec![vec![None; n]; steps],
            ended: vec![vec![false; n]; steps],
            random: self.seed,
        };
        Queues { case: self, is_planned, state: RefCell::new(state) }
    }

    fn dynamic(&self, scheduler: Box<dyn Scheduler>) -> Progress<Queues<'_>> {
        let driver = self.queues(false);
        Progress::Dynamic(Dynamic::new(driver, self.n_tasks, self.rooms.len(), &self.edges, scheduler))
    }

    /// Polls and completes in a random order until everything is over.
    fn run(&self, progress: &Progress<Queues<'_>>) {
        let n_workers = self.rooms.len();
        let mut released = 0;
        let mut idle = 0;
        while progress.finished() < self.n_steps {
            assert!(idle < 1000, "nothing happens any more");
            let draw = |below: usize| progress.driver().state.borrow_mut().draw(below);
            idle += 1;
            if released < self.n_steps && draw(4) == 0 {
                released += 1;
                progress.release(released);
                idle = 0;
            }
            let worker = draw(n_workers);
            let could_work = progress.has_work(worker);
            let polled = progress.poll(worker);
            assert!(polled || !could_work, "worker {worker} had something to do");
            if polled {
                idle = 0;
            }
            let worker = draw(n_workers);
            let ended = progress.driver().state.borrow_mut().queues[worker].pop_front();
            if let Some((node, step)) = ended {
                progress.driver().state.borrow_mut().ended[step as usize][node as usize] = true;
                progress.complete(worker, node, step);
                idle = 0;
            }
        }
        let state = progress.driver().state.borrow();
        assert!(state.ended.iter().flatten().all(|&ended| ended));
        assert!(state.queues.iter().all(VecDeque::is_empty));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn replay_executes_everything_once_and_in_time(case in cases()) {
        let peers = vec![0; case.rooms.len()];
        let replay = Replay::new(case.queues(true), &case.order, &case.floating, &case.edges, peers);
        case.run(&Progress::Replay(replay));
    }

    #[test]
    fn an_open_order_executes_everything_once_and_in_time(case in cases()) {
        let n_turns = n_turns(steps_under_way(&case.edges));
        let priorities: Vec<f64> = (0..case.n_tasks).map(|task| (task * 7 % 5) as f64).collect();
        let classes = Classes::one(priorities.len(), case.rooms.len());
        case.run(&case.dynamic(Box::new(Eager::new(&priorities, classes.clone(), n_turns))));
        let homes = (0..case.n_tasks).map(|task| task % case.rooms.len()).collect();
        case.run(&case.dynamic(Box::new(Steal::new(&priorities, classes, homes, case.rooms.len(), n_turns))));
    }
}
