//! A graph for tests of the engines: four times "transpose and add one", cut by rows.
//!
//! Every tile needs all tiles of the step before, so workers wait for each other all the time; the first and
//! the third intermediate share memory, so the next step must wait for the last task of this one although no
//! data flows between them.

#![allow(dead_code, reason = "each test program uses some of it")]

use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs, for_each_index};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, Var, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;

/// `y[i,j] = x[j,i] + 1`; fails on purpose where an element is 1000, panics where it is 2000. All sums are in
/// its scratch before the first is written, so that tasks which had the same would notice.
static TURN: Codelet = Codelet::new(
    "turn",
    "x[j,i] -> y[i,j]",
    1.0,
    &[Implementation::new("reference", 1, Dtype::F64, Needs::Nothing, turn)],
)
.scratch(|_, spec| spec.args[1].region.len() * size_of::<f64>());

fn turn(call: &Call<'_>) -> Result<()> {
    let x = call.input::<f64>(0);
    let mut y = call.output::<f64>(0);
    let mut refused = None;
    let sums = call.scratch::<f64>();
    assert_eq!(sums.len(), y.region().len());
    let mut at = sums.iter_mut();
    for_each_index(y.region(), |index| {
        let value = x.at([index[1], index[0]]);
        assert!(value != 2000.0, "two thousand");
        if value == 1000.0 {
            refused = Some(format!("one thousand at {index:?}"));
        }
        at.next().into_iter().for_each(|sum| *sum = value + 1.0);
    });
    let mut at = sums.iter();
    for_each_index(y.region(), |index| at.next().into_iter().for_each(|&sum| y.put(index, sum)));
    match refused {
        Some(message) => Err(dahl_runtime::Error::new(dahl_runtime::ErrorKind::Task, message)),
        None => Ok(()),
    }
}

/// The graph, its port and its output, for `side` × `side` elements.
pub struct Turn {
    pub lowered: Lowered,
    port: Var,
    output: Var,
}

impl Turn {
    /// Records and lowers it, with tiles of `rows` rows.
    pub fn new(side: usize, rows: usize, depth: usize) -> Turn {
        let mut graph = Graph::new(depth);
        let port = graph.port("p", Dtype::F64, [side, side]);
        let output = graph.output("out", Dtype::F64, [side, side]);
        let middle: Vec<Var> =
            (0..3).map(|i| graph.temporary(&format!("m{i}"), Dtype::F64, [side, side])).collect();
        let arrays = [&[port], &middle[..], &[output]].concat();
        for (i, pair) in arrays.windows(2).enumerate() {
            // The first is for nothing in particular.
            let scope = (i > 0).then(|| graph.scope(&format!("turn {i}")));
            graph.set_scope(scope);
            graph.task(&TURN, Dtype::F64, &[pair[0]], &[pair[1]], &[], &[]).unwrap();
        }
        let tilings = vec![vec![("i".into(), TileSize::Size(rows))]];
        let options =
            CutOptions { tilings, implementations: vec!["reference".into()], ..CutOptions::default() };
        let cut = Cut::heuristic(&graph, &options).unwrap();
        let lowered = lower(&graph, &cut).unwrap();
        Turn { lowered, port, output }
    }

    /// A session on this pool.
    pub fn session(&self, pool: &std::sync::Arc<Pool>, plan: &Plan) -> Session {
        Session::new(pool, &self.lowered, plan, 0).unwrap()
    }

    /// Runs steps whose input is `first`, `first + 1`, … everywhere (with the element's number as a
    /// fraction), and checks every output.
    pub fn run(&self, session: &mut Session, steps: u64, first: f64) -> Result<u64> {
        self.run_with(session, steps, first, |_| {})
    }

    /// Runs steps from 0; `after` each of them, the program does something else.
    pub fn run_until(&self, session: &mut Session, steps: u64, after: impl FnMut(u64)) -> Result<u64> {
        self.run_with(session, steps, 0.0, after)
    }

    fn run_with(
        &self,
        session: &mut Session,
        steps: u64,
        first: f64,
        mut after: impl FnMut(u64),
    ) -> Result<u64> {
        let element = |step: u64, i: usize| first + step as f64 + i as f64 / 1024.0;
        session.run(
            &mut Store::new(),
            steps,
            |step, ports| {
                ports
                    .get_mut::<f64>(&self.port)
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, v)| *v = element(step, i));
            },
            |step, outputs| {
                for (i, &value) in outputs.get::<f64>(&self.output).iter().enumerate() {
                    assert_eq!(value, element(step, i) + 4.0, "element {i} of step {step}");
                }
                after(step);
            },
        )
    }
}

/// A plan for each way in which tasks come to workers.
pub fn plans(turn: &Turn, machine: &Machine) -> [Plan; 4] {
    let lowered = &turn.lowered;
    let open = |policy| Plan::open(lowered, machine, policy).unwrap();
    let (floating, fixed) =
        (Plan::heuristic(lowered, machine).unwrap(), Plan::fixed(lowered, machine).unwrap());
    [floating, fixed, open(SchedulerKind::Eager), open(SchedulerKind::Steal)]
}
