//! Workers that rest, and those that stand in for them.

#![cfg(not(feature = "shuttle"))]

mod turn;

use dahl_runtime::engine::{Action, Device, Lookout, Pool, QueueDevice, Session, Store, Workspace};
use dahl_runtime::machine::{Machine, Unit, n_cores};
use dahl_runtime::plan::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turn::{Turn, plans};

/// Numbers that look drawn.
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn whoever_rests_executes_nothing_and_all_is_computed() {
    let turn = Turn::new(6, 2, 8);
    let pool = Arc::new(Pool::new(&Machine::with_workers(3)).unwrap());
    for plan in plans(&turn, pool.machine()) {
        let workspace = Workspace::new();
        let mut session = Session::new_in(&workspace, &pool, &turn.lowered, &plan, 1 << 12).unwrap();
        for hands in [[0, 1, 2], [0, 0, 2], [1, 1, 1], [2, 2, 2], [0, 0, 0], [0, 1, 1], [0, 1, 2]] {
            pool.assign(&hands);
            turn.run(&mut session, 40, 0.0).unwrap();
            let trace = session.take_trace();
            let n_events: usize = trace.workers.iter().map(Vec::len).sum();
            assert_eq!(n_events, 40 * turn.lowered.tasks().len());
            for (worker, events) in trace.workers.iter().enumerate() {
                // Where the order is open, it may have been about to take a task.
                let is_idle = events.is_empty() || plan.placement().is_none();
                assert!(hands[worker] == worker || is_idle, "{hands:?}: worker {worker}");
            }
        }
        // Nobody took more than was planned.
        assert_eq!(workspace.memory_use(0).0, plan.memory(0).bytes);
    }
}

#[test]
fn the_roster_may_change_at_any_time() {
    let turn = Turn::new(6, 2, 8);
    for machine in
        [Machine::with_workers(2), Machine::with_workers(4), Machine::with_workers(4).with_test_unit()]
    {
        let n = machine.units.len();
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let mut state = 1;
        for plan in plans(&turn, &machine) {
            let mut session = turn.session(&pool, &plan);
            let mut change = |_| {
                // Somebody of each memory works; whoever has a memory for itself is among them.
                let stand_in = drawn(&mut state) as usize % 2;
                let is_alone = |worker: usize| machine.units[worker].memory != 0;
                let rests = |worker: usize, drawn: u64| {
                    worker != stand_in && !is_alone(worker) && drawn.is_multiple_of(2)
                };
                let hands: Vec<usize> =
                    (0..n).map(|w| if rests(w, drawn(&mut state)) { stand_in } else { w }).collect();
                pool.assign(&hands);
            };
            for _ in 0..3 {
                turn.run_until(&mut session, 100, &mut change).unwrap();
            }
            pool.assign(&(0..n).collect::<Vec<_>>());
        }
    }
}

#[test]
fn whoever_drives_a_device_is_not_looked_after() {
    if n_cores() < 2 {
        println!("skipped: there is one core");
        return;
    }
    let mut machine = Machine::with_workers(2);
    let memory = machine.add_memory(None);
    machine.units.insert(1, Unit { kind: 0, memory, core: None });
    let device = Arc::new(QueueDevice::new().unwrap()) as Arc<dyn Device>;
    let pool = Arc::new(Pool::with_devices(&machine, [(1, device)]).unwrap());
    let told = Box::new(|waited: &mut [Duration]| {
        assert_eq!(waited.len(), 2, "two workers compute by themselves");
        Some(Duration::ZERO)
    });
    let mut lookout = Lookout::told_by(&pool, told).expect("they are pinned");
    let turn = Turn::new(6, 2, 8);
    for plan in plans(&turn, &machine) {
        let mut session = turn.session(&pool, &plan);
        let look = |_| assert_eq!(lookout.look(1), None);
        turn.run_until(&mut session, 20, look).unwrap();
    }
    // Without its device the unit would have to be pinned.
    let plain = Arc::new(Pool::new(&machine).unwrap());
    assert!(Lookout::told_by(&plain, Box::new(|_| Some(Duration::ZERO))).is_none());
}

#[test]
#[should_panic(expected = "worker 1 cannot stand in for worker 0")]
fn nobody_stands_in_from_another_memory() {
    let pool = Pool::new(&Machine::with_workers(2).with_test_unit()).unwrap();
    pool.assign(&[1, 1]);
}

#[test]
fn a_lookout_lets_a_worker_rest() {
    if n_cores() != 2 {
        return eprintln!("skipped: a worker rests where there is no other core; here are {}", n_cores());
    }
    let turn = Turn::new(6, 2, 8);
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let plan = Plan::heuristic(&turn.lowered, pool.machine()).unwrap();
    let mut session = Session::new(&pool, &turn.lowered, &plan, 1 << 16).unwrap();
    let begun = Instant::now();
    // Half of the second core is somebody else's.
    let tell = move |waited: &mut [Duration]| {
        waited[1] = begun.elapsed() / 2;
        Some(Duration::ZERO)
    };
    let mut lookout = Lookout::told_by(&pool, Box::new(tell)).expect("workers are pinned");
    let mut notice = None;
    let mut store = Store::new();
    // What is done says that nothing is lost by it.
    let mut work = 1;
    while notice.is_none() && begun.elapsed() < Duration::from_secs(20) {
        lookout.resume();
        session.run(&mut store, 8, |_, _| {}, |_, _| {}).unwrap();
        notice = lookout.look(work);
        work += 1000;
    }
    let notice = notice.expect("a worker that has half a core is noticed");
    assert_eq!((notice.worker, notice.action), (1, Action::Rests));
    session.take_trace();
    session.run(&mut store, 8, |_, _| {}, |_, _| {}).unwrap();
    assert!(session.take_trace().workers[1].is_empty());
    drop(lookout);
    session.run(&mut store, 50, |_, _| {}, |_, _| {}).unwrap();
    assert!(!session.take_trace().workers[1].is_empty(), "everybody works again");
}

#[test]
fn more_workers_than_cores_are_left_to_the_system() {
    let machine = Machine::with_workers(n_cores() + 1);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    assert!(Lookout::new(&pool).is_none());
}
