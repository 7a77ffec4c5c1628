//! The watchdog: kernels that do not come back end the run that waits for them, and nothing is used after it
//! is gone.

#![cfg(not(feature = "shuttle"))]

use dahl_runtime::array::{Dtype, Params, submit};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::runtime::Options;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Error, ErrorKind, Result, Runtime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sleeps while the flag is up whose number is in its scalar, and writes before and after.
static SLEEP: Codelet = Codelet::new(
    "sleep",
    "y[i] -> y[i]",
    0.0,
    &[Implementation::new("reference", 1, Dtype::F32, Needs::Nothing, sleep)],
);
/// One flag per test, so that they can run at the same time.
static HOLD: [AtomicBool; 4] = [const { AtomicBool::new(true) }; 4];
static AWAKE: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];

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

/// Lets a kernel go on when the test is over, also if it failed: the end of a runtime waits for its tasks.
struct LetGo(usize);

impl Drop for LetGo {
    fn drop(&mut self) {
        HOLD[self.0].store(false, Ordering::Release);
    }
}

/// Long enough for a busy machine to start a kernel.
const LIMIT: Duration = Duration::from_millis(500);

/// A graph of two tasks in a row on a stored array, the first of which sleeps.
fn session(pool: &Arc<Pool>, store: &mut Store, flag: usize, is_planned: bool) -> Result<Session> {
    let state = store.add::<f32>("state", [8])?;
    let mut graph = Graph::new(2);
    let y = store.record(&mut graph, state);
    graph.task(&SLEEP, Dtype::F32, &[], &[y], &[], &[flag as f64])?;
    graph.task(&SLEEP, Dtype::F32, &[], &[y], &[], &[flag as f64])?;
    let options = CutOptions { implementations: vec!["reference".into()], ..CutOptions::default() };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
    let plan = if is_planned {
        Plan::heuristic(&lowered, pool.machine()).unwrap()
    } else {
        Plan::open(&lowered, pool.machine(), SchedulerKind::Eager).unwrap()
    };
    Session::new(pool, &lowered, &plan, 0)
}

fn stuck(flag: usize, is_planned: bool) -> Error {
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let mut store = Store::new();
    let mut session = session(&pool, &mut store, flag, is_planned).unwrap();
    session.set_watchdog(Some(LIMIT));
    let start = Instant::now();
    let error = session.run(&mut store, 3, |_, _| {}, |_, _| {}).unwrap_err();
    assert!(start.elapsed() >= LIMIT);
    assert!(HOLD[flag].load(Ordering::Acquire), "the kernel is still at it");

    // The session stays failed, and nobody gets hold of what the kernel writes.
    assert_eq!(session.run(&mut store, 1, |_, _| {}, |_, _| {}).unwrap_err().kind(), ErrorKind::Stuck);
    let state = dahl_runtime::graph::StateId(0);
    assert!(catch_unwind(AssertUnwindSafe(|| store.get::<f32>(state)[0])).is_err());
    let mut other = self::session(&pool, &mut Store::new(), flag, is_planned).unwrap();
    let again = other.run(&mut store, 1, |_, _| {}, |_, _| {}).unwrap_err();
    assert!(again.to_string().contains("make a new store"), "{again}");
    // Neither does anybody wait for it.
    drop((session, other, store, pool));
    assert!(HOLD[flag].load(Ordering::Acquire));

    // The kernel goes on in memory that is still there; a sanitizer would tell if it were not.
    HOLD[flag].store(false, Ordering::Release);
    while !AWAKE[flag].load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    error
}

fn assert_context(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Stuck);
    assert_eq!((error.codelet(), error.step()), (Some("sleep"), Some(0)));
    assert_eq!(error.arguments(), Some("state[0..8] of [8]"));
    assert_eq!(error.location().map(|location| location.file()), Some(file!()));
    let worker = error.worker().expect("a worker");
    let text = error.to_string();
    let executing =
        format!("worker {worker} has been executing sleep (reference) tile 1 of 1 of step 1 for ");
    for part in ["no task has finished for 0.5 s", &executing] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_kernel_that_sleeps_ends_a_planned_run() {
    assert_context(&stuck(0, true));
}

#[test]
fn a_kernel_that_sleeps_ends_an_open_run() {
    let error = stuck(1, false);
    assert_context(&error);
    let waits = "sleep (reference) tile 1 of 1 of step 1 waits for sleep (reference) tile 1 of 1 of step 1";
    assert!(error.to_string().contains(waits), "{error}");
}

#[test]
fn a_run_that_gets_on_is_left_alone() -> Result<()> {
    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let mut store = Store::new();
    let mut session = session(&pool, &mut store, 2, true)?;
    session.set_watchdog(Some(Duration::from_secs(60)));
    HOLD[2].store(false, Ordering::Release);
    session.run(&mut store, 100, |_, _| {}, |_, _| {})?;
    assert_eq!(store.get::<f32>(dahl_runtime::graph::StateId(0)), [2.0; 8]);
    assert!(session.take_trace().workers.iter().all(Vec::is_empty), "watching is not tracing");
    Ok(())
}

#[test]
fn whoever_waits_for_a_submitted_task_that_sleeps_is_told() -> Result<()> {
    let options = Options { watchdog: Some(LIMIT), ..Options::default() };
    let runtime = Runtime::with_options(&Machine::with_workers(2), options)?;
    let _let_go = LetGo(3);
    let arena = runtime.arena("work");
    let mut y = arena.filled([4], 0.0f32)?;
    let params = Params { scalars: &[3.0], ..Params::default() };
    submit(&SLEEP, "reference", &[], &mut [&mut y], params)?;
    submit(&SLEEP, "reference", &[], &mut [&mut y], params)?;
    for error in [y.read().map(|_| ()).unwrap_err(), runtime.wait().unwrap_err()] {
        assert_eq!((error.kind(), error.codelet()), (ErrorKind::Stuck, Some("sleep")));
        let text = error.to_string();
        for part in ["has been executing sleep (reference) for ", "on y[4]", "about 2 submitted tasks"] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }
    // Nothing is lost here: once the kernel is done, the array can be read.
    HOLD[3].store(false, Ordering::Release);
    while y.read().is_err() {}
    assert_eq!(y.read()?[[0]], 2.0);
    Ok(())
}
