//! Schedulers of another crate, with public items only: one that decides well, and some that break the rules.

#![cfg(not(feature = "shuttle"))]

mod turn;

use dahl_runtime::ErrorKind;
use dahl_runtime::engine::Pool;
use dahl_runtime::graph::{Edge, TaskId};
use dahl_runtime::machine::{Kind, Machine};
use dahl_runtime::perf::{Costs, ModelCosts, Models, predict};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::{CostModel, Policy, Scheduler, Setting, Whereabouts};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use turn::Turn;

/// Gives every task to the unit where it ends first, as far as it can tell when the task becomes ready.
struct First {
    units: Vec<(usize, usize)>,
    costs: Arc<dyn CostModel>,
    state: Mutex<State>,
    counts: Arc<[AtomicUsize; 3]>,
}

#[derive(Default)]
struct State {
    /// Seconds of work that each unit has been given and has not ended.
    load: Vec<f64>,
    queues: Vec<Vec<(TaskId, usize)>>,
    under_way: BTreeSet<(TaskId, usize)>,
}

impl First {
    fn new(setting: &Setting<'_>, counts: Arc<[AtomicUsize; 3]>) -> Self {
        assert!(setting.edges.iter().all(|edge: &Edge| (edge.to as usize) < setting.lowered.tasks().len()));
        let units: Vec<_> = setting.machine.units.iter().map(|unit| (unit.kind, unit.memory)).collect();
        let state = State {
            load: vec![0.0; units.len()],
            queues: vec![Vec::new(); units.len()],
            under_way: BTreeSet::new(),
        };
        First { units, costs: Arc::clone(&setting.costs), state: Mutex::new(state), counts }
    }
}

impl Scheduler for First {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, data: &dyn Whereabouts) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap();
        let end = |unit: usize| {
            let (kind, memory) = self.units[unit];
            let copies = data.copy_seconds(task, turn, memory, &*self.costs);
            state.load[unit] + copies + self.costs.task_seconds(task, kind)
        };
        let unit = (0..self.units.len()).min_by(|&a, &b| end(a).total_cmp(&end(b))).unwrap();
        state.load[unit] += self.costs.task_seconds(task, self.units[unit].0);
        state.queues[unit].push((task, turn));
    }

    fn take(&self, worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let queue = &mut self.state.lock().unwrap().queues[worker];
        let next = queue.iter().position(|(_, turn)| *turn == oldest).unwrap_or(0);
        (next < queue.len()).then(|| queue.remove(next))
    }

    fn started(&self, task: TaskId, turn: usize, _worker: usize) {
        self.counts[1].fetch_add(1, Ordering::Relaxed);
        assert!(self.state.lock().unwrap().under_way.insert((task, turn)));
    }

    fn ended(&self, task: TaskId, turn: usize, worker: usize) {
        self.counts[2].fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock().unwrap();
        assert!(state.under_way.remove(&(task, turn)));
        state.load[worker] -= self.costs.task_seconds(task, self.units[worker].0);
    }
}

fn machines() -> [Machine; 3] {
    let apart = Machine::with_workers(3).with_unit_apart(1, Kind::cpu().named("fast").times_as_fast(3.0));
    [Machine::with_workers(1), Machine::with_workers(2), apart]
}

#[test]
fn a_scheduler_of_another_crate_decides_in_runs_and_predictions() {
    let turn = Turn::new(8, 2, 4);
    for machine in machines() {
        let counts: Arc<[AtomicUsize; 3]> = Arc::default();
        let make = Arc::clone(&counts);
        let first = Policy::new("first", move |setting| Box::new(First::new(setting, Arc::clone(&make))))
            .with_costs(|lowered, machine| Arc::new(ModelCosts::new(&Models::new(), lowered, machine)));
        let plan = Plan::open(&turn.lowered, &machine, &first).unwrap();
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let mut session = turn.session(&pool, &plan);
        for steps in [20, 1, 5] {
            turn.run(&mut session, steps, 0.0).unwrap();
        }
        let n = 26 * turn.lowered.tasks().len();
        assert_eq!(counts.each_ref().map(|count| count.load(Ordering::Relaxed)), [n; 3]);
        let one = predict(&turn.lowered, &plan, &machine, &Models::new(), Costs::default()).unwrap();
        let other = predict(&turn.lowered, &plan, &machine, &Models::new(), Costs::default()).unwrap();
        assert_eq!(one, other);
        assert!(one.step_seconds > 0.0 && one.busy.iter().any(|&busy| busy > 0.0));
    }
}

/// What a scheduler does wrong.
#[derive(Clone, Copy)]
enum Wrong {
    Twice,
    Unready,
    Keeps,
    Panics,
}

/// Whoever asks gets the first task, except that after some steps a rule is broken.
struct Careless {
    wrong: Wrong,
    n_tasks: TaskId,
    n_good: AtomicUsize,
    ready: Mutex<Vec<(TaskId, usize)>>,
}

impl Scheduler for Careless {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
        self.ready.lock().unwrap().push((task, turn));
    }

    fn take(&self, _worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let mut ready = self.ready.lock().unwrap();
        let first = *ready.first()?;
        if self.n_good.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
            return Some(ready.remove(0));
        }
        match self.wrong {
            Wrong::Twice => Some(first),
            // The last task waits for all others of its step, one of which is ready.
            Wrong::Unready => Some((self.n_tasks - 1, oldest)).filter(|last| *last != first),
            Wrong::Keeps => None,
            Wrong::Panics => {
                // Others may ask before anybody knows, and are to find the same.
                drop(ready);
                panic!("no idea")
            }
        }
    }
}

fn careless(wrong: Wrong, n_good: usize) -> Policy {
    Policy::new("careless", move |setting| {
        let (n_tasks, n_good) = (setting.lowered.tasks().len() as TaskId, AtomicUsize::new(n_good));
        Box::new(Careless { wrong, n_tasks, n_good, ready: Mutex::default() })
    })
}

#[test]
fn a_scheduler_that_breaks_a_rule_ends_the_run_with_an_error() {
    let turn = Turn::new(6, 2, 4);
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for (wrong, text) in [
            (Wrong::Twice, "the scheduler careless returned "),
            (Wrong::Unready, "which is not ready"),
            (Wrong::Keeps, "the scheduler careless keeps "),
            (Wrong::Panics, "the scheduler careless panicked: no idea"),
        ] {
            for n_good in [0, 30] {
                let plan = Plan::open(&turn.lowered, &machine, careless(wrong, n_good)).unwrap();
                let mut session = turn.session(&pool, &plan);
                let error = turn.run(&mut session, 50, 0.0).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
                assert!(error.to_string().contains(text), "{error}");
                let error = predict(&turn.lowered, &plan, &machine, &Models::new(), Costs::NONE).unwrap_err();
                assert!(error.to_string().contains(text), "{error}");
            }
        }
        // The pool is as good as new.
        for plan in turn::plans(&turn, &machine) {
            turn.run(&mut turn.session(&pool, &plan), 10, 0.0).unwrap();
        }
    }
}

#[test]
fn names_that_mean_something_else_are_refused() {
    let (turn, machine) = (Turn::new(4, 2, 2), Machine::with_workers(1));
    for name in ["", "two words", "fixed", "eager", "steal", "a#b"] {
        let policy = Policy::new(name, |_| {
            Box::new(Careless {
                wrong: Wrong::Keeps,
                n_tasks: 0,
                n_good: AtomicUsize::new(0),
                ready: Mutex::default(),
            })
        });
        let error = Plan::open(&turn.lowered, &machine, policy).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}
