//! A graph on a machine with two memories: the last unit computes in a memory of its own, as a device does.
//! What it needs is copied there, what others need of it is copied back, and the bits are the same as
//! without.

use dahl::prelude::*;
use dahl::runtime::engine::{Pool, Ports, Session, Store};
use dahl::runtime::graph::Lowered;
use dahl::runtime::machine::HOST;
use dahl::runtime::plan::{Plan, Planned};
use dahl::{Graph, Result};
use std::sync::Arc;

/// Four steps of `w -= rate * sum over the batch of relu(x w') x`; the weights, and how many tasks each unit
/// executed.
fn run(machine: &Machine) -> Result<(Vec<f32>, Vec<usize>)> {
    const N: usize = 64;
    let mut store = Store::new();
    let weights = store.add::<f32>("weights", [3, 5])?;
    for (i, w) in store.get_mut::<f32>(weights).iter_mut().enumerate() {
        *w = (i as f32 - 6.0) / 7.0;
    }
    let bias = store.add::<f32>("bias", [3])?;
    let mut graph = Graph::new(2);
    let (w, b) = (store.record(&mut graph, weights), store.record(&mut graph, bias));
    let x = graph.port("x", Dtype::F32, [N, 5]);
    let rate = graph.port("rate", Dtype::F32, []);
    let y = graph.temporary("y", Dtype::F32, [N, 3]);
    let dw = graph.temporary("dw", Dtype::F32, [3, 5]);
    graph.task(&op::dense::CODELET, Dtype::F32, &[x, w, b], &[y], &[], &[])?;
    graph.task(&op::relu::CODELET, Dtype::F32, &[y], &[y], &[], &[])?;
    graph.task(&op::dense_dw::CODELET, Dtype::F32, &[x, y], &[dw], &[], &[])?;
    let (flat, dflat) = (w.reshape([15])?, dw.reshape([15])?);
    graph.task(&op::sgd::CODELET, Dtype::F32, &[dflat, rate], &[flat], &[], &[])?;

    // Chunks of 16 samples, shared out over the units. Where a unit computes is no question of the graph.
    let plan = |lowered: &Lowered| Plan::heuristic(lowered, machine);
    let planned = Planned::new(&graph, &op::default_cut(), plan)?;
    let pool = Arc::new(Pool::new(machine)?);
    let mut session = Session::new(&pool, &planned.lowered, &planned.plan, 1 << 10)?;
    let feed = |step: u64, ports: &mut Ports<'_>| {
        for (i, x) in ports.get_mut::<f32>(&x).iter_mut().enumerate() {
            *x = ((i as u64 * 31 + step * 17) % 23) as f32 / 11.0 - 1.0;
        }
        ports.get_mut::<f32>(&rate)[0] = 0.01;
    };
    session.run(&mut store, 4, feed, |_, _| {})?;
    let executed = session.take_trace().workers.iter().map(Vec::len).collect();
    Ok((store.get::<f32>(weights).to_vec(), executed))
}

fn main() -> Result<()> {
    let plain = Machine::with_workers(2);
    let two = Machine::with_workers(2).with_test_unit();
    assert_eq!((plain.memories.len(), two.memories.len()), (1, 2));
    let (expected, _) = run(&plain)?;
    let (weights, executed) = run(&two)?;
    for (unit, tasks) in two.units.iter().zip(&executed) {
        println!("{:?} in memory {}: {tasks} tasks", unit.kind, unit.memory);
    }
    // Both units took part, the second one in a memory that the program never sees.
    assert!(executed.iter().all(|&tasks| tasks > 0) && two.units[1].memory != HOST);
    assert!(weights.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
    println!("the same {} weights as with one memory, bit for bit", weights.len());
    Ok(())
}
