//! A worker that waits takes over tasks that float.

#![cfg(not(feature = "shuttle"))]

use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const fn reference(kernel: Kernel) -> [Implementation; 1] {
    [Implementation::new("reference", 1, Dtype::F64, Needs::Nothing, kernel)]
}

static LOAD: Codelet = Codelet::new("load", "x[i] -> y[i]", 1.0, &reference(copy));
static WAIT: Codelet = Codelet::new("wait", "x[i] -> y[i]", 1000.0, &reference(wait));
static TOTAL: Codelet = Codelet::new("total", "x[i] -> sum[] +=", 100.0, &reference(total));

/// So many elements that the sum is a small part of the work.
const N: usize = 1 << 14;

/// Whether the first half has been summed.
static IS_SUMMED: AtomicBool = AtomicBool::new(false);

fn copy(call: &Call<'_>) -> Result<()> {
    call.map(|x: f64| x);
    Ok(())
}

/// Copies; for the first half only after somebody has summed it.
fn wait(call: &Call<'_>) -> Result<()> {
    let begin = Instant::now();
    while call.input::<f64>(0).region().lo()[0] == 0 && !IS_SUMMED.load(Ordering::Acquire) {
        if begin.elapsed() > Duration::from_secs(20) {
            return Err(Error::new(ErrorKind::Task, "nobody takes over the sum"));
        }
        std::thread::yield_now();
    }
    copy(call)
}

fn total(call: &Call<'_>) -> Result<()> {
    let (x, mut sum) = (call.input::<f64>(0), call.output::<f64>(0));
    let start = if call.accumulate() { sum.at([]) } else { 0.0 };
    sum.set([], x.region().range(0).fold(start, |sum, i| sum + x.at([i])));
    if x.region().lo()[0] == 0 {
        IS_SUMMED.store(true, Ordering::Release);
    }
    Ok(())
}

#[test]
fn a_waiting_worker_takes_over_what_floats() {
    let mut graph = Graph::new(1);
    let port = graph.port("port", Dtype::F64, [N]);
    let x = graph.temporary("x", Dtype::F64, [N]);
    let y = graph.output("y", Dtype::F64, [N]);
    let sum = graph.output("sum", Dtype::F64, []);
    graph.task(&LOAD, Dtype::F64, &[port], &[x], &[], &[]).unwrap();
    graph.task(&WAIT, Dtype::F64, &[x], &[y], &[], &[]).unwrap();
    graph.task(&TOTAL, Dtype::F64, &[x], &[sum], &[], &[]).unwrap();
    let tilings = vec![vec![("i".into(), TileSize::Count(2))]];
    let implementations = vec!["reference".into()];
    let options = CutOptions { tilings, implementations, ..CutOptions::default() };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
    // The second task of the first worker ends when its third, which floats, has been executed: by the other
    // one.
    let mut plan = Plan::heuristic(&lowered, &Machine::with_workers(2)).unwrap();
    let placement = plan.placement().unwrap();
    let total =
        lowered.tasks().iter().position(|task| task.codelet == "total" && task.tile.0 == 0).unwrap() as u32;
    assert!(placement.is_floating(total) && placement.order[0].contains(&total));

    let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
    let run = |plan: &Plan| {
        let mut session = Session::new(&pool, &lowered, plan, 64).unwrap();
        let feed =
            |_: u64, ports: &mut dahl_runtime::engine::Ports<'_>| ports.get_mut::<f64>(&port).fill(1.5);
        let mut found = 0.0;
        session.run(&mut Store::new(), 1, feed, |_, outputs| found = outputs.get::<f64>(&sum)[0])?;
        Ok::<_, Error>((found, session.take_trace().workers))
    };
    let (found, workers) = run(&plan).unwrap();
    assert_eq!(found, 1.5 * N as f64);
    assert!(workers[1].iter().any(|event| event.task == total), "{workers:?}");

    // Where nothing floats, it stays where it was planned. (The flag is set, so that nobody waits for it.)
    plan = Plan::fixed(&lowered, &Machine::with_workers(2)).unwrap();
    assert!(plan.placement().unwrap().floating.is_empty());
    let (found, workers) = run(&plan).unwrap();
    assert_eq!(found, 1.5 * N as f64);
    assert!(workers[0].iter().any(|event| event.task == total), "{workers:?}");
}
