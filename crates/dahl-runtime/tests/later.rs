//! Units that finish later: a host thread behind a queue, beside others and alone, in all orders.

#![cfg(not(feature = "shuttle"))]

mod turn;

use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{Delay, Device, Pool, QueueDevice, QueueOptions, Session, Store, Workspace};
use dahl_runtime::graph::{Cut, CutOptions, Graph, StateId, lower};
use dahl_runtime::machine::{Kind, Machine, MemoryId};
use dahl_runtime::plan::{Plan, Schedule};
use dahl_runtime::{ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turn::{Turn, plans};

/// A machine some of whose units finish later, by number.
struct Setup {
    name: &'static str,
    machine: Machine,
    later: Vec<usize>,
}

impl Setup {
    fn new(name: &'static str, machine: Machine, later: &[usize]) -> Setup {
        Setup { name, machine, later: later.to_vec() }
    }

    fn pool(&self, delay: Delay) -> (Arc<Pool>, Vec<Arc<QueueDevice>>) {
        let options = QueueOptions { delay, ..QueueOptions::default() };
        let device = |_: &usize| Arc::new(QueueDevice::with_options(options).unwrap());
        let devices: Vec<Arc<QueueDevice>> = self.later.iter().map(device).collect();
        let of_units = self.later.iter().zip(&devices);
        let of_units = of_units.map(|(&unit, device)| (unit, Arc::clone(device) as Arc<dyn Device>));
        (Arc::new(Pool::with_devices(&self.machine, of_units).unwrap()), devices)
    }

    fn memory(&self, unit: usize) -> MemoryId {
        self.machine.units[unit].memory
    }
}

/// Three kinds of units in three memories, of which the last finishes later.
fn unequal() -> Setup {
    let machine = Machine::with_workers(4)
        .with_unit_apart(1, Kind::cpu().named("slow").times_as_fast(0.5))
        .with_unit_apart(3, Kind::cpu().named("fast").times_as_fast(3.0));
    Setup::new("unequal", machine, &[3])
}

/// The same without direct links between memories that are not the host's.
fn without_links(mut machine: Machine) -> Machine {
    machine.links.retain(|link| link.from == 0 || link.to == 0);
    machine
}

fn setups() -> Vec<Setup> {
    let queue = |n: usize| Kind::cpu().named(&format!("queue {n}"));
    let alone = Machine::with_workers(1).with_unit_apart(0, queue(0));
    let beside = Machine::with_workers(2).with_unit_apart(1, queue(0));
    let two = Machine::with_workers(3).with_unit_apart(0, queue(0)).with_unit_apart(2, queue(1));
    let mixed = without_links(unequal().machine);
    vec![
        Setup::new("alone", alone, &[0]),
        Setup::new("beside a core", beside, &[1]),
        Setup::new("two that copy from each other", two.clone(), &[0, 2]),
        Setup::new("two that copy through the host", without_links(two), &[2, 0]),
        unequal(),
        Setup::new("unequal, through the host", mixed, &[3]),
    ]
}

const LATE: Delay = Delay::Random(Duration::from_micros(200));

#[test]
fn every_order_computes_every_step_also_over_several_runs() {
    let turn = Turn::new(6, 2, 8);
    for setup in setups() {
        for delay in [Delay::None, LATE] {
            let (pool, _devices) = setup.pool(delay);
            for plan in plans(&turn, &setup.machine) {
                let mut session = turn.session(&pool, &plan);
                for steps in [1, 0, 7, 8, 9, 30] {
                    turn.run(&mut session, steps, 0.0).unwrap();
                }
            }
        }
    }
}

#[test]
fn bytes_of_each_memory_are_those_planned_and_copies_those_of_the_plan() {
    let turn = Turn::new(12, 1, 4);
    for setup in setups() {
        for plan in plans(&turn, &setup.machine) {
            let (pool, devices) = setup.pool(LATE);
            let workspace = Workspace::new();
            let mut session = Session::new_in(&workspace, &pool, &turn.lowered, &plan, 1 << 16).unwrap();
            turn.run(&mut session, 1, 0.0).unwrap();
            turn.run(&mut session, 19, 0.0).unwrap();
            for (memory, planned) in plan.memories().iter().enumerate() {
                assert_eq!(workspace.memory_use(memory).0.max(1), planned.bytes.max(1), "{}", setup.name);
            }
            for (&unit, device) in setup.later.iter().zip(&devices) {
                assert_eq!(device.used_bytes(), plan.memory(setup.memory(unit)).bytes, "{}", setup.name);
            }
            let trace = session.take_trace();
            if plan.placement().is_some() {
                let made: usize = trace.transfers[..setup.machine.units.len()].iter().map(Vec::len).sum();
                assert_eq!(made, 20 * plan.copies().len(), "{}", setup.name);
            }
            // Every task was executed once, and a unit does one thing at a time.
            let n_events: usize = trace.workers.iter().map(Vec::len).sum();
            assert_eq!(n_events, 20 * turn.lowered.tasks().len());
            for events in &trace.workers {
                assert!(events.iter().all(|event| event.start <= event.end));
                assert!(events.windows(2).all(|pair| pair[0].end <= pair[1].start), "{}", setup.name);
            }
            // What was taken is given back.
            drop((session, workspace, pool));
            assert!(devices.iter().all(|device| device.used_bytes() == 0 && device.peak_bytes() > 0));
        }
    }
}

#[test]
fn a_plan_that_is_a_byte_too_large_is_refused() {
    let (turn, setup) = (Turn::new(12, 1, 4), unequal());
    for plan in plans(&turn, &setup.machine) {
        for (memory, planned) in plan.memories().iter().enumerate() {
            let needed = planned.bytes + planned.state_bytes;
            let with_limit = |bytes: usize| Setup {
                machine: setup.machine.clone().with_limit(memory, bytes),
                later: setup.later.clone(),
                name: "limited",
            };
            let (pool, _devices) = with_limit(needed).pool(Delay::None);
            assert!(Session::new(&pool, &turn.lowered, &plan, 0).is_ok());
            let (pool, devices) = with_limit(needed - 1).pool(Delay::None);
            let error = Session::new(&pool, &turn.lowered, &plan, 0).err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::Memory);
            assert_eq!(devices[0].used_bytes(), 0);
        }
    }
}

#[test]
fn a_device_without_room_refuses_a_session_and_keeps_nothing() {
    let (turn, setup) = (Turn::new(12, 1, 4), unequal());
    let plan = Plan::heuristic(&turn.lowered, &setup.machine).unwrap();
    let bytes = plan.memory(setup.memory(3)).bytes;
    for (limit, is_enough) in [(bytes, true), (bytes - 1, false)] {
        let options = QueueOptions { limit_bytes: Some(limit), ..QueueOptions::default() };
        let device = Arc::new(QueueDevice::with_options(options).unwrap());
        let unit = (3, Arc::clone(&device) as Arc<dyn Device>);
        let pool = Arc::new(Pool::with_devices(&setup.machine, [unit]).unwrap());
        match Session::new(&pool, &turn.lowered, &plan, 0) {
            Ok(mut session) => {
                assert!(is_enough);
                turn.run(&mut session, 5, 0.0).unwrap();
            }
            Err(error) => {
                assert!(!is_enough && error.kind() == ErrorKind::Memory, "{error}");
                assert!(error.to_string().contains(&format!("{bytes} bytes of a queue device")), "{error}");
                assert_eq!(device.used_bytes(), 0);
            }
        }
    }
}

#[test]
fn a_failing_kernel_behind_a_queue_ends_the_run_with_its_error() {
    let turn = Turn::new(6, 2, 8);
    for setup in setups() {
        let (pool, _devices) = setup.pool(LATE);
        for plan in plans(&turn, &setup.machine) {
            for (first, text) in [(980.0, "one thousand"), (1980.0, "a kernel panicked: two thousand")] {
                let mut session = turn.session(&pool, &plan);
                let error = turn.run(&mut session, 500, first).unwrap_err();
                assert_eq!((error.kind(), error.codelet()), (ErrorKind::Task, Some("turn")), "{error}");
                assert!(error.step().is_some() && error.worker().is_some(), "{error}");
                assert!(error.to_string().contains(text), "{error}");
                assert!(turn.run(&mut session, 1, 0.0).is_err());
            }
            turn.run(&mut turn.session(&pool, &plan), 5, 0.0).unwrap();
        }
    }
}

#[test]
fn sessions_take_turns_on_a_device_and_in_a_workspace() {
    // As training and evaluation do.
    let (a, b) = (Turn::new(6, 2, 4), Turn::new(9, 3, 3));
    for setup in setups() {
        let (pool, _devices) = setup.pool(LATE);
        for (of_a, of_b) in plans(&a, &setup.machine).iter().zip(&plans(&b, &setup.machine)) {
            let workspace = Workspace::new();
            let session =
                |turn: &Turn, plan| Session::new_in(&workspace, &pool, &turn.lowered, plan, 0).unwrap();
            let mut first = session(&a, of_a);
            a.run(&mut first, 2, 0.0).unwrap();
            let mut second = session(&b, of_b);
            for round in 0..4 {
                b.run(&mut second, 3, f64::from(round)).unwrap();
                a.run(&mut first, 2, f64::from(round)).unwrap();
            }
        }
    }
}

#[test]
fn two_sessions_run_at_the_same_time_on_one_device() {
    let setup = unequal();
    let (pool, _devices) = setup.pool(LATE);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (pool, machine) = (&pool, &setup.machine);
            scope.spawn(move || {
                let turn = Turn::new(6, 2, 4);
                for plan in plans(&turn, machine) {
                    turn.run(&mut turn.session(pool, &plan), 20, f64::from(seed)).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_run_on_a_device_is_stopped_and_cancelled() {
    let (turn, setup) = (Turn::new(6, 2, 4), unequal());
    let (pool, _devices) = setup.pool(LATE);
    for plan in plans(&turn, &setup.machine) {
        let mut session = turn.session(&pool, &plan);
        let handle = session.handle();
        let stop = |step| {
            if step == 10 {
                handle.stop()
            }
        };
        let n = turn.run_until(&mut session, 1000, stop).unwrap();
        assert!((11..=18).contains(&n), "{n} steps");
        let cancel = |step| {
            if step == 10 {
                handle.cancel()
            }
        };
        let error = turn.run_until(&mut session, u64::MAX >> 1, cancel).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    }
}

#[test]
fn devices_that_do_not_fit_the_machine_are_refused() {
    let refused = |machine: &Machine, units: &[usize]| {
        let device = || Arc::new(QueueDevice::new().unwrap()) as Arc<dyn Device>;
        let devices: Vec<_> = units.iter().map(|&unit| (unit, device())).collect();
        let error = Pool::with_devices(machine, devices).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    };
    let machine = unequal().machine;
    assert!(refused(&machine, &[0]).contains("shares memory 0"));
    assert!(refused(&machine, &[4]).contains("unit 4 of 4"));
    assert!(refused(&machine, &[3, 3]).contains("is given already"));
    let mut shared = machine.clone();
    shared.units[1].memory = shared.units[3].memory;
    assert!(refused(&shared, &[3]).contains("shares memory 2"));
    // A workspace is that of one device.
    let (turn, setup, workspace) = (Turn::new(6, 2, 4), unequal(), Workspace::new());
    let plan = Plan::heuristic(&turn.lowered, &setup.machine).unwrap();
    let session = |pool: &Arc<Pool>| Session::new_in(&workspace, pool, &turn.lowered, &plan, 0);
    assert!(session(&setup.pool(Delay::None).0).is_ok());
    for pool in [setup.pool(Delay::None).0, Arc::new(Pool::new(&setup.machine).unwrap())] {
        let error = session(&pool).err().expect("refused");
        assert!(error.to_string().contains("belongs to another device"), "{error}");
    }
}

/// Sleeps while its flag is up, and writes before and after.
static SLEEP: Codelet = Codelet::new(
    "sleep",
    "y[i] -> y[i]",
    0.0,
    &[Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, sleep)],
);
static HOLD: [AtomicBool; 3] = [const { AtomicBool::new(true) }; 3];
static AWAKE: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

fn sleep(call: &Call<'_>) -> Result<()> {
    let flag = call.scalar(0) as usize;
    let mut y = call.output::<f32>(0);
    y.contiguous().fill(1.0);
    while HOLD[flag].load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    y.contiguous().fill(2.0);
    AWAKE[flag].store(true, Ordering::Release);
    Ok(())
}

#[test]
fn a_device_that_does_not_report_is_given_up_and_keeps_its_memory() {
    let limit = Duration::from_millis(500);
    for (flag, schedule) in [Schedule::Fixed, Schedule::Eager, Schedule::Steal].into_iter().enumerate() {
        let machine = Machine::with_workers(1).with_unit_apart(0, Kind::cpu().named("queue"));
        let setup = Setup::new("stuck", machine, &[0]);
        let (pool, devices) = setup.pool(Delay::None);
        let mut store = Store::new();
        let state = store.add::<f32>("state", [8]).unwrap();
        let mut graph = Graph::new(2);
        let y = store.record(&mut graph, state);
        graph.task(&SLEEP, Dtype::F32, &[], &[y], &[], &[flag as f64]).unwrap();
        let options = CutOptions { implementations: vec!["reference".into()], ..CutOptions::default() };
        let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
        let plan = schedule.plan(&lowered, pool.machine()).unwrap();
        let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
        session.set_watchdog(Some(limit));
        let error = session.run(&mut store, 3, |_, _| {}, |_, _| {}).unwrap_err();
        assert_eq!((error.kind(), error.codelet()), (ErrorKind::Stuck, Some("sleep")));
        assert_eq!((error.step(), error.worker()), (Some(0), Some(0)));
        let text = error.to_string();
        assert!(
            text.contains("worker 0 has been executing sleep (reference) tile 1 of 1 of step 1"),
            "{text}"
        );
        // Nobody gets hold of what the kernel writes, and nobody waits for it.
        assert!(catch_unwind(AssertUnwindSafe(|| store.get::<f32>(StateId(0))[0])).is_err());
        drop((session, store, pool));
        assert!(devices[0].used_bytes() > 0, "its memory is there");
        assert!(HOLD[flag].load(Ordering::Acquire));
        // It goes on in memory that is still there, which is given back when it has ended.
        HOLD[flag].store(false, Ordering::Release);
        while !AWAKE[flag].load(Ordering::Acquire) || devices[0].used_bytes() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
