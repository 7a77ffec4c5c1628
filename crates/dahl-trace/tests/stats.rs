//! What statistics find in real runs: an implementation that was made slow, and a worker whose core has other
//! things to do.
//!
//! What is planted is several times as slow, so that whatever else the machine is doing can hardly hide it.
//! Still, these are times of real kernels, so `.ci/full` runs them; the tests beside the statistics plant the
//! same in traces that were made up.

use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, lower};
use dahl_runtime::machine::{Machine, Peaks, n_cores, pin_current_thread};
use dahl_runtime::plan::Plan;
use dahl_runtime::trace::Trace;
use dahl_trace::Statistics;
use dahl_trace::stats::SlowReason;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const fn implementation(name: &'static str, kernel: dahl_runtime::codelet::Kernel) -> Implementation {
    Implementation::new(name, 1, Dtype::F32, Needs::Nothing, kernel)
}

/// Work that the compiler cannot leave out, and that takes as long on any core of a kind.
fn spin(rounds: u32) {
    let mut state = 1_u32;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(747_796_405).wrapping_add(1));
    }
}

fn quick(call: &Call<'_>) -> Result<()> {
    spin(1_000);
    call.map(|x: f32| x + 1.0);
    Ok(())
}

fn slow(call: &Call<'_>) -> Result<()> {
    spin(50_000);
    call.map(|x: f32| x + 1.0);
    Ok(())
}

const LINE: &str = "x[i] -> y[i]";
static FIRST: Codelet = Codelet::new("first", LINE, 1000.0, &[implementation("quick", quick)]);
static SECOND: Codelet = Codelet::new("second", LINE, 1000.0, &[implementation("quick", quick)]);
static THIRD: Codelet = Codelet::new("third", LINE, 1000.0, &[implementation("quick", quick)]);
static BOTH: Codelet =
    Codelet::new("both", LINE, 1000.0, &[implementation("quick", quick), implementation("slow", slow)]);
static ALONE: Codelet = Codelet::new("alone", LINE, 1000.0, &[implementation("slow", slow)]);

/// A chain of tasks, in two tiles.
fn chain(codelets: &[&'static Codelet]) -> (Graph, Lowered, Cut) {
    let mut graph = Graph::new(4);
    let mut x = graph.port("x", Dtype::F32, [64]);
    for (i, codelet) in codelets.iter().enumerate() {
        let y = match i + 1 == codelets.len() {
            true => graph.output("y", Dtype::F32, [64]),
            false => graph.temporary(&format!("t{i}"), Dtype::F32, [64]),
        };
        graph.task(codelet, Dtype::F32, &[x], &[y], &[], &[]).unwrap();
        x = y;
    }
    let options = CutOptions {
        tilings: vec![vec![("i".into(), TileSize::Size(32))]],
        implementations: vec!["quick".into(), "slow".into()],
        ..CutOptions::default()
    };
    let cut = Cut::heuristic(&graph, &options).unwrap();
    let lowered = lower(&graph, &cut).unwrap();
    (graph, lowered, cut)
}

fn traced(lowered: &Lowered, n_workers: usize, n_steps: u64) -> Trace {
    let pool = Arc::new(Pool::new(&Machine::with_workers(n_workers)).unwrap());
    let plan = Plan::fixed(lowered, &Machine::with_workers(n_workers)).unwrap();
    let mut session = Session::new(&pool, lowered, &plan, 1 << 14).unwrap();
    session.run(&mut Store::new(), n_steps, |_, _| {}, |_, _| {}).unwrap();
    session.take_trace()
}

#[test]
#[ignore = "kernels are timed; `.ci/full` runs it"]
fn a_slow_implementation_is_found_beside_a_faster_one() {
    let (graph, _, mut cut) = chain(&[&FIRST, &BOTH, &SECOND, &BOTH, &THIRD]);
    cut.tasks[3].implementations = BOTH.implementation("slow", Dtype::F32).unwrap().into();
    let lowered = lower(&graph, &cut).unwrap();
    let trace = traced(&lowered, 1, 200);
    let statistics = Statistics::of(&trace);
    let found = statistics.slow_implementations(&Peaks::nominal(), &[]);
    let slow = found.iter().find(|it| it.implementation == "slow").expect("it is found");
    assert_eq!(slow.codelet, "both");
    assert!(
        matches!(&slow.reason, SlowReason::Beside { other, ratio } if other == "quick" && *ratio > 3.0),
        "{slow:?}"
    );
}

#[test]
#[ignore = "kernels are timed; `.ci/full` runs it"]
fn a_slow_implementation_is_found_far_from_the_peak_where_there_is_no_other() {
    let (_, lowered, _) = chain(&[&FIRST, &SECOND, &ALONE, &THIRD]);
    let trace = traced(&lowered, 1, 200);
    let found = Statistics::of(&trace).slow_implementations(&Peaks::nominal(), &[]);
    let slow = found.first().expect("it is found");
    assert_eq!((slow.codelet.as_str(), slow.implementation.as_str()), ("alone", "slow"));
    assert!(matches!(slow.reason, SlowReason::FarFromPeak { times } if times > 10.0), "{slow:?}");
}

#[test]
#[ignore = "what the system gives to whom differs from run to run; `.ci/full` runs it"]
fn a_worker_whose_core_has_other_things_to_do_is_found() {
    if n_cores() < 2 || !cfg!(target_os = "linux") {
        // Past the harness, which hides what passing tests print.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: threads cannot be pinned to two cores here\n",
        );
        return;
    }
    let (_, lowered, _) = chain(&[&ALONE, &ALONE, &ALONE, &ALONE]);
    let is_over = AtomicBool::new(false);
    let trace = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                pin_current_thread(1);
                while !is_over.load(Ordering::Relaxed) {
                    spin(1_000);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        let trace = traced(&lowered, 2, 150);
        is_over.store(true, Ordering::Relaxed);
        trace
    });
    let found = Statistics::of(&trace).slow_workers();
    let slow = found.iter().find(|it| it.worker == 1).unwrap_or_else(|| panic!("it is found: {found:?}"));
    assert!(slow.is_slower() || slow.lost > 0.1, "{slow:?}");
}
