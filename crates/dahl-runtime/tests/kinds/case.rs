//! A small step whose tasks have implementations in two codes, and machines that run both.
//!
//! `lanes` and `reference` are code of cores; `rows` is of a code of its own, wants row-major arrays and sums
//! the other way round, so that bits tell who computed what.

use dahl_runtime::Result;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Pool, Ports, Session, Store};
use dahl_runtime::graph::{Graph, StateId, Var};
use dahl_runtime::machine::{Kind, Machine};
use dahl_runtime::plan::Planned;
use std::ops::Range;
use std::sync::Arc;

/// The code that only units of the test's kind run.
pub const OTHER: &str = "other";
pub const STEPS: u64 = 4;
const T: Dtype = Dtype::F32;
const L: Layout = Layout::Lanes(4);
const R: Layout = Layout::RowMajor;

const fn reference(kernel: Kernel) -> Implementation {
    Implementation::new("reference", 1, T, Needs::Nothing, kernel)
}

const fn lanes(layouts: &'static [Layout], kernel: Kernel) -> Implementation {
    Implementation::new("lanes", 3, T, Needs::Layouts(layouts), kernel)
}

const fn rows(layouts: &'static [Layout], kernel: Kernel) -> Implementation {
    Implementation::new("rows", 2, T, Needs::Layouts(layouts), kernel).in_code(OTHER)
}

static LOAD: Codelet = Codelet::new(
    "load",
    "x[n,i] -> y[n,i]",
    0.0,
    &[reference(same), lanes(&[R, L], same), rows(&[R, R], same)],
);
static DENSE: Codelet = Codelet::new(
    "dense",
    "x[n,i] w[o,i] -> y[n,o] +=",
    2.0,
    &[reference(dense::<false>), lanes(&[L, R, L], dense::<false>), rows(&[R, R, R], dense::<true>)],
);
static RELU: Codelet = Codelet::new(
    "relu",
    "x[..] -> y[..]",
    1.0,
    &[reference(relu), lanes(&[L, L], relu), rows(&[R, R], relu)],
)
.in_place();
static GRADIENT: Codelet = Codelet::new(
    "gradient",
    "x[n,i] y[n,o] -> g[o,i] +=",
    2.0,
    &[reference(gradient::<false>), lanes(&[L, L, R], gradient::<false>), rows(&[R, R, R], gradient::<true>)],
);
/// Nobody but cores computes these two.
static KEEP: Codelet = Codelet::new("keep", "x[n,o] -> y[n,o]", 0.0, &[reference(same)]);
static SHIFT: Codelet = Codelet::new("shift", "w[p,q] -> w[p,q]", 1.0, &[reference(shift)]);

fn same(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    for i in y.region().range(0) {
        for j in y.region().range(1) {
            y.set([i, j], x.at([i, j]));
        }
    }
    Ok(())
}

/// A range in the order in which it is summed over.
fn in_order<const REVERSED: bool>(range: Range<usize>) -> impl Iterator<Item = usize> {
    range.clone().map(move |i| if REVERSED { range.start + range.end - 1 - i } else { i })
}

fn dense<const REVERSED: bool>(call: &Call<'_>) -> Result<()> {
    let (x, w, mut y) = (call.input::<f32>(0), call.input::<f32>(1), call.output::<f32>(0));
    for n in y.region().range(0) {
        for o in y.region().range(1) {
            let start = if call.accumulate() { y.at([n, o]) } else { 0.0 };
            let sum = in_order::<REVERSED>(x.region().range(1));
            y.set([n, o], sum.fold(start, |sum, i| sum + x.at([n, i]) * w.at([o, i])));
        }
    }
    Ok(())
}

fn gradient<const REVERSED: bool>(call: &Call<'_>) -> Result<()> {
    let (x, y, mut g) = (call.input::<f32>(0), call.input::<f32>(1), call.output::<f32>(0));
    for o in g.region().range(0) {
        for i in g.region().range(1) {
            let start = if call.accumulate() { g.at([o, i]) } else { 0.0 };
            let sum = in_order::<REVERSED>(x.region().range(0));
            g.set([o, i], sum.fold(start, |sum, n| sum + x.at([n, i]) * y.at([n, o])));
        }
    }
    Ok(())
}

fn relu(call: &Call<'_>) -> Result<()> {
    call.map(|x: f32| x.max(0.0));
    Ok(())
}

fn shift(call: &Call<'_>) -> Result<()> {
    call.map(|w: f32| w + 1.0);
    Ok(())
}

/// `y = max(0, x w)`, the gradient `Σ x y` of the batch, and `w + 1` for the next step.
pub struct Case {
    pub graph: Graph,
    sizes: [usize; 3],
    x: Var,
    outputs: [Var; 2],
    state: StateId,
}

impl Case {
    /// For so many samples, inputs and outputs.
    pub fn new(sizes: [usize; 3]) -> Case {
        let [n, i, o] = sizes;
        let mut store = Store::new();
        let state = store.add::<f32>("w", [o, i]).unwrap();
        let mut graph = Graph::new(2);
        let w = store.record(&mut graph, state);
        let x = graph.port("x", T, [n, i]);
        let outputs = [graph.output("y", T, [n, o]), graph.output("g", T, [o, i])];
        let (loaded, y) = (graph.temporary("loaded", T, [n, i]), graph.temporary("hidden", T, [n, o]));
        let mut task = |codelet, inputs: &[Var], output: Var| {
            graph.task(codelet, T, inputs, &[output], &[], &[]).unwrap();
        };
        task(&LOAD, &[x], loaded);
        task(&DENSE, &[loaded, w], y);
        task(&RELU, &[y], y);
        task(&GRADIENT, &[loaded, y], outputs[1]);
        task(&KEEP, &[y], outputs[0]);
        task(&SHIFT, &[], w);
        Case { graph, sizes, x, outputs, state }
    }

    /// What some steps leave, in order; and that nobody executes what it cannot run.
    pub fn run(&self, pool: &Arc<Pool>, planned: &Planned, value: fn(usize, u64) -> f32) -> Vec<f32> {
        let mut session = Session::new(pool, &planned.lowered, &planned.plan, 1 << 12).unwrap();
        let (mut store, [_, i, o]) = (Store::new(), self.sizes);
        assert_eq!(store.add::<f32>("w", [o, i]).unwrap(), self.state);
        store.get_mut::<f32>(self.state).iter_mut().enumerate().for_each(|(i, w)| *w = value(i, 9));
        let mut seen = Vec::new();
        let feed = |step: u64, ports: &mut Ports<'_>| {
            ports.get_mut::<f32>(&self.x).iter_mut().enumerate().for_each(|(i, x)| *x = value(i, step));
        };
        let collect = |_: u64, out: &dahl_runtime::engine::Outputs<'_>| {
            self.outputs.iter().for_each(|output| seen.extend_from_slice(out.get::<f32>(output)));
        };
        session.run(&mut store, STEPS, feed, collect).unwrap();
        seen.extend_from_slice(store.get(self.state));
        for (worker, events) in session.take_trace().workers.iter().enumerate() {
            for event in events {
                let task = &planned.lowered.tasks()[event.task as usize];
                assert!(pool.machine().runs(worker, task.code), "{task:?} on unit {worker}");
            }
        }
        seen
    }

    /// What these steps leave by definition, where all numbers are whole and small.
    pub fn expected(&self, value: fn(usize, u64) -> f32) -> Vec<f32> {
        let [n, n_in, n_out] = self.sizes;
        let mut w: Vec<f32> = (0..n_in * n_out).map(|i| value(i, 9)).collect();
        let mut all = Vec::new();
        for step in 0..STEPS {
            let x: Vec<f32> = (0..n * n_in).map(|i| value(i, step)).collect();
            let dot = |n: usize, o: usize| (0..n_in).map(|i| x[n * n_in + i] * w[o * n_in + i]).sum::<f32>();
            let y: Vec<f32> = (0..n)
                .flat_map(|n| (0..n_out).map(move |o| (n, o)))
                .map(|(n, o)| dot(n, o).max(0.0))
                .collect();
            let weights = (0..n_out).flat_map(|o| (0..n_in).map(move |i| (o, i)));
            let g = |(o, i)| (0..n).map(|n| x[n * n_in + i] * y[n * n_out + o]).sum::<f32>();
            let g: Vec<f32> = weights.map(g).collect();
            all.extend(y.into_iter().chain(g));
            w.iter_mut().for_each(|w| *w += 1.0);
        }
        all.extend(w);
        all
    }
}

/// The kind that runs the other code.
pub fn other() -> Kind {
    Kind { code: OTHER.to_string(), ..Kind::cpu().named("device").times_as_fast(3.0) }
}

/// Machines that run both codes, with one memory and with several.
pub fn machines() -> Vec<Machine> {
    vec![
        Machine::with_workers(2).with_kind(1, other()),
        Machine::with_workers(2).with_unit_apart(0, other()),
        Machine::with_workers(4).with_kind(0, other()).with_kind(2, other()),
        Machine::with_workers(4).with_unit_apart(1, other()).with_kind(3, other()),
    ]
}
