//! Random graphs on workers that end what they begin at once, or later and in the order of a queue: every
//! node is executed once and after what it needs, whatever ends when.

use super::*;
use crate::graph::{Edge, EdgeKind};
use crate::machine::{Kind, Machine};
use crate::schedule::{Allowed, Appointed, Eager, Scheduler, Steal, Whereabouts, n_turns, steps_under_way};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

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
    /// Whether not every worker may execute every task, where the order is open.
    is_choosy: bool,
}

/// Edges within a step lead to later tasks, and lists are in ascending order, so that every case can be
/// executed.
fn cases() -> impl Strategy<Value = Case> {
    (1_usize..12, 1_usize..4).prop_flat_map(|(n_tasks, n_workers)| {
        let edges = prop::collection::vec((0..n_tasks, 0..n_tasks, 0_u32..3), 0..2 * n_tasks);
        let tasks = prop::collection::vec((0..n_workers, any::<bool>()), n_tasks);
        let rooms = prop::collection::vec(0_usize..4, n_workers);
        let others = (any::<u64>(), 1_u64..6, any::<bool>());
        (edges, tasks, rooms, others).prop_map(move |(edges, tasks, rooms, (seed, n_steps, is_choosy))| {
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
                is_choosy,
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
    fault: Option<String>,
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
        assert!(self.is_planned || state.fault.is_some() || self.case.allowed().may(node, worker));
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

    fn missing(&self, _: TaskId, _: u64, _: MemoryId, _: &mut dyn FnMut(MemoryId, usize)) {}

    fn fail(&self, fault: Fault) {
        self.state.borrow_mut().fault.get_or_insert(fault.error(|task| format!("task {task}")).to_string());
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
            fault: None,
        };
        Queues { case: self, is_planned, state: RefCell::new(state) }
    }

    /// As many units as there are workers; every other one is of another kind.
    fn machine(&self) -> Machine {
        let odd = (1..self.rooms.len()).step_by(2);
        odd.fold(Machine::with_workers(self.rooms.len()), |machine, unit| {
            machine.with_kind(unit, Kind::cpu().named("odd"))
        })
    }

    /// Some tasks are for one of the kinds.
    fn allowed(&self) -> Allowed {
        let may = |task: TaskId, kind: usize| match (self.is_choosy, task % 3) {
            (true, 0) => kind == 0,
            (true, 1) => kind == 1 || self.rooms.len() == 1,
            _ => true,
        };
        Allowed::new(&self.machine(), self.n_tasks, may).expect("there is a unit for every task")
    }

    fn dynamic(&self, scheduler: Box<dyn Scheduler>) -> Progress<Queues<'_>> {
        let driver = self.queues(false);
        let appointed =
            Appointed { name: "test".into(), scheduler, allowed: Arc::new(self.allowed()), may_rest: false };
        Progress::Dynamic(Dynamic::new(driver, self.n_tasks, self.rooms.len(), &self.edges, appointed))
    }

    /// Polls and completes in a random order until everything is over. With an exact scheduler, whoever has
    /// work finds it.
    fn run(&self, progress: &Progress<Queues<'_>>, is_exact: bool) {
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
            assert!(polled || !could_work || !is_exact, "worker {worker} had something to do");
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
        let memories = vec![0; case.rooms.len()];
        let replay = Replay::new(case.queues(true), &case.order, &case.floating, &case.edges, memories, Allowed::all());
        case.run(&Progress::Replay(replay), true);
    }

    #[test]
    fn an_open_order_executes_everything_once_and_in_time(case in cases()) {
        let n_turns = n_turns(steps_under_way(&case.edges));
        let priorities: Vec<f64> = (0..case.n_tasks).map(|task| (task * 7 % 5) as f64).collect();
        let (machine, allowed) = (case.machine(), case.allowed());
        case.run(&case.dynamic(Box::new(Eager::new(&priorities, n_turns).among(&allowed, &machine))), true);
        let homes = (0..case.n_tasks).map(|task| task % case.rooms.len()).collect();
        let steal = Steal::new(&priorities, homes, case.rooms.len(), n_turns).among(&allowed, &machine);
        case.run(&case.dynamic(Box::new(steal)), true);
    }

    #[test]
    fn whatever_a_scheduler_does_wrong_ends_the_run_and_nothing_hangs(case in cases(), wrong in 0..5_usize) {
        let case = Case { is_choosy: false, ..case };
        let (n_tasks, n_turns) = (case.n_tasks, n_turns(steps_under_way(&case.edges)));
        let careless = Careless { wrong, n_tasks, n_turns, ready: Mutex::default() };
        let progress = case.dynamic(Box::new(careless));
        case.run(&progress, false);
        let fault = progress.driver().state.borrow().fault.clone();
        let expected: &[&str] = match wrong {
            0 | 1 => &["twice", "not ready"],
            2 => &["and there are"],
            3 => &["keeps"],
            _ => &["panicked: careless"],
        };
        match fault {
            Some(fault) => {
                let is_expected = expected.iter().any(|expected| fault.contains(expected));
                prop_assert!(fault.starts_with("the scheduler test ") && is_expected, "{}", fault);
            }
            // With a single task nothing can be returned too early, or again before the run is over.
            None => prop_assert!(wrong < 2 && (n_tasks == 1 || case.edges.is_empty())),
        }
    }
}

/// A scheduler that makes a mistake.
struct Careless {
    wrong: usize,
    n_tasks: usize,
    n_turns: usize,
    ready: Mutex<Vec<(TaskId, usize)>>,
}

impl Scheduler for Careless {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
        self.ready.lock().unwrap().push((task, turn));
    }

    fn take(&self, _worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let mut ready = self.ready.lock().unwrap();
        let first = *ready.first()?;
        match self.wrong {
            0 => Some(first),
            1 => {
                let mut tasks = (0..self.n_tasks as TaskId).map(|task| (task, oldest));
                tasks.find(|task| !ready.contains(task)).or_else(|| ready.pop())
            }
            2 => Some((0, self.n_turns)),
            3 => None,
            _ => panic!("careless"),
        }
    }
}
