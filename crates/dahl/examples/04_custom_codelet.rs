//! An operation of your own, in one file: a moving average. From its index line the runtime knows which
//! neighbours a tile needs (a halo), so the same codelet runs whole, cut into tiles, and on any number of
//! workers.

use dahl::runtime::array::{Dtype, Params, submit};
use dahl::runtime::codelet::relation::TileSize;
use dahl::runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl::runtime::engine::{Pool, Ports, Session, Store};
use dahl::runtime::graph::{Cut, CutOptions};
use dahl::runtime::graph::{Graph, lower};
use dahl::runtime::machine::Machine;
use dahl::runtime::plan::Plan;
use dahl::runtime::{Result, Runtime};
use std::sync::Arc;

/// The mean of `k` neighbours: `y[o]` reads `x[o]` to `x[o+k-1]`, two operations for each of them.
static MOVING_AVERAGE: Codelet = Codelet::new(
    "moving_average",
    "x[i] -> y[o] where i = o+t, t<k",
    2.0,
    &[Implementation::new("reference", 1, Dtype::F64, Needs::Nothing, moving_average)],
);

/// Computes the part of `y` it is asked for. Indices are those of the whole arrays, whatever the tile.
fn moving_average(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f64>(0), call.output::<f64>(0));
    let k = call.int(0);
    for o in y.region().range(0) {
        let sum: f64 = (o..o + k).map(|i| x.at([i])).sum();
        y.set([o], sum / k as f64);
    }
    Ok(())
}

fn main() -> Result<()> {
    const N: usize = 1000;
    const K: usize = 5;
    let values: Vec<f64> = (0..N).map(|i| (i % 7) as f64).collect();
    let expected: Vec<f64> = values.windows(K).map(|w| w.iter().sum::<f64>() / K as f64).collect();

    // Submitted on arrays: returns at once, reading waits.
    let machine = Machine::with_workers(2);
    let runtime = Runtime::new(&machine)?;
    let arena = runtime.arena("work");
    let x = arena.array_from([N], &values)?;
    let mut y = arena.filled([N - K + 1], 0.0)?;
    submit(
        &MOVING_AVERAGE,
        "reference",
        &[&x],
        &mut [&mut y],
        Params { ints: &[K as i64], ..Params::default() },
    )?;
    assert_eq!(y.read()?.as_slice(), Some(&expected[..]));

    // Recorded in a graph and cut into tiles of 300: neighbouring tiles read each other's inputs.
    let mut graph = Graph::new(1);
    let (x, y) = (graph.port("x", Dtype::F64, [N]), graph.output("y", Dtype::F64, [N - K + 1]));
    graph.task(&MOVING_AVERAGE, Dtype::F64, &[x], &[y], &[K as i64], &[])?;
    let options =
        CutOptions { tilings: vec![vec![("o".into(), TileSize::Size(300))]], ..CutOptions::default() };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
    lowered.tasks().iter().for_each(|task| println!("{task:?} reads {}", task.spec.args[0].region));
    let pool = Arc::new(Pool::new(&machine)?);
    let mut session =
        Session::new(&pool, &lowered, &Plan::heuristic(&lowered, &Machine::with_workers(2))?, 0)?;
    let feed = |_: u64, ports: &mut Ports<'_>| {
        ports.get_mut::<f64>(&x).copy_from_slice(&values);
    };
    session.run(&mut Store::new(), 1, feed, |_, outputs| assert_eq!(outputs.get::<f64>(&y), expected))?;
    println!("{} means of {K} neighbours, whole and in tiles", expected.len());
    Ok(())
}
