//! What an error says: kind, task, codelet, shapes and regions, step, worker, and the caller's line.

#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::{Dtype, Params, submit};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Var, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Error, ErrorKind, Result, Runtime};
use kernels::{COPY, FAIL, MATMUL};
use std::panic::Location;
use std::sync::Arc;

/// A graph of a copy and of a task that fails as `how` says, cut by two rows.
struct Failing {
    graph: Graph,
    port: Var,
    line: u32,
}

impl Failing {
    fn new(how: f64) -> Failing {
        let mut graph = Graph::new(2);
        let port = graph.port("p", Dtype::F32, [6, 3]);
        let middle = graph.temporary("m", Dtype::F32, [6, 3]);
        let output = graph.output("out", Dtype::F32, [6, 3]);
        graph.task(&COPY, Dtype::F32, &[port], &[middle], &[], &[]).unwrap();
        let line = line!() + 1;
        graph.task(&FAIL, Dtype::F32, &[middle], &[output], &[], &[how]).unwrap();
        Failing { graph, port, line }
    }

    /// Runs it on two workers.
    fn run(&self, is_planned: bool) -> Error {
        let options = CutOptions {
            tilings: vec![vec![("i".into(), TileSize::Size(2))]],
            implementations: vec!["reference".into()],
            ..CutOptions::default()
        };
        let lowered = lower(&self.graph, &Cut::heuristic(&self.graph, &options).unwrap()).unwrap();
        let machine = Machine::with_workers(2);
        let plan = if is_planned {
            Plan::heuristic(&lowered, &machine).unwrap()
        } else {
            Plan::open(&lowered, &machine, SchedulerKind::Eager).unwrap()
        };
        let pool = Arc::new(Pool::new(&machine).unwrap());
        let mut session = Session::new(&pool, &lowered, &plan, 0).unwrap();
        let feed =
            |_, ports: &mut dahl_runtime::engine::Ports<'_>| ports.get_mut::<f32>(&self.port).fill(1.0);
        session.run(&mut Store::new(), 50, feed, |_, _| {}).unwrap_err()
    }
}

#[test]
fn a_failing_task_of_a_graph_says_where_it_was_recorded_and_on_what_it_worked() {
    for (how, message) in [(1.0, "asked to fail"), (2.0, "a kernel panicked: asked to panic")] {
        let failing = Failing::new(how);
        for is_planned in [true, false] {
            let error = failing.run(is_planned);
            assert_eq!((error.kind(), error.message()), (ErrorKind::Task, message));
            assert_eq!(error.codelet(), Some("fail"));
            let task = error.task().expect("a task");
            let tile: usize =
                (0..3).find(|t| task == format!("fail (reference) tile {} of 3", t + 1)).expect(task);
            let rows = format!("[{}..{},0..3]", 2 * tile, 2 * tile + 2);
            assert_eq!(error.arguments(), Some(&*format!("m.{tile}{rows} of [6,3], out{rows} of [6,3]")));
            assert_eq!(error.step(), Some(0));
            let worker = error.worker().expect("a worker");
            assert!(worker < 2);
            let location = error.location().expect("a line");
            assert_eq!((location.file(), location.line()), (file!(), failing.line));
            let text = error.to_string();
            for part in [message, task, &rows, "step 1", &format!("worker {worker}"), "tests/errors.rs:"] {
                assert!(text.contains(part), "`{part}` is missing in: {text}");
            }
        }
    }
}

#[test]
fn a_library_can_name_the_line_of_its_caller() {
    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }
    fn record(graph: &mut Graph, at: Option<&'static Location<'static>>) {
        let (x, y) = (graph.temporary("x", Dtype::F32, [2, 2]), graph.output("y", Dtype::F32, [2, 2]));
        graph.record_at(at);
        graph.task(&FAIL, Dtype::F32, &[x], &[y], &[], &[1.0]).unwrap();
    }
    let mut failing = Failing::new(0.0);
    failing.line = line!() + 1;
    record(&mut failing.graph, Some(here()));
    assert_eq!(failing.run(true).location().map(Location::line), Some(failing.line));
    let mut failing = Failing::new(0.0);
    record(&mut failing.graph, None);
    assert_ne!(failing.run(true).location().map(Location::line), Some(failing.line));
}

#[test]
fn what_lowering_inserts_speaks_of_the_line_that_it_is_for() {
    let mut graph = Graph::new(1);
    let (a, b) = (graph.port("a", Dtype::F32, [4, 4]), graph.port("b", Dtype::F32, [4, 4]));
    let (c, d) = (graph.temporary("c", Dtype::F32, [4, 4]), graph.output("d", Dtype::F32, [4, 4]));
    let product = line!() + 1;
    graph.task(&MATMUL, Dtype::F32, &[a, b], &[c], &[], &[]).unwrap();
    let copy = line!() + 1;
    graph.task(&COPY, Dtype::F32, &[c], &[d], &[], &[]).unwrap();
    let tilings = vec![vec![("k".into(), TileSize::Size(2))], vec![("j".into(), TileSize::Size(4))]];
    let options = CutOptions { tilings, implementations: vec!["reference".into()], ..CutOptions::default() };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options).unwrap()).unwrap();
    let lines = |codelet: &str| -> Vec<u32> {
        let tasks = lowered.tasks().iter().filter(|task| task.codelet == codelet);
        tasks.map(|task| task.location.unwrap().line()).collect()
    };
    assert_eq!(lines("matmul"), [product, product]);
    assert_eq!(lines("reduce"), [product]);
    assert_eq!(lines("copy"), [copy]);
}

#[test]
fn a_mistake_in_recording_names_the_shapes_and_the_line() {
    let mut graph = Graph::new(1);
    let (x, y) = (graph.port("x", Dtype::F32, [2, 3]), graph.output("y", Dtype::F32, [4, 5]));
    let line = line!() + 1;
    let error = graph.task(&COPY, Dtype::F32, &[x], &[y], &[], &[]).unwrap_err();
    assert_eq!((error.codelet(), error.arguments()), (Some("copy"), Some("x[2,3], y[4,5]")));
    assert_eq!(error.location().map(Location::line), Some(line));
    assert!(error.to_string().contains("in task copy on x[2,3], y[4,5]"), "{error}");
}

#[test]
fn a_failing_submitted_task_says_the_same() -> Result<()> {
    for how in [1.0, 2.0] {
        let runtime = Runtime::new(&Machine::with_workers(2))?;
        let arena = runtime.arena("work");
        let (x, mut y) = (arena.filled([2, 3], 1.0f32)?, arena.filled([2, 3], 0.0f32)?);
        let line = line!() + 2;
        let params = Params { scalars: &[how], ..Params::default() };
        submit(&FAIL, "reference", &[&x], &mut [&mut y], params)?;
        runtime.wait()?;
        let error = y.read().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Task);
        assert_eq!((error.codelet(), error.task()), (Some("fail"), Some("fail (reference)")));
        assert_eq!(error.arguments(), Some("x[2,3], y[2,3]"));
        assert!(error.worker().is_some_and(|worker| worker < 2));
        assert_eq!(error.location().map(|at| (at.file(), at.line())), Some((file!(), line)));
    }
    Ok(())
}

#[test]
fn errors_are_cheap_to_clone() {
    assert_eq!(size_of::<Error>(), size_of::<usize>(), "an error is one shared pointer");
    let error = Error::new(ErrorKind::Io, "a").in_task("b").of_codelet("c").with_arguments("d").in_step(1);
    let clone = error.clone();
    assert!(std::ptr::eq(error.message(), clone.message()), "clones share their text");
    // Context that is added later is the clone's own.
    assert_eq!((clone.on_worker(1).worker(), error.worker()), (Some(1), None));
}
