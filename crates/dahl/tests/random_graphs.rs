//! Random graphs give the same bits under every scheduler, on any number of workers, in one memory and in
//! two; and no two buffers that are alive at the same time share memory.
//!
//! A random graph has rows of features that go through dense layers and ReLUs (some in place) in any order,
//! sums over the samples, and weights that these sums update, so that steps depend on one another.

mod sharing;

use dahl::op;
use dahl::train::Schedule;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::engine::{Pool, Ports, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, StateId, Var, lower};
use dahl_runtime::machine::Machine;
use proptest::collection::vec;
use proptest::prelude::*;
use sharing::check_memory;
use std::sync::Arc;

const T: Dtype = Dtype::F64;
const STEPS: u64 = 4;

/// One recorded task: what it is, and which arrays it takes (modulo how many there are).
#[derive(Clone, Debug)]
enum Op {
    Relu(usize),
    ReluInPlace(usize),
    Dense(usize, usize),
    Update(usize, usize),
    Total(usize),
}

#[derive(Clone, Debug)]
struct Case {
    samples: usize,
    features: usize,
    ops: Vec<(Op, i32)>,
    tilings: Vec<(&'static str, usize)>,
    groups: usize,
    implementation: &'static str,
}

struct Recorded {
    graph: Graph,
    store: Store,
    port: Var,
    rate: Var,
    outputs: Vec<Var>,
    weights: Vec<StateId>,
}

fn record(case: &Case) -> Recorded {
    let (n, d) = (case.samples, case.features);
    let mut store = Store::new();
    let mut graph = Graph::new(2);
    let (port, rate) = (graph.port("x", T, [n, d]), graph.port("rate", T, []));
    let first = graph.temporary("first", T, [n, d]);
    graph.task(&op::relu::CODELET, T, &[port], &[first], &[], &[]).unwrap();
    let mut rows = vec![first];
    let (mut weights, mut matrices, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let wave = |i: usize| ((i * 7919 % 1009) as f64 / 504.5 - 1.0) * 0.5;
    for (number, (op, priority)) in case.ops.iter().enumerate() {
        graph.set_priority(*priority);
        let row = |i: usize| rows[i % rows.len()];
        match *op {
            Op::Relu(i) => {
                let (x, y) = (row(i), graph.temporary(&format!("relu{number}"), T, [n, d]));
                graph.task(&op::relu::CODELET, T, &[x], &[y], &[], &[]).unwrap();
                rows.push(y);
            }
            Op::ReluInPlace(i) => {
                graph.task(&op::relu::CODELET, T, &[row(i)], &[row(i)], &[], &[]).unwrap();
            }
            Op::Dense(i, j) => {
                if matrices.is_empty() || j % 3 == 0 {
                    let (w, b) =
                        (store.add::<f64>("w", [d * d]).unwrap(), store.add::<f64>("b", [d]).unwrap());
                    store.get_mut::<f64>(w).iter_mut().enumerate().for_each(|(i, v)| *v = wave(i + number));
                    matrices.push((store.record(&mut graph, w), store.record(&mut graph, b)));
                    weights.push(w);
                }
                let (w, b) = matrices[j % matrices.len()];
                let (x, y) = (row(i), graph.temporary(&format!("dense{number}"), T, [n, d]));
                let w = w.reshape([d, d]).unwrap();
                graph.task(&op::dense::CODELET, T, &[x, w, b], &[y], &[], &[]).unwrap();
                rows.push(y);
            }
            Op::Update(i, j) => {
                let Some(&(w, _)) = matrices.get(j % matrices.len().max(1)) else { continue };
                let gradient = graph.temporary(&format!("gradient{number}"), T, [d * d]);
                let dw = gradient.reshape([d, d]).unwrap();
                graph.task(&op::dense_dw::CODELET, T, &[row(i), row(j)], &[dw], &[], &[]).unwrap();
                graph.task(&op::sgd::CODELET, T, &[gradient, rate], &[w], &[], &[]).unwrap();
            }
            Op::Total(i) => {
                let total = graph.output(&format!("total{number}"), T, [d]);
                graph.task(&op::dense_db::CODELET, T, &[row(i)], &[total], &[], &[]).unwrap();
                outputs.push(total);
            }
        }
    }
    let last = graph.output("last", T, [d]);
    graph.task(&op::dense_db::CODELET, T, &[rows[rows.len() - 1]], &[last], &[], &[]).unwrap();
    outputs.push(last);
    Recorded { graph, store, port, rate, outputs, weights }
}

/// The bits of all outputs of all steps and of the weights in the end.
fn bits(case: &Case, schedule: Schedule, machine: &Machine) -> Vec<u64> {
    let Recorded { graph, mut store, port, rate, outputs, weights } = record(case);
    let tiling = case.tilings.iter().map(|&(axis, size)| (axis.into(), TileSize::Size(size))).collect();
    let options = CutOptions {
        tilings: vec![tiling],
        tiles_per_group: 1,
        max_groups: case.groups,
        implementations: vec![case.implementation.into()],
        ..op::default_cut()
    };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
    let plan = schedule.plan(&lowered, machine).unwrap();
    check_memory(&lowered, &plan, machine);
    let pool = Arc::new(Pool::new(machine).unwrap());
    let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
    let feed = |step: u64, ports: &mut Ports<'_>| {
        let x = ports.get_mut::<f64>(&port).iter_mut().enumerate();
        x.for_each(|(i, v)| *v = ((i as u64 * 31 + step * 17) % 97) as f64 / 48.5 - 1.0);
        ports.get_mut::<f64>(&rate)[0] = 0.01;
    };
    let mut bits = Vec::new();
    let result = session.run(&mut store, STEPS, feed, |_, out| {
        outputs.iter().for_each(|var| bits.extend(out.get::<f64>(var).iter().map(|v| v.to_bits())));
    });
    result.unwrap();
    weights.iter().for_each(|&w| bits.extend(store.get::<f64>(w).iter().map(|v| v.to_bits())));
    bits
}

fn cases() -> impl Strategy<Value = Case> {
    let op = prop_oneof![
        (0..8_usize).prop_map(Op::Relu),
        (0..8_usize).prop_map(Op::ReluInPlace),
        (0..8_usize, 0..8_usize).prop_map(|(i, j)| Op::Dense(i, j)),
        (0..8_usize, 0..8_usize).prop_map(|(i, j)| Op::Update(i, j)),
        (0..8_usize).prop_map(Op::Total),
    ];
    let sizes = (1..40_usize, 1..6_usize, 1..5_usize, prop_oneof![Just("reference"), Just("lanes")]);
    let tilings = (1..20_usize, 1..4_usize, any::<bool>());
    (sizes, tilings, vec((op, -1..2_i32), 1..14)).prop_map(
        |((samples, features, groups, implementation), (n, o, both), ops)| {
            // Only the reference takes any tile; in lanes, samples are what is cut.
            let both = both && implementation == "reference";
            let tilings = if both { vec![("n", n), ("o", o)] } else { vec![("n", n)] };
            Case { samples, features, ops, tilings, groups, implementation }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bits_do_not_depend_on_who_executes_what(case in cases()) {
        let expected = bits(&case, Schedule::Fixed, &Machine::with_workers(1));
        for schedule in Schedule::ALL {
            for workers in [2, 3] {
                for machine in [Machine::with_workers(workers), Machine::with_workers(workers).with_test_unit()] {
                    prop_assert!(bits(&case, schedule, &machine) == expected, "{schedule:?} on {workers} workers");
                }
            }
        }
    }
}
