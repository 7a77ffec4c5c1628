//! A graph for tests of the engines whose tasks read what earlier steps left, with edges that reach back one,
//! two and three steps:
//!
//!     a = p + p                  three versions
//!     b = a + a, two steps ago   two versions
//!     w = w + b                  state with two versions
//!     out = w + b, a step ago

use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions, Graph, Lowered, StateId, Var, lower};
use dahl_runtime::plan::Plan;
use std::sync::Arc;

const T: Dtype = Dtype::F64;
const N: usize = 2;

const fn reference(kernel: Kernel) -> [Implementation; 1] {
    [Implementation::new("reference", 1, T, Needs::Nothing, kernel)]
}

static ADD: Codelet = Codelet::new("add", "x[i] y[i] -> z[i]", 1.0, &reference(add));
static GROW: Codelet = Codelet::new("grow", "x[i] w[i] -> w[i]", 1.0, &reference(grow));

fn add(call: &Call<'_>) -> Result<()> {
    let (x, y, mut z) = (call.input::<f64>(0), call.input::<f64>(1), call.output::<f64>(0));
    z.region().range(0).for_each(|i| z.set([i], x.at([i]) + y.at([i])));
    Ok(())
}

fn grow(call: &Call<'_>) -> Result<()> {
    let (x, mut w) = (call.input::<f64>(0), call.output::<f64>(0));
    w.region().range(0).for_each(|i| w.set([i], w.at([i]) + x.at([i])));
    Ok(())
}

/// The graph, cut into single elements, its port, its output and its state.
pub struct Past {
    pub lowered: Lowered,
    port: Var,
    output: Var,
    state: StateId,
}

impl Past {
    pub fn new(depth: usize) -> Past {
        let store = Past::store();
        let mut graph = Graph::new(depth);
        let state = StateId(0);
        let w = store.record(&mut graph, state);
        let (port, output) = (graph.port("p", T, [N]), graph.output("out", T, [N]));
        let (a, b) = (graph.temporary("a", T, [N]), graph.temporary("b", T, [N]));
        graph.set_versions(&a, 3).unwrap();
        graph.set_versions(&b, 2).unwrap();
        let mut task = |codelet, inputs: &[Var], to: Var| {
            graph.task(codelet, T, inputs, &[to], &[], &[]).unwrap();
        };
        task(&ADD, &[port, port], a);
        task(&ADD, &[a, a.aged(2)], b);
        task(&GROW, &[b], w);
        task(&ADD, &[w, b.aged(1)], output);
        let tilings = vec![vec![("i".into(), TileSize::Size(1))]];
        let options =
            CutOptions { tilings, implementations: vec!["reference".into()], ..CutOptions::default() };
        let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
        Past { lowered, port, output, state }
    }

    /// The state before the first step.
    pub fn store() -> Store {
        let mut store = Store::new();
        let w = store.add::<f64>("w", [N]).unwrap();
        store.set_versions(w, 2).unwrap();
        store
    }

    /// A session on this pool.
    pub fn session(&self, pool: &Arc<Pool>, plan: &Plan) -> Session {
        Session::new(pool, &self.lowered, plan, 0).unwrap()
    }

    /// Runs some steps and checks every output, and the state in the end.
    pub fn run(&self, session: &mut Session, store: &mut Store, steps: u64) {
        let input = |step: u64, i: usize| (step * 10 + i as u64 + 1) as f64;
        let mut w = store.get::<f64>(self.state).to_vec();
        let b = |step: u64, i: usize| {
            let a = |step: u64| 2.0 * input(step, i);
            a(step) + step.checked_sub(2).map_or(0.0, a)
        };
        let done = session.run(
            store,
            steps,
            |step, ports| {
                let x = ports.get_mut::<f64>(&self.port);
                x.iter_mut().enumerate().for_each(|(i, x)| *x = input(step, i));
            },
            |step, outputs| {
                for (i, (w, &found)) in w.iter_mut().zip(outputs.get::<f64>(&self.output)).enumerate() {
                    *w += b(step, i);
                    let before = step.checked_sub(1).map_or(0.0, |step| b(step, i));
                    assert_eq!(found, *w + before, "element {i} of step {step}");
                }
            },
        );
        assert_eq!(done.unwrap(), steps);
        assert_eq!(store.get::<f64>(self.state), w);
    }
}
