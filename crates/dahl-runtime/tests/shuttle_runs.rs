//! Schedules of whole runs, explored by shuttle: clocks and counters, parking, the overlap of steps and of
//! runs.

#![cfg(feature = "shuttle")]

mod past;
mod turn;

use dahl_runtime::engine::{Device, Pool, QueueDevice};
use dahl_runtime::graph::TaskId;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::{Policy, Scheduler, SchedulerKind, Whereabouts};
use past::Past;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use turn::Turn;

fn explore(iterations: usize, machine: fn() -> Machine, plan: fn(&Turn, &Machine) -> Plan) {
    let body = move || {
        let machine = machine();
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let turn = Turn::new(2, 1, 4);
        let plan = plan(&turn, &machine);
        let mut session = turn.session(&pool, &plan);
        for steps in [6, 1, 3] {
            turn.run(&mut session, steps, 0.0).unwrap();
        }
    };
    shuttle::check_random(body, iterations);
    shuttle::check_pct(body, iterations, 3);
}

/// The same for a graph whose arrays have several versions and whose edges reach back up to three steps.
fn explore_past(iterations: usize, machine: fn() -> Machine, plan: fn(&Past, &Machine) -> Plan) {
    let body = move || {
        let machine = machine();
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let past = Past::new(4);
        let plan = plan(&past, &machine);
        let mut session = past.session(&pool, &plan);
        let mut store = Past::store();
        for steps in [5, 1, 3] {
            past.run(&mut session, &mut store, steps);
        }
    };
    shuttle::check_random(body, iterations);
    shuttle::check_pct(body, iterations, 3);
}

/// The same where the last unit finishes later: shuttle decides when.
fn explore_later(iterations: usize, machine: fn() -> Machine, plan: fn(&Turn, &Machine) -> Plan) {
    let body = move || {
        let machine = machine();
        let device = (machine.units.len() - 1, Arc::new(QueueDevice::new().unwrap()) as Arc<dyn Device>);
        let pool = Arc::new(Pool::with_devices(&machine, [device]).unwrap());
        let turn = Turn::new(2, 1, 4);
        let plan = plan(&turn, &machine);
        let mut session = turn.session(&pool, &plan);
        for steps in [4, 1] {
            turn.run(&mut session, steps, 0.0).unwrap();
        }
    };
    shuttle::check_random(body, iterations);
    shuttle::check_pct(body, iterations, 3);
}

#[test]
fn replay_on_a_worker_and_a_unit_that_finishes_later() {
    explore_later(300, || Machine::with_workers(2).with_test_unit(), fixed);
}

#[test]
fn replay_on_a_unit_alone_that_finishes_later() {
    explore_later(200, || Machine::with_workers(1).with_test_unit(), fixed);
}

#[test]
fn eager_on_a_worker_and_a_unit_that_finishes_later() {
    explore_later(300, || Machine::with_workers(2).with_test_unit(), eager);
}

#[test]
fn stealing_on_a_worker_and_a_unit_that_finishes_later() {
    explore_later(300, || Machine::with_workers(2).with_test_unit(), steal);
}

fn floating(turn: &Turn, machine: &Machine) -> Plan {
    let plan = Plan::heuristic(&turn.lowered, machine).unwrap();
    assert!(plan.placement().is_some_and(|placement| !placement.floating.is_empty()));
    plan
}

fn fixed(turn: &Turn, machine: &Machine) -> Plan {
    Plan::fixed(&turn.lowered, machine).unwrap()
}

fn eager(turn: &Turn, machine: &Machine) -> Plan {
    Plan::open(&turn.lowered, machine, SchedulerKind::Eager).unwrap()
}

fn steal(turn: &Turn, machine: &Machine) -> Plan {
    Plan::open(&turn.lowered, machine, SchedulerKind::Steal).unwrap()
}

#[test]
fn replay_on_two_workers() {
    explore(1000, || Machine::with_workers(2), fixed);
}

#[test]
fn replay_on_three_workers_of_which_one_has_a_memory_of_its_own() {
    explore(500, || Machine::with_workers(3).with_test_unit(), fixed);
}

#[test]
fn floating_tasks_on_two_workers() {
    explore(1000, || Machine::with_workers(2), floating);
}

#[test]
fn floating_tasks_on_three_workers_of_which_one_has_a_memory_of_its_own() {
    explore(500, || Machine::with_workers(3).with_test_unit(), floating);
}

#[test]
fn eager_on_two_workers() {
    explore(1000, || Machine::with_workers(2), eager);
}

#[test]
fn eager_on_three_workers_of_which_one_has_a_memory_of_its_own() {
    explore(500, || Machine::with_workers(3).with_test_unit(), eager);
}

#[test]
fn stealing_on_two_workers() {
    explore(1000, || Machine::with_workers(2), steal);
}

#[test]
fn stealing_on_three_workers_of_which_one_has_a_memory_of_its_own() {
    explore(500, || Machine::with_workers(3).with_test_unit(), steal);
}

#[test]
fn replay_of_versions_on_two_workers() {
    explore_past(500, || Machine::with_workers(2), |past, n| Plan::heuristic(&past.lowered, n).unwrap());
}

#[test]
fn eager_versions_on_two_workers() {
    explore_past(
        500,
        || Machine::with_workers(2),
        |past, machine| Plan::open(&past.lowered, machine, SchedulerKind::Eager).unwrap(),
    );
}

#[test]
fn stealing_of_versions_on_three_workers_of_which_one_has_a_memory_of_its_own() {
    explore_past(
        250,
        || Machine::with_workers(3).with_test_unit(),
        |past, machine| Plan::open(&past.lowered, machine, SchedulerKind::Steal).unwrap(),
    );
}

/// Workers rest and come back while steps are under way.
fn explore_resting(iterations: usize, plan: fn(&Turn, &Machine) -> Plan) {
    let body = move || {
        let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
        let turn = Turn::new(2, 1, 4);
        let mut session = turn.session(&pool, &plan(&turn, pool.machine()));
        let rosters = [[0, 0], [0, 1], [1, 1], [0, 0], [0, 1]];
        turn.run_until(&mut session, 5, |step| pool.assign(&rosters[step as usize])).unwrap();
        pool.assign(&[1, 1]);
        turn.run(&mut session, 3, 0.0).unwrap();
    };
    shuttle::check_random(body, iterations);
    shuttle::check_pct(body, iterations, 3);
}

#[test]
fn resting_under_replay() {
    explore_resting(1000, fixed);
}

#[test]
fn resting_where_tasks_float() {
    explore_resting(1000, floating);
}

#[test]
fn resting_where_the_order_is_open() {
    explore_resting(500, steal);
    explore_resting(500, eager);
}

/// Gives out tasks in the order in which they became ready, up to a number of them.
struct Fifo {
    ready: Mutex<VecDeque<(TaskId, usize)>>,
    left: Mutex<usize>,
}

impl Scheduler for Fifo {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
        self.ready.lock().unwrap().push_back((task, turn));
    }

    fn take(&self, _worker: usize, _oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let mut left = self.left.lock().unwrap();
        if *left == 0 {
            return None;
        }
        let task = self.ready.lock().unwrap().pop_front()?;
        *left -= 1;
        Some(task)
    }
}

fn fifo(turn: &Turn, machine: &Machine, left: usize) -> Plan {
    let policy =
        Policy::new("fifo", move |_| Box::new(Fifo { ready: Mutex::default(), left: Mutex::new(left) }));
    Plan::open(&turn.lowered, machine, policy).unwrap()
}

#[test]
fn a_scheduler_of_another_crate_on_two_workers() {
    explore(300, || Machine::with_workers(2), |turn, machine| fifo(turn, machine, usize::MAX));
}

#[test]
fn a_scheduler_that_keeps_tasks_ends_the_run() {
    let body = || {
        let machine = Machine::with_workers(2);
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let turn = Turn::new(2, 1, 4);
        let mut session = turn.session(&pool, &fifo(&turn, &machine, 5));
        let error = turn.run(&mut session, 3, 0.0).unwrap_err().to_string();
        assert!(error.contains("the scheduler fifo keeps"), "{error}");
    };
    shuttle::check_random(body, 300);
    shuttle::check_pct(body, 300, 3);
}
