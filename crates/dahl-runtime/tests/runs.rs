//! Runs of a graph whose workers wait for each other all the time: values, overlap of steps, failures.

#![cfg(not(feature = "shuttle"))]

mod turn;

use dahl_runtime::ErrorKind;
use dahl_runtime::engine::{Pool, Session, Workspace};
use dahl_runtime::graph::EdgeKind;
use dahl_runtime::machine::{HOST, Kind, Machine};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use std::sync::Arc;
use turn::{Turn, plans};

fn machines() -> impl Iterator<Item = Machine> {
    let plain = [1, 2, 4].map(Machine::with_workers);
    let test = [1, 2, 4].map(|workers| Machine::with_workers(workers).with_test_unit());
    plain.into_iter().chain(test)
}

#[test]
fn every_engine_computes_every_step_also_over_several_runs() {
    let turn = Turn::new(6, 2, 8);
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for plan in plans(&turn, &machine) {
            let mut session = turn.session(&pool, &plan);
            for steps in [1, 0, 7, 8, 9, 500] {
                turn.run(&mut session, steps, 0.0).unwrap();
            }
        }
    }
}

#[test]
fn two_sessions_take_turns_on_one_pool() {
    let (a, b) = (Turn::new(6, 2, 4), Turn::new(5, 3, 1));
    let machine = Machine::with_workers(2);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    let mut first = a.session(&pool, &Plan::heuristic(&a.lowered, &machine).unwrap());
    let mut second = b.session(&pool, &Plan::open(&b.lowered, &machine, SchedulerKind::Steal).unwrap());
    for round in 0..50 {
        a.run(&mut first, 3, f64::from(round)).unwrap();
        b.run(&mut second, 2, f64::from(round)).unwrap();
    }
}

#[test]
fn sessions_of_one_workspace_run_in_turn_and_never_at_the_same_time() {
    // The second one is larger, and made after the first has run.
    let (a, b) = (Turn::new(6, 2, 4), Turn::new(9, 3, 3));
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let workspace = Workspace::new();
        let session = |turn: &Turn| {
            let plan = Plan::heuristic(&turn.lowered, &machine).unwrap();
            (plan.memory(HOST).bytes, Session::new_in(&workspace, &pool, &turn.lowered, &plan, 0).unwrap())
        };
        let (_, mut first) = session(&a);
        a.run(&mut first, 5, 0.0).unwrap();
        let (bytes, mut second) = session(&b);
        for round in 0..5 {
            b.run(&mut second, 3, f64::from(round)).unwrap();
            a.run(&mut first, 3, f64::from(round)).unwrap();
        }
        assert!((bytes..2 * bytes).contains(&workspace.memory_use(0).0));
        let mut refused = Vec::new();
        let ran = a.run_until(&mut first, 2, |_| refused.extend(b.run(&mut second, 1, 0.0).err()));
        assert_eq!(ran.unwrap(), 2);
        assert_eq!(refused.iter().map(|error| error.kind()).collect::<Vec<_>>(), [ErrorKind::Usage; 2]);
        assert!(refused[0].to_string().contains("another session runs"), "{}", refused[0]);
        b.run(&mut second, 3, 0.0).unwrap();
    }
}

#[test]
fn sharing_memory_across_steps_adds_edges() {
    let turn = Turn::new(6, 2, 8);
    for plan in plans(&turn, &Machine::with_workers(2)) {
        let memory = plan.memory(HOST);
        assert!(memory.bytes < memory.bytes_unshared, "{} of {}", memory.bytes, memory.bytes_unshared);
        assert!(plan.memory_edges().iter().any(|edge| edge.kind == EdgeKind::Memory && edge.distance == 1));
    }
}

#[test]
fn a_failing_kernel_ends_the_run_with_its_error_and_nothing_hangs() {
    let turn = Turn::new(6, 2, 8);
    for machine in machines() {
        let pool = Arc::new(Pool::new(&machine).unwrap());
        for plan in plans(&turn, &machine) {
            for (first, text) in [(980.0, "one thousand"), (1980.0, "a kernel panicked: two thousand")] {
                let mut session = turn.session(&pool, &plan);
                // A step after some of which the first element is the number that fails.
                let error = turn.run(&mut session, 500, first).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Task);
                let message = error.to_string();
                assert!(
                    message.contains(text) && message.contains("turn") && message.contains("worker"),
                    "{message}"
                );
                // What is left behind is not consistent, so the session stays failed.
                assert!(turn.run(&mut session, 1, 0.0).is_err());
            }
            // The pool is as good as new.
            turn.run(&mut turn.session(&pool, &plan), 10, 0.0).unwrap();
        }
    }
}

#[test]
fn a_plan_for_other_workers_is_refused() {
    let turn = Turn::new(4, 2, 2);
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let plan = Plan::heuristic(&turn.lowered, &Machine::with_workers(3)).unwrap();
    let error = Session::new(&pool, &turn.lowered, &plan, 0).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.to_string().contains("3 workers"), "{error}");
}

#[test]
fn a_run_that_is_stopped_ends_after_the_steps_under_way_and_can_go_on() {
    let turn = Turn::new(6, 2, 4);
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    for plan in plans(&turn, pool.machine()) {
        let mut session = turn.session(&pool, &plan);
        let handle = session.handle();
        let n = turn
            .run_until(&mut session, 1000, |step| {
                if step == 100 {
                    handle.stop()
                }
            })
            .unwrap();
        assert!((101..=108).contains(&n), "{n} steps");
        assert_eq!(turn.run(&mut session, 10, 0.0).unwrap(), 10);
    }
}

#[test]
fn a_run_that_is_cancelled_fails_and_says_so() {
    let turn = Turn::new(6, 2, 4);
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    for plan in plans(&turn, pool.machine()) {
        let mut session = turn.session(&pool, &plan);
        let handle = session.handle();
        let cancel = |step| {
            if step == 100 {
                handle.cancel()
            }
        };
        let error = turn.run_until(&mut session, u64::MAX >> 1, cancel).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(turn.run(&mut session, 1, 0.0).unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

#[test]
fn a_stop_that_comes_too_late_does_not_stop_the_next_run() {
    let turn = Turn::new(6, 2, 4);
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let mut session =
        turn.session(&pool, &Plan::heuristic(&turn.lowered, &Machine::with_workers(2)).unwrap());
    let handle = session.handle();
    let stop_at_the_end = |step| {
        if step == 9 {
            handle.stop()
        }
    };
    assert_eq!(turn.run_until(&mut session, 10, stop_at_the_end).unwrap(), 10);
    assert_eq!(turn.run(&mut session, 10, 0.0).unwrap(), 10);
    // A handle does not keep the session's memory.
    drop(session);
    handle.cancel();
}

/// Three kinds of units in three memories.
fn unequal() -> Machine {
    Machine::with_workers(4)
        .with_unit_apart(1, Kind::cpu().named("slow").times_as_fast(0.5))
        .with_unit_apart(3, Kind::cpu().named("fast").times_as_fast(3.0))
}

#[test]
fn unequal_units_in_three_memories_compute_the_same_in_what_was_planned() {
    let (turn, machine) = (Turn::new(12, 1, 4), unequal());
    let pool = Arc::new(Pool::new(&machine).unwrap());
    for plan in plans(&turn, &machine) {
        let workspace = Workspace::new();
        let mut session = Session::new_in(&workspace, &pool, &turn.lowered, &plan, 1 << 16).unwrap();
        for (memory, planned) in plan.memories().iter().enumerate() {
            assert_eq!(workspace.memory_use(memory).0, planned.bytes);
        }
        for steps in [1, 7, 50] {
            turn.run(&mut session, steps, 0.0).unwrap();
        }
        let trace = session.take_trace();
        let Some(placement) = plan.placement() else { continue };
        // Every unit has work, the fastest the most, and copies are those of the plan.
        assert!(placement.order.iter().all(|order| !order.is_empty()));
        assert!(placement.order[3].len() > 2 * placement.order[1].len());
        assert!(!plan.copies().is_empty());
        let made = trace.transfers[..machine.units.len()].iter().map(Vec::len).sum::<usize>();
        assert_eq!(made, 58 * plan.copies().len());
    }
}

#[test]
fn a_plan_that_is_a_byte_too_large_for_any_memory_is_refused() {
    let (turn, machine) = (Turn::new(12, 1, 4), unequal());
    for plan in plans(&turn, &machine) {
        for (memory, planned) in plan.memories().iter().enumerate() {
            let needed = planned.bytes + planned.state_bytes;
            assert!(needed > 0);
            plan.check_machine(&machine.clone().with_limit(memory, needed)).unwrap();
            let small = machine.clone().with_limit(memory, needed - 1);
            assert_eq!(plan.check_machine(&small).unwrap_err().kind(), ErrorKind::Memory);
            let pool = Arc::new(Pool::new(&small).unwrap());
            assert!(Session::new(&pool, &turn.lowered, &plan, 0).is_err());
        }
    }
}
