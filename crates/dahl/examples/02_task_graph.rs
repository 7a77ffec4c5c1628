//! Records a graph by hand, looks at what lowering and planning make of it, and replays it.

use dahl::prelude::*;
use dahl::runtime::engine::{Pool, Session, Store};
use dahl::runtime::graph::Cut;
use dahl::runtime::graph::lower;
use dahl::runtime::machine::HOST;
use dahl::runtime::plan::Plan;
use dahl::{Graph, Result};
use std::sync::Arc;

fn main() -> Result<()> {
    const N: usize = 40;
    // Weights outlive the graph, so they live in a store.
    let mut store = Store::new();
    let weights = store.add::<f32>("weights", [3, 5])?;
    store.get_mut::<f32>(weights).fill(0.5);
    let bias = store.add::<f32>("bias", [3])?;

    // Record: y = relu(x w' + b), and the sum of y over the batch. Shapes are checked here, nothing runs.
    let mut graph = Graph::new(4);
    let x = graph.port("x", Dtype::F32, [N, 5]);
    let total = graph.output("total", Dtype::F32, [3]);
    let (w, b) = (store.record(&mut graph, weights), store.record(&mut graph, bias));
    let y = graph.temporary("y", Dtype::F32, [N, 3]);
    graph.task(&op::dense::CODELET, Dtype::F32, &[x, w, b], &[y], &[], &[])?;
    graph.task(&op::relu::CODELET, Dtype::F32, &[y], &[y], &[], &[])?;
    graph.task(&op::dense_db::CODELET, Dtype::F32, &[y], &[total], &[], &[])?;

    // Lower: chunks of 16 samples, converted to sample lanes, and partial sums that are reduced in order.
    let lowered = lower(&graph, &Cut::heuristic(&graph, &op::default_cut())?)?;
    for task in lowered.tasks() {
        println!("{task:?}, {} bytes", task.bytes());
    }
    // Plan: who does what, when, and where every buffer lies.
    let plan = Plan::heuristic(&lowered, &Machine::with_workers(2))?;
    println!(
        "{} bytes planned, {} without sharing",
        plan.memory(HOST).bytes,
        plan.memory(HOST).bytes_unshared
    );

    // Execute, three steps of it.
    let pool = Arc::new(Pool::new(&Machine::with_workers(2))?);
    let mut session = Session::new(&pool, &lowered, &plan, 0)?;
    let mut totals = Vec::new();
    session.run(
        &mut store,
        3,
        |step, ports| ports.get_mut::<f32>(&x).fill(step as f32),
        |_, outputs| totals.push(outputs.get::<f32>(&total).to_vec()),
    )?;
    // 40 samples, each 5 times 0.5 times the number of the step.
    assert_eq!(totals, [[0.0; 3], [100.0; 3], [200.0; 3]]);
    println!("totals: {totals:?}");
    Ok(())
}
