//! A small graph with everything in it, its plans, and running them.

use super::kernels::{COPY, MATMUL, SHIFT};
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::engine::{Pool, Ports, Session, Store};
use dahl_runtime::graph::CutOptions;
use dahl_runtime::graph::{Graph, StateId, Var};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, PlanFile, Planned};
use dahl_runtime::schedule::{Policy, SchedulerKind};
use std::sync::Arc;

pub const STEPS: u64 = 6;

/// `y = x w`, two copies of it, `out = p y` summed over a cut axis, and `w += 1`: tiles, partial results,
/// memory that is shared, and edges from step to step.
pub struct Case {
    pub graph: Graph,
    x: Var,
    p: Var,
    out: Var,
    state: StateId,
}

impl Case {
    pub fn new(rows: usize) -> Case {
        let mut store = Store::new();
        let state = store.add::<f32>("the weights", [12]).unwrap();
        let mut graph = Graph::new(2);
        let w = store.record(&mut graph, state);
        let x = graph.port("x", Dtype::F32, [rows, 4]);
        let p = graph.port("p#%", Dtype::F32, [3, rows]);
        let out = graph.output("out", Dtype::F32, [3, 3]);
        let y: Vec<Var> = (0..3).map(|i| graph.temporary(&format!("y{i}"), Dtype::F32, [rows, 3])).collect();
        let w43 = w.reshape([4, 3]).unwrap();
        let mut task = |codelet, inputs: &[Var], outputs: &[Var], scalars: &[f64]| {
            graph.task(codelet, Dtype::F32, inputs, outputs, &[], scalars).unwrap();
        };
        task(&MATMUL, &[x, w43], &[y[0]], &[]);
        task(&COPY, &[y[0]], &[y[1]], &[]);
        task(&COPY, &[y[1]], &[y[2]], &[]);
        task(&MATMUL, &[p, y[2]], &[out], &[]);
        task(&SHIFT, &[], &[w], &[1.0]);
        Case { graph, x, p, out, state }
    }

    pub fn planned(&self, workers: usize) -> Planned {
        Planned::new(&self.graph, &options(), |lowered| {
            Plan::heuristic(lowered, &Machine::with_workers(workers))
        })
        .unwrap()
    }

    pub fn open(&self) -> Planned {
        self.open_by(SchedulerKind::Steal.into())
    }

    pub fn open_by(&self, policy: Policy) -> Planned {
        Planned::new(&self.graph, &options(), |lowered| {
            Plan::open(lowered, &Machine::with_workers(2), policy)
        })
        .unwrap()
    }

    pub fn file(&self, workers: usize) -> PlanFile {
        let mut file = PlanFile::new("heuristic");
        file.add("a step", &self.graph, &self.planned(workers), &Machine::with_workers(workers)).unwrap();
        file
    }

    /// Reads a text as a plan for this graph on two workers.
    pub fn read(&self, text: &str) -> Result<Planned> {
        PlanFile::parse("p.plan", text)?.plan("a step", &self.graph, &Machine::with_workers(2))
    }

    /// Runs a few steps: the outputs, and the tasks that each worker executed, in its order.
    pub fn run(&self, pool: &Arc<Pool>, planned: &Planned) -> (Vec<f32>, Vec<Vec<usize>>) {
        let mut session = Session::new(pool, &planned.lowered, &planned.plan, 1 << 10).unwrap();
        let mut store = Store::new();
        let weights = store.add::<f32>("the weights", [12]).unwrap();
        assert_eq!(weights, self.state);
        store.get_mut::<f32>(weights).iter_mut().enumerate().for_each(|(i, w)| *w = i as f32);
        let mut seen = Vec::new();
        let feed = |step: u64, ports: &mut Ports<'_>| {
            // Small whole numbers, so that every way to cut the sums gives the same.
            let value = |i: usize| ((i as u64 * 7 + step) % 5) as f32;
            ports.get_mut::<f32>(&self.x).iter_mut().enumerate().for_each(|(i, v)| *v = value(i));
            ports.get_mut::<f32>(&self.p).iter_mut().enumerate().for_each(|(i, v)| *v = value(i + 3));
        };
        session.run(&mut store, STEPS, feed, |_, out| seen.extend_from_slice(out.get(&self.out))).unwrap();
        seen.extend_from_slice(store.get(weights));
        let trace = session.take_trace();
        let tasks = trace.workers.iter().map(|events| events.iter().map(|e| e.task as usize).collect());
        (seen, tasks.collect())
    }
}

pub fn options() -> CutOptions {
    let tiling = vec![("n".into(), TileSize::Size(2)), ("k".into(), TileSize::Size(4))];
    let rows = vec![("i".into(), TileSize::Size(2))];
    CutOptions {
        tilings: vec![tiling, rows],
        implementations: vec!["reference".into()],
        ..CutOptions::default()
    }
}

pub fn pool(workers: usize) -> Arc<Pool> {
    Arc::new(Pool::new(&Machine::with_workers(workers)).unwrap())
}

/// Checks that the tasks that were executed are those of the text: each unit's in its order, and those that
/// float once per step, whoever executed them.
pub fn follows(text: &str, executed: &[Vec<usize>]) -> bool {
    let (mut order, mut floating) = (vec![Vec::new(); executed.len()], Vec::new());
    for line in text.lines().filter(|line| line.starts_with("run ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let task: usize = words[1].parse().unwrap();
        match words.len() {
            6 => order[words[5].parse::<usize>().unwrap()].push(task),
            _ => floating.push(task),
        }
    }
    let fixed = |tasks: &[usize]| -> Vec<usize> {
        tasks.iter().copied().filter(|task| !floating.contains(task)).collect()
    };
    let times = |task: &usize| executed.iter().flatten().filter(|other| *other == task).count();
    executed.iter().zip(&order).all(|(tasks, order)| fixed(tasks) == order.repeat(STEPS as usize))
        && floating.iter().all(|task| times(task) == STEPS as usize)
}
