//! However a step is cut, along samples, channels, rows and columns, in whatever sizes, it computes the same.
//!
//! The step has every mechanism of lowering: halos (convolution and pooling), reshaped views (flatten),
//! arrays that are updated in place (ReLU, weights), several arrays in one (the flat gradients), and
//! reductions over cut axes.

mod sharing;

use dahl::op;
use dahl::train::Schedule;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Role, Var, lower};
use dahl_runtime::machine::Machine;
use proptest::prelude::*;
use sharing::check_memory;
use std::sync::Arc;

/// The extents of the step.
#[derive(Clone, Debug)]
struct Sizes {
    n: usize,
    channels: usize,
    side: [usize; 2],
    filters: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    pool: usize,
    classes: usize,
}

struct Step {
    graph: Graph,
    store: Store,
    outputs: Vec<Var>,
}

/// Convolution, ReLU, pooling, dense, loss, the gradients of all of these, and an update.
fn record(sizes: &Sizes) -> Step {
    const T: Dtype = Dtype::F64;
    let Sizes { n, channels, side: [height, width], filters, kernel, stride, padding, pool, classes } =
        *sizes;
    let mut store = Store::new();
    let out = |extent: usize| (extent + 2 * padding - kernel) / stride + 1;
    let (rows, columns) = (out(height), out(width));
    let features = filters * (rows / pool) * (columns / pool);
    let (w_len, fc_len) = (filters * channels * kernel * kernel, classes * features);
    let n_weights = w_len + filters + fc_len + classes;

    let x = store.add::<f64>("x", [n, channels, height, width]).unwrap();
    let labels = store.add::<u8>("labels", [n]).unwrap();
    let weights = store.add::<f64>("weights", [n_weights]).unwrap();
    let wave = |i: usize| ((i * 7919 % 1009) as f64 / 504.5 - 1.0) * 0.7;
    store.get_mut::<f64>(x).iter_mut().enumerate().for_each(|(i, v)| *v = wave(i));
    store.get_mut::<u8>(labels).iter_mut().enumerate().for_each(|(i, v)| *v = (i % classes) as u8);
    store.get_mut::<f64>(weights).iter_mut().enumerate().for_each(|(i, v)| *v = wave(i + 17) * 0.3);

    let mut g = Graph::new(4);
    let (x, labels, weights) =
        (store.record(&mut g, x), store.record(&mut g, labels), store.record(&mut g, weights));
    let rate = g.port("rate", T, []);
    let metrics = g.output("metrics", T, [2]);
    let gradients = g.array("gradients", T, [n_weights], Role::Output);
    let parts = |flat: Var| {
        let w = flat.part(0, [filters, channels, kernel, kernel]).unwrap();
        let b = flat.part(w_len, [filters]).unwrap();
        let fc = flat.part(w_len + filters, [classes, features]).unwrap();
        let fb = flat.part(w_len + filters + fc_len, [classes]).unwrap();
        (w, b, fc, fb)
    };
    let ((w, b, fc, fb), (dw, db, dfc, dfb)) = (parts(weights), parts(gradients));
    let conv = g.temporary("conv", T, [n, filters, rows, columns]);
    let pooled = g.temporary("pooled", T, [n, filters, rows / pool, columns / pool]);
    let arg = g.temporary("arg", Dtype::U8, [n, filters, rows / pool, columns / pool]);
    let flat = pooled.reshape([n, features]).unwrap();
    let logits = g.temporary("logits", T, [n, classes]);
    let dlogits = g.temporary("dlogits", T, [n, classes]);
    let dflat = g.temporary("dflat", T, [n, features]);
    let dconv = g.temporary("dconv", T, [n, filters, rows, columns]);
    let (s, p, q) = (stride as i64, padding as i64, pool as i64);
    let mut task = |codelet, inputs: &[Var], outputs: &[Var], ints: &[i64]| {
        g.task(codelet, T, inputs, outputs, ints, &[]).unwrap();
    };
    task(&op::conv2d::CODELET, &[x, w, b], &[conv], &[s, p]);
    task(&op::relu::CODELET, &[conv], &[conv], &[]);
    task(&op::max_pool::CODELET, &[conv], &[pooled, arg], &[q, 0, q]);
    task(&op::dense::CODELET, &[flat, fc, fb], &[logits], &[]);
    let (loss, correct) = (metrics.part(0, []).unwrap(), metrics.part(1, []).unwrap());
    task(&op::softmax_ce::CODELET, &[logits, labels], &[loss, correct, dlogits], &[]);
    task(&op::dense_dw::CODELET, &[flat, dlogits], &[dfc], &[]);
    task(&op::dense_db::CODELET, &[dlogits], &[dfb], &[]);
    task(&op::dense_dx::CODELET, &[dlogits, fc], &[dflat], &[]);
    let dpooled = dflat.reshape(pooled.shape()).unwrap();
    task(&op::max_pool_backward::CODELET, &[arg, dpooled], &[dconv], &[q, 0, q]);
    task(&op::relu_backward::CODELET, &[conv, dconv], &[dconv], &[]);
    task(&op::conv2d_dw::CODELET, &[x, dconv], &[dw], &[s, p]);
    task(&op::channel_sum::CODELET, &[dconv], &[db], &[]);
    task(&op::sgd::CODELET, &[gradients, rate], &[weights], &[]);
    Step { graph: g, store, outputs: vec![metrics, gradients] }
}

/// Three steps, cut and run in some way; the outputs of every step.
fn run(sizes: &Sizes, options: &CutOptions, workers: usize, schedule: Schedule, test_unit: bool) -> Vec<f64> {
    let mut step = record(sizes);
    let cut = Cut::heuristic(&step.graph, options).unwrap();
    let lowered = lower(&step.graph, &cut).unwrap();
    let machine = Machine::with_workers(workers);
    let machine = if test_unit { machine.with_test_unit() } else { machine };
    let plan = schedule.plan(&lowered, &machine).unwrap();
    check_memory(&lowered, &plan, &machine);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
    let rate = step.graph.arrays().iter().position(|array| array.name == "rate").unwrap();
    let rate = step.graph.var(rate);
    let mut values = Vec::new();
    let outputs = step.outputs;
    let feed = |_: u64, ports: &mut dahl_runtime::engine::Ports<'_>| ports.get_mut::<f64>(&rate)[0] = 0.25;
    let result = session.run(&mut step.store, 3, feed, |_, out| {
        outputs.iter().for_each(|var| values.extend_from_slice(out.get::<f64>(var)));
    });
    result.unwrap();
    values
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() <= 1e-12 * (1.0 + x.abs().max(y.abs())))
}

fn reference(tiling: Vec<(String, TileSize)>, max_groups: usize) -> CutOptions {
    let implementations = vec!["reference".into()];
    CutOptions { tilings: vec![tiling], tiles_per_group: 1, max_groups, implementations, ..op::default_cut() }
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let images = (1..20_usize, 1..4_usize, [6..12_usize, 6..12_usize]);
    let layers = (1..5_usize, 1..4_usize, 1..3_usize, 0..3_usize, 1..3_usize, 2..6_usize);
    (images, layers).prop_map(|((n, channels, side), (filters, kernel, stride, padding, pool, classes))| {
        Sizes { n, channels, side, filters, kernel, stride, padding, pool, classes }
    })
}

/// The axes that occur, each cut or not. The gradients of weights lie in one flat array, in which tiles along
/// axes inside of them (`c`, `ky`, …) are not contiguous.
fn tiling() -> impl Strategy<Value = Vec<(String, TileSize)>> {
    let axes = ["n", "c", "k", "oy", "ox", "iy", "ix", "ky", "kx", "i", "o", "y", "x"];
    let cut = prop_oneof![
        Just(None),
        (1..9_usize).prop_map(|size| Some(TileSize::Size(size))),
        (1..9_usize).prop_map(|size| Some(TileSize::AtMost(size))),
    ];
    axes.map(|name| cut.clone().prop_map(move |cut| cut.map(|cut| (name.to_string(), cut))))
        .prop_map(|cuts| cuts.into_iter().flatten().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tiling_computes_the_same(
        sizes in sizes(),
        tiling in tiling(),
        groups in 1..6_usize,
        workers in 1..4_usize,
        schedule in 0..4_usize,
        test_unit: bool,
    ) {
        let whole = run(&sizes, &reference(Vec::new(), 1), 1, Schedule::Fixed, false);
        let cut = run(&sizes, &reference(tiling.clone(), groups), workers, Schedule::ALL[schedule], test_unit);
        prop_assert!(close(&whole, &cut), "{sizes:?} {tiling:?}");
        // The same cut gives the same bits however it is run.
        let again = run(&sizes, &reference(tiling, groups), 1, Schedule::ALL[3 - schedule], false);
        let same = cut.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits());
        prop_assert!(same, "bits differ");
    }

    #[test]
    fn lanes_over_any_number_of_samples_compute_the_same(
        sizes in sizes(),
        tile in 1..40_usize,
        groups in 1..6_usize,
        workers in 1..4_usize,
        schedule in 0..4_usize,
        test_unit: bool,
    ) {
        let whole = run(&sizes, &reference(Vec::new(), 1), 1, Schedule::Fixed, false);
        let tilings = vec![vec![("n".into(), TileSize::Size(tile))], vec![("i".into(), TileSize::AtMost(50))]];
        let options = CutOptions { tilings, tiles_per_group: 1, max_groups: groups, ..op::default_cut() };
        let lanes = run(&sizes, &options, workers, Schedule::ALL[schedule], test_unit);
        prop_assert!(close(&whole, &lanes), "{sizes:?} {tile}");
    }
}

#[test]
fn a_shape_mistake_is_an_error_when_it_is_recorded() {
    let mut graph = Graph::new(1);
    let x = graph.temporary("x", Dtype::F32, [4, 3]);
    let w = graph.temporary("w", Dtype::F32, [2, 5]);
    let b = graph.temporary("b", Dtype::F32, [2]);
    let y = graph.temporary("y", Dtype::F32, Shape::new(&[4, 2]));
    let error = graph.task(&op::dense::CODELET, Dtype::F32, &[x, w, b], &[y], &[], &[]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("dense") && text.contains("tilings.rs"), "{text}");
}
