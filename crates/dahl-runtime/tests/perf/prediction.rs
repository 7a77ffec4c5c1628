//! What a step of a plan will take.

use super::*;
use crate::turn::Turn;
use dahl_runtime::ErrorKind;
use dahl_runtime::engine::{Pool, Session};
use dahl_runtime::machine::{Machine, MeasuredRates};
use dahl_runtime::perf::{Bases, Costs, Why, predict};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use std::sync::Arc;

/// Models in which every task of a graph takes as long, under every condition.
fn even(turn: &Turn, workers: u32, seconds: f64) -> Models {
    let mut models = Models::new();
    for task in turn.lowered.tasks() {
        for is_cold in [false, true] {
            let key = Key::of_task(task, "cpu");
            models.add(key, task.flops, task.bytes(), Condition { is_cold, workers }, run(1, seconds));
        }
    }
    models
}

#[test]
fn one_worker_takes_the_sum_of_its_tasks_and_what_the_runtime_adds() {
    let turn = Turn::new(6, 2, 8);
    let n = turn.lowered.tasks().len();
    let machine = Machine::with_workers(1);
    let costs = Costs { task_seconds: 1e-7, wait_seconds: 1e-6 };
    for plan in [
        Plan::heuristic(&turn.lowered, &machine).unwrap(),
        Plan::open(&turn.lowered, &machine, SchedulerKind::Eager).unwrap(),
    ] {
        let found = predict(&turn.lowered, &plan, &machine, &even(&turn, 1, 1e-6), costs).expect("predicted");
        let step = n as f64 * 1.1e-6;
        assert!((found.step_seconds / step - 1.0).abs() < 1e-9, "{found:?}");
        // Where the order is open, a worker goes on with what it made ready, also if that is of the next
        // step.
        let first = found.first_step_seconds / step;
        assert!(if plan.placement().is_some() {
            (first - 1.0).abs() < 1e-9
        } else {
            (1.0..2.0).contains(&first)
        });
        assert!((found.busy[0] - 1.0 / 1.1).abs() < 1e-9);
        assert_eq!(found.bases, Bases { history: n, ..Bases::default() });
        // The path is all that the worker does in a step, one after the other.
        assert_eq!(found.critical_path.len(), n);
        assert!(
            found.critical_path.iter().all(|link| link.why == Why::Worker && link.wait_seconds.abs() < 1e-12)
        );
        assert!((found.critical_seconds() - n as f64 * 1e-6).abs() < 1e-12);
    }
}

#[test]
fn more_workers_take_less_but_not_less_than_their_share() {
    // Three rows of tiles on three workers, who need each other's all the time.
    let turn = Turn::new(6, 2, 8);
    let machine = Machine::with_workers(3);
    let plan = Plan::heuristic(&turn.lowered, &machine).unwrap();
    let found =
        predict(&turn.lowered, &plan, &machine, &even(&turn, 3, 1e-6), Costs::NONE).expect("predicted");
    let share = turn.lowered.tasks().len() as f64 / 3.0 * 1e-6;
    assert!((found.step_seconds / share - 1.0).abs() < 1e-9, "{found:?}");
    assert!(found.busy.iter().all(|busy| (busy - 1.0).abs() < 1e-9));
    // Every wait of the path is for another worker, if seeing that takes time.
    let costs = Costs { task_seconds: 0.0, wait_seconds: 1e-5 };
    let found = predict(&turn.lowered, &plan, &machine, &even(&turn, 3, 1e-6), costs).expect("predicted");
    let waits = found.critical_path.iter().filter(|link| matches!(link.why, Why::Data | Why::Memory)).count();
    assert!(waits > 0, "{found:?}");
    let most = share + (waits + 1) as f64 * 1e-5;
    assert!(found.step_seconds > share + 5e-6 && found.step_seconds < most, "{found:?}");
    // Nothing known: still an answer, which says so.
    let found = predict(&turn.lowered, &plan, &machine, &Models::new(), Costs::default()).expect("predicted");
    assert!(found.step_seconds > 0.0 && found.bases.guess == turn.lowered.tasks().len());
}

#[test]
fn a_plan_that_does_not_fit_is_refused() {
    let (turn, other) = (Turn::new(6, 2, 8), Turn::new(6, 3, 8));
    let plan = Plan::heuristic(&turn.lowered, &Machine::with_workers(2)).unwrap();
    let refused = |turn: &Turn, workers| {
        let machine = Machine::with_workers(workers);
        let error =
            predict(&turn.lowered, &plan, &machine, &Models::new(), Costs::NONE).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Plan);
        error.to_string()
    };
    assert!(refused(&turn, 3).contains("for 2 workers and there are 3"));
    assert!(refused(&other, 2).contains("another graph"));
    let machine = Machine::with_workers(2);
    let open = Plan::open(&turn.lowered, &machine, SchedulerKind::Eager).unwrap();
    let nobody = Machine { units: Vec::new(), ..machine };
    assert!(predict(&turn.lowered, &open, &nobody, &Models::new(), Costs::NONE).is_err());
}

#[test]
fn what_a_real_run_teaches_is_enough_to_predict_it() {
    let turn = Turn::new(12, 3, 8);
    for (workers, is_planned) in [(1, true), (2, true), (2, false)] {
        let machine = Machine::with_workers(workers);
        let plan = match is_planned {
            true => Plan::heuristic(&turn.lowered, &machine).unwrap(),
            false => Plan::open(&turn.lowered, &machine, SchedulerKind::Eager).unwrap(),
        };
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let mut session = Session::new(&pool, &turn.lowered, &plan, 1 << 12).expect("a session");
        turn.run(&mut session, 60, 0.0).expect("runs");
        let mut models = Models::new();
        models.learn(&session.take_trace(), RunId(1), Date(1));
        let found = predict(&turn.lowered, &plan, &machine, &models, Costs::default()).expect("predicted");
        let n = turn.lowered.tasks().len();
        // What floated away all the time is known as cold only.
        assert_eq!(found.bases.history + found.bases.scaled, n, "{:?}", found.bases);
        assert!(found.step_seconds > 0.0 && found.busy.len() == workers);
        assert!(found.busy.iter().all(|busy| (0.0..=1.0 + 1e-9).contains(busy)), "{found:?}");
    }
}

#[test]
fn costs_are_those_that_were_measured_where_they_were() {
    let usual = Costs::default();
    assert_eq!(Costs::of(&MeasuredRates::default()), usual);
    let measured = MeasuredRates { task_seconds: Some(3e-7), ..MeasuredRates::default() };
    assert_eq!(Costs::of(&measured), Costs { task_seconds: 3e-7, ..usual });
}
