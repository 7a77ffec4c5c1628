//! Corners of recording, cutting and lowering, each with numbers that can be done in one's head.

use dahl::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Outputs, Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, Task, Var, lower};
use dahl_runtime::hash::Fingerprint;
use dahl_runtime::machine::Machine;
use dahl_runtime::perf::Key;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{ErrorKind, Result};
use std::sync::Arc;

const T: Dtype = Dtype::F64;

const fn reference(kernel: Kernel) -> Implementation {
    Implementation::new("reference", 1, T, Needs::Nothing, kernel)
}

static SUM: Codelet = Codelet::new("sum", "x[n,i] -> y[i] +=", 1.0, &[reference(sum)]);
static SUMS: Codelet = Codelet::new("sums", "x[n,i] -> a[n] += b[i] +=", 2.0, &[reference(sums)]);
static KEEP: Codelet = Codelet::new("keep", "x[n,i] -> a[i] += c[n,i]", 1.0, &[reference(keep)]);

fn sum(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f64>(0), call.output::<f64>(0));
    for i in y.region().range(0) {
        let start = if call.accumulate() { y.at([i]) } else { 0.0 };
        y.set([i], x.region().range(0).fold(start, |sum, n| sum + x.at([n, i])));
    }
    Ok(())
}

fn sums(call: &Call<'_>) -> Result<()> {
    let (x, mut a, mut b) = (call.input::<f64>(0), call.output::<f64>(0), call.output::<f64>(1));
    for n in x.region().range(0) {
        let start = if call.accumulate() { a.at([n]) } else { 0.0 };
        a.set([n], x.region().range(1).fold(start, |sum, i| sum + x.at([n, i])));
    }
    for i in x.region().range(1) {
        let start = if call.accumulate() { b.at([i]) } else { 0.0 };
        b.set([i], x.region().range(0).fold(start, |sum, n| sum + x.at([n, i])));
    }
    Ok(())
}

fn keep(call: &Call<'_>) -> Result<()> {
    let (x, mut a, mut c) = (call.input::<f64>(0), call.output::<f64>(0), call.output::<f64>(1));
    for i in x.region().range(1) {
        let mut sum = if call.accumulate() { a.at([i]) } else { 0.0 };
        for n in x.region().range(0) {
            sum += x.at([n, i]);
            c.set([n, i], x.at([n, i]));
        }
        a.set([i], sum);
    }
    Ok(())
}

fn tiles(tiling: &[(&str, usize)]) -> CutOptions {
    let tiling = tiling.iter().map(|(name, size)| (name.to_string(), TileSize::Size(*size))).collect();
    CutOptions { tilings: vec![tiling], ..op::default_cut() }
}

struct Case {
    graph: Graph,
    store: Store,
}

impl Case {
    fn new() -> Case {
        Case { graph: Graph::new(2), store: Store::new() }
    }

    fn ones(&mut self, shape: &[usize]) -> Var {
        let id = self.store.add::<f64>("ones", Shape::new(shape)).unwrap();
        self.store.get_mut::<f64>(id).fill(1.0);
        self.store.record(&mut self.graph, id)
    }

    fn task(&mut self, codelet: &'static Codelet, inputs: &[Var], outputs: &[Var], ints: &[i64]) {
        self.graph.task(codelet, T, inputs, outputs, ints, &[]).unwrap();
    }

    fn lowered(&self, options: &CutOptions) -> Lowered {
        lower(&self.graph, &Cut::heuristic(&self.graph, options).unwrap()).unwrap()
    }

    /// The output after each of three steps.
    fn run(&mut self, options: &CutOptions, output: &Var) -> Vec<Vec<f64>> {
        let lowered = self.lowered(options);
        let pool = Arc::new(Pool::new(&Machine::with_workers(2)).unwrap());
        let mut session =
            Session::new(&pool, &lowered, &Plan::heuristic(&lowered, &Machine::with_workers(2)).unwrap(), 0)
                .unwrap();
        let mut values = Vec::new();
        let collect = |_: u64, outputs: &Outputs<'_>| values.push(outputs.get(output).to_vec());
        session.run(&mut self.store, 3, |_, _| {}, collect).unwrap();
        values
    }
}

#[test]
fn a_later_sum_replaces_an_earlier_one_whatever_their_groups() {
    // 8 rows make two partial results, 4 rows make one.
    let mut case = Case::new();
    let (x, shorter) = (case.ones(&[8, 4]), case.ones(&[4, 4]));
    let y = case.graph.output("y", T, [4]);
    case.task(&SUM, &[x], &[y], &[]);
    case.task(&SUM, &[shorter], &[y], &[]);
    assert_eq!(case.run(&tiles(&[("n", 2)]), &y), [[4.0; 4]; 3]);
}

#[test]
fn a_sum_into_a_part_leaves_the_rest() {
    let mut case = Case::new();
    let (x, longer) = (case.ones(&[8, 4]), case.ones(&[16, 2]));
    let y = case.graph.output("y", T, [4]);
    case.task(&SUM, &[x], &[y], &[]);
    case.task(&SUM, &[longer], &[y.part(0, [2]).unwrap()], &[]);
    assert_eq!(case.run(&tiles(&[("n", 2)]), &y), [[16.0, 16.0, 8.0, 8.0]; 3]);
}

#[test]
fn outputs_that_are_reduced_over_different_axes_do_not_mix() {
    for max_groups in [1, 16] {
        let mut case = Case::new();
        let x = case.ones(&[4, 4]);
        let both = case.graph.output("both", T, [8]);
        let (a, b) = (both.part(0, [4]).unwrap(), both.part(4, [4]).unwrap());
        case.task(&SUMS, &[x], &[a, b], &[]);
        let options = CutOptions { max_groups, ..tiles(&[("n", 2), ("i", 2)]) };
        assert_eq!(case.run(&options, &both), [[4.0; 8]; 3]);
    }
}

#[test]
fn a_sum_and_a_copy_may_share_a_buffer() {
    let mut case = Case::new();
    let x = case.ones(&[8, 2]);
    let y = case.graph.output("y", T, [18]);
    case.task(&KEEP, &[x], &[y.part(0, [2]).unwrap(), y.part(2, [8, 2]).unwrap()], &[]);
    let expected: Vec<f64> = [vec![8.0; 2], vec![1.0; 16]].concat();
    assert_eq!(case.run(&tiles(&[("n", 2)]), &y), vec![expected; 3]);
    // A view of an output is that part of it.
    assert_eq!(case.run(&tiles(&[("n", 2)]), &y.part(1, [2]).unwrap()), [[8.0, 1.0]; 3]);
}

#[test]
fn the_bias_of_a_convolution_is_added_once_however_its_taps_are_cut() {
    for implementation in ["reference", "lanes"] {
        for (kernel, padding, channels) in [(3, 0, 1), (1, 1, 2), (3, 1, 2)] {
            let run = |tiling: &[(&str, usize)]| {
                let mut case = Case::new();
                let (x, b) = (case.ones(&[1, channels, 3, 3]), case.ones(&[1]));
                let w = case.ones(&[1, channels, kernel, kernel]);
                let side = 4 + 2 * padding - kernel;
                let y = case.graph.temporary("y", T, [1, 1, side, side]);
                let out = case.graph.output("out", T, [1, 1, side, side]);
                case.task(&op::conv2d::CODELET, &[x, w, b], &[y], &[1, padding as i64]);
                case.task(&op::relu::CODELET, &[y], &[out], &[]);
                let implementations = vec![implementation.into(), "reference".into()];
                case.run(&CutOptions { implementations, ..tiles(tiling) }, &out)
            };
            let whole = run(&[]);
            for tiling in [&[("ky", 1)][..], &[("kx", 2)], &[("c", 1)], &[("c", 1), ("oy", 1)]] {
                assert_eq!(run(tiling), whole, "{implementation} {kernel} {padding} {tiling:?}");
            }
        }
    }
}

#[test]
fn a_scalar_goes_through_lanes() {
    let mut case = Case::new();
    let x = case.ones(&[]);
    let (t, y) = (case.graph.temporary("t", T, []), case.graph.output("y", T, []));
    case.task(&op::relu::CODELET, &[x], &[t], &[]);
    case.task(&op::relu::CODELET, &[t], &[y], &[]);
    assert_eq!(case.run(&op::default_cut(), &y), [[1.0]; 3]);
}

#[test]
fn tilings_that_make_no_sense_are_refused() {
    let mut case = Case::new();
    let x = case.ones(&[8, 4]);
    let y = case.graph.output("y", T, [4]);
    case.task(&SUM, &[x], &[y], &[]);
    for options in [tiles(&[("n", 0)]), tiles(&[("n", 2), ("n", 4)])] {
        let error = Cut::heuristic(&case.graph, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
    }
}

#[test]
fn a_plan_of_another_graph_is_refused() {
    let lowered = |n: usize| {
        let mut case = Case::new();
        let x = case.ones(&[2, n]);
        let y = case.graph.output("y", T, [n]);
        case.task(&SUM, &[x], &[y], &[]);
        case.lowered(&op::default_cut())
    };
    let (small, large) = (lowered(2), lowered(64_000));
    let machine = Machine::with_workers(1);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    for plan in [
        Plan::open(&small, &machine, SchedulerKind::Eager).unwrap(),
        Plan::heuristic(&small, &machine).unwrap(),
    ] {
        let error = Session::new(&pool, &large, &plan, 0).err().expect("refused");
        assert!(error.to_string().contains("another graph"), "{error}");
    }
}

#[test]
fn views_of_other_graphs_and_outputs_that_are_inputs_are_refused() {
    let mut other = Graph::new(1);
    let foreign = other.temporary("foreign", T, [1000, 1]);
    let mut case = Case::new();
    let (x, y) = (case.ones(&[1, 1]), case.graph.output("y", T, [1]));
    let error = case.graph.task(&SUM, T, &[foreign], &[y], &[], &[]).unwrap_err();
    assert!(error.to_string().contains("another graph"), "{error}");
    let error = case.graph.task(&SUM, T, &[x], &[x.reshape([1]).unwrap()], &[], &[]).unwrap_err();
    assert!(error.to_string().contains("where it also uses it"), "{error}");
    assert!(x.part(usize::MAX, [1]).is_err());
}

#[test]
fn a_stored_array_is_recorded_once() {
    let mut case = Case::new();
    let id = case.store.add::<f64>("w", [4]).unwrap();
    let first = case.store.record(&mut case.graph, id);
    assert_eq!(case.store.record(&mut case.graph, id), first);
}

#[test]
fn a_graph_that_writes_shared_bytes_writes_a_copy_of_them() {
    let bytes = Arc::new(vec![5_u8; 300]);
    for machine in [Machine::with_workers(2), Machine::with_workers(2).with_test_unit()] {
        let mut store = Store::new();
        let read = store.share("read", [300], &bytes).unwrap();
        let written = store.share("written", [300], &bytes).unwrap();
        let mut graph = Graph::new(2);
        let (from, to) = (store.record(&mut graph, read), store.record(&mut graph, written));
        let seen = graph.output("seen", Dtype::U8, [300]);
        graph.task(&op::copy::CODELET, Dtype::U8, &[from], &[seen], &[], &[]).unwrap();
        graph.task(&op::fill::CODELET, Dtype::U8, &[], &[to], &[], &[7.0]).unwrap();
        let lowered = lower(&graph, &Cut::heuristic(&graph, &op::default_cut()).unwrap()).unwrap();
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let plan = Plan::heuristic(&lowered, &machine).unwrap();
        let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
        let check = |_, outputs: &Outputs<'_>| assert_eq!(outputs.get::<u8>(&seen), [5; 300]);
        session.run(&mut store, 3, |_, _| (), check).unwrap();
        // The one that is only read is still the same memory.
        assert_eq!(store.get::<u8>(read).as_ptr(), bytes.as_ptr());
        assert_eq!((store.get::<u8>(written), &bytes[..]), (&[7; 300][..], &[5; 300][..]));
    }
}

/// Two sums over eight rows into an array, and its ReLU, recorded for these scopes.
fn scoped(scopes: [Option<&str>; 3]) -> Case {
    let mut case = Case::new();
    let (a, b) = (case.ones(&[8, 3000]), case.ones(&[8, 2000]));
    let [sums, y] = ["sums", "y"].map(|name| case.graph.temporary(name, T, [5, 1000]));
    let parts = [sums.part(0, [3000]).unwrap(), sums.part(3000, [2000]).unwrap()];
    let tasks = [(&SUM, a, parts[0]), (&SUM, b, parts[1]), (&op::relu::CODELET, sums, y)];
    for ((codelet, x, y), scope) in tasks.into_iter().zip(scopes) {
        let scope = scope.map(|name| case.graph.scope(name));
        case.graph.set_scope(scope);
        case.task(codelet, &[x], &[y], &[]);
    }
    case
}

#[test]
fn what_lowering_inserts_is_for_whom_it_serves() {
    let lowered = scoped([Some("first"), Some("second"), Some("last")]).lowered(&tiles(&[("n", 2)]));
    assert_eq!(lowered.scopes(), ["first", "second", "last"]);
    let of = |codelet: &str| {
        let names = |task: &Task| {
            task.scopes.iter().map(|scope| lowered.scopes()[scope.0].clone()).collect::<Vec<_>>().join("+")
        };
        lowered.tasks().iter().filter(|task| task.codelet == codelet).map(names).collect::<Vec<_>>()
    };
    assert_eq!(of("sum"), [["first"; 4], ["second"; 4]].concat());
    // 2500 elements each, of which the first sum has 3000.
    assert_eq!(of("reduce"), ["first", "first+second"]);
    // The ReLU is computed in lanes.
    assert_eq!([of("assemble"), of("relu")], [["last"], ["last"]]);
}

#[test]
fn nothing_but_reports_depends_on_scopes() {
    let options = tiles(&[("n", 2)]);
    let [named, unnamed] = [scoped([Some("a"), None, Some("b")]), scoped([None; 3])];
    assert_eq!(Fingerprint::of_graph(&named.graph), Fingerprint::of_graph(&unnamed.graph));
    let [named, unnamed] = [named, unnamed].map(|case| case.lowered(&options));
    assert_eq!(Fingerprint::of_lowered(&named), Fingerprint::of_lowered(&unnamed));
    let keys =
        |lowered: &Lowered| lowered.tasks().iter().map(|task| Key::of_task(task, "cpu")).collect::<Vec<_>>();
    assert_eq!(keys(&named), keys(&unnamed));
    assert!(unnamed.tasks().iter().all(|task| task.scopes.is_empty()));
}
