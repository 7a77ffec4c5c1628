//! Kernels that reach for more than they were given, or panic in an unusual way.

use super::{COPY, copy, lowered, machine, reference, session};
use dahl_runtime::array::{Dtype, Params, submit, submit_in_place};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, Codelet};
use dahl_runtime::engine::{Outputs, Ports, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, lower};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Error, ErrorKind, Result, Runtime};
use std::sync::Mutex;

fn runtime() -> Runtime {
    Runtime::new(&machine()).expect("a machine with CPU units")
}

fn assert_task_error(error: &Error, text: &str) {
    assert_eq!(error.kind(), ErrorKind::Task, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Elementwise work although only the rows are indexed alike.
static STRETCH: Codelet = Codelet::new("stretch", "x[i,j] -> y[i,k]", 0.0, &[reference(copy)]);

/// The tile of a window says how far apart its rows lie. Elementwise work beyond its region would read what
/// belongs to others, and in the last row what belongs to nobody.
#[test]
fn elementwise_work_ends_with_the_region_of_a_window() -> Result<()> {
    let runtime = runtime();
    let arena = runtime.arena("work");
    let base = arena.filled([4, 8], 1.0f32)?;
    let window = base.view().into_region([0..4, 6..8])?;
    let mut y = arena.zeros::<f32, 2>([4, 8])?;
    submit(&STRETCH, "reference", &[&window], &mut [&mut y], Params::default())?;
    assert_task_error(&y.read().map(|_| ()).unwrap_err(), "argument 0 is given for [0..4,0..2]");
    Ok(())
}

/// A codelet that says it works in place, but takes slices of its input and its output.
static SLICES: Codelet = Codelet::new("slices", "x[i] -> y[i]", 0.0, &[reference(slices)]).in_place();

fn slices(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    let x = x.contiguous();
    y.contiguous().copy_from_slice(x);
    Ok(())
}

/// The same, with the slice of the output alone.
static HALF_SLICES: Codelet =
    Codelet::new("half_slices", "x[i] -> y[i]", 0.0, &[reference(half_slices)]).in_place();

fn half_slices(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    for (i, y) in y.contiguous().iter_mut().enumerate() {
        *y = x.at([i]);
    }
    Ok(())
}

#[test]
fn there_are_no_slices_of_memory_that_is_read_and_written() -> Result<()> {
    let runtime = runtime();
    let arena = runtime.arena("work");
    for codelet in [&SLICES, &HALF_SLICES] {
        let x = arena.array_from([3], &[1.0f32, 2.0, 3.0])?;
        let mut y = arena.zeros::<f32, 1>([3])?;
        submit(codelet, "reference", &[&x], &mut [&mut y], Params::default())?;
        assert_eq!(y.to_vec()?, [1.0, 2.0, 3.0]);
        submit_in_place(codelet, "reference", 0, &[], &mut [&mut y], Params::default())?;
        assert_task_error(&y.read().map(|_| ()).unwrap_err(), "are the same memory");

        let mut graph = Graph::new(1);
        let port = graph.port("p", Dtype::F32, [3]);
        let output = graph.output("out", Dtype::F32, [3]);
        graph.task(&COPY, Dtype::F32, &[port], &[output], &[], &[])?;
        graph.task(codelet, Dtype::F32, &[output], &[output], &[], &[])?;
        let lowered = lowered(&graph)?;
        let mut session = session(&lowered, &Plan::fixed(&lowered, &machine())?)?;
        let error = session.run(&mut Store::new(), 1, |_, _| {}, |_, _| {}).unwrap_err();
        assert_task_error(&error, "are the same memory");
    }
    Ok(())
}

/// Writes its output elementwise while it holds a slice of it.
static TWICE: Codelet = Codelet::new("twice", "x[i] -> y[i]", 0.0, &[reference(twice)]);

fn twice(call: &Call<'_>) -> Result<()> {
    let mut y = call.output::<f32>(0);
    let slice = y.contiguous();
    call.map(|x: f32| x);
    slice.fill(0.0);
    Ok(())
}

#[test]
fn an_output_has_one_user_at_a_time() -> Result<()> {
    let runtime = runtime();
    let arena = runtime.arena("work");
    let x = arena.filled([3], 1.0f32)?;
    let mut y = arena.zeros::<f32, 1>([3])?;
    submit(&TWICE, "reference", &[&x], &mut [&mut y], Params::default())?;
    assert_task_error(&y.read().map(|_| ()).unwrap_err(), "output 0 is taken twice");
    Ok(())
}

/// Writes beside its region: `s` elements to the right.
static BESIDE: Codelet = Codelet::new("beside", "y[i,j] -> y[i,j]", 0.0, &[reference(beside)]);

fn beside(call: &Call<'_>) -> Result<()> {
    let mut y = call.output::<f32>(0);
    let (row, column) = (y.region().lo()[0], y.region().hi()[1] - 1);
    y.set([row, column + call.scalar(0) as usize], 9.0);
    Ok(())
}

/// Reads beside its region.
static LOOK: Codelet = Codelet::new("look", "x[i,j] -> y[i,j]", 0.0, &[reference(look)]);

fn look(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    let region = *y.region();
    let value = x.at([region.lo()[0], region.hi()[1] - 1 + call.scalar(0) as usize]);
    dahl_runtime::codelet::for_each_index(&region, |index| y.put(index, value));
    Ok(())
}

fn by(steps: &f64) -> Params<'_> {
    Params { scalars: std::slice::from_ref(steps), ..Params::default() }
}

/// The memory beside a part's region is another part's. The program may be reading that one meanwhile.
#[test]
fn a_kernel_keeps_to_the_region_of_a_part() -> Result<()> {
    let runtime = runtime();
    let arena = runtime.arena("work");
    let mut base = arena.filled([3, 6], 1.0f32)?;
    let mut parts: Vec<_> = base.split_mut(1, 2)?.collect();
    let (left, right) = parts.split_at_mut(1);
    let guard = right[0].read()?;
    submit(&BESIDE, "reference", &[], &mut [&mut left[0]], by(&0.0))?;
    assert_eq!(left[0].to_vec()?[2], 9.0);
    submit(&BESIDE, "reference", &[], &mut [&mut left[0]], by(&1.0))?;
    assert_task_error(&left[0].read().map(|_| ()).unwrap_err(), "index [0, 3] is outside of [0..3,0..3]");
    assert!((0..3).all(|i| (0..3).all(|j| guard[[i, j]] == 1.0)));

    let mut y = arena.zeros::<f32, 2>([3, 3])?;
    submit(&LOOK, "reference", &[&right[0]], &mut [&mut y], by(&0.0))?;
    assert_eq!(y.to_vec()?, [1.0; 9]);
    submit(&LOOK, "reference", &[&right[0]], &mut [&mut y], by(&1.0))?;
    assert_task_error(&y.read().map(|_| ()).unwrap_err(), "index [0, 3] is outside of [0..3,0..3]");
    Ok(())
}

/// In a graph it is a neighbouring tile's, which another worker may be writing.
#[test]
fn a_kernel_keeps_to_the_region_of_its_tile() -> Result<()> {
    for (codelet, inputs) in [(&BESIDE, 0), (&LOOK, 1)] {
        for (steps, is_inside) in [(0.0, true), (1.0, false)] {
            let mut graph = Graph::new(2);
            let port = graph.port("p", Dtype::F32, [3, 6]);
            let output = graph.output("out", Dtype::F32, [3, 6]);
            graph.task(&LOOK, Dtype::F32, &[port], &[output], &[], &[0.0])?;
            graph.task(codelet, Dtype::F32, &[port][..inputs], &[output], &[], &[steps])?;
            let options = CutOptions {
                tilings: vec![vec![("i".into(), TileSize::Size(1)), ("j".into(), TileSize::Size(3))]],
                implementations: vec!["reference".into()],
                ..CutOptions::default()
            };
            let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
            for plan in [
                Plan::heuristic(&lowered, &machine())?,
                Plan::open(&lowered, &machine(), SchedulerKind::Steal)?,
            ] {
                let mut session = session(&lowered, &plan)?;
                let feed = |_, ports: &mut Ports<'_>| ports.get_mut::<f32>(&port).fill(1.0);
                let collect = |_, outputs: &Outputs<'_>| assert_eq!(outputs.get::<f32>(&output).len(), 18);
                match session.run(&mut Store::new(), 3, feed, collect) {
                    Ok(_) => assert!(is_inside),
                    Err(error) => {
                        assert!(!is_inside, "{error}");
                        assert_task_error(&error, "is outside of [");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Runs a session from inside a task.
static NEST: Codelet = Codelet::new("nest", "x[i] -> y[i]", 0.0, &[reference(nest)]);

static INNER: Mutex<Option<Session>> = Mutex::new(None);

fn nest(_: &Call<'_>) -> Result<()> {
    let mut inner = INNER.lock().unwrap();
    inner.as_mut().expect("set by the test").run(&mut Store::new(), 1, |_, _| {}, |_, _| {}).map(|_| ())
}

/// It would wait for the very worker that it runs on.
#[test]
fn a_run_is_not_begun_from_inside_a_task() -> Result<()> {
    let mut graph = Graph::new(1);
    let port = graph.port("p", Dtype::F32, [4]);
    let output = graph.output("out", Dtype::F32, [4]);
    graph.task(&NEST, Dtype::F32, &[port], &[output], &[], &[])?;
    let lowered = lowered(&graph)?;
    let plan = Plan::fixed(&lowered, &machine())?;
    *INNER.lock().unwrap() = Some(session(&lowered, &plan)?);
    let error = session(&lowered, &plan)?.run(&mut Store::new(), 1, |_, _| {}, |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("begun from inside a task"), "{error}");
    Ok(())
}

/// Panics with something that panics when it is dropped, and again when that is dropped.
static BOMB: Codelet = Codelet::new("bomb", "x[i] -> y[i]", 0.0, &[reference(bomb)]);

struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Bomb(self.0 - 1));
        }
    }
}

fn bomb(call: &Call<'_>) -> Result<()> {
    match call.scalar(0) {
        0.0 => copy(call),
        fuse => std::panic::panic_any(Bomb(fuse as u32)),
    }
}

/// A worker that dies of it would leave the program waiting for ever.
#[test]
fn a_panic_whose_payload_panics_ends_the_run_and_not_the_worker() -> Result<()> {
    let runtime = runtime();
    let arena = runtime.arena("work");
    let x = arena.filled([4], 2.0f32)?;
    for fuse in [1.0, 2.0, 3.0] {
        let mut graph = Graph::new(2);
        let port = graph.port("p", Dtype::F32, [4]);
        let output = graph.output("out", Dtype::F32, [4]);
        graph.task(&BOMB, Dtype::F32, &[port], &[output], &[], &[fuse])?;
        let lowered = lowered(&graph)?;
        for plan in
            [Plan::fixed(&lowered, &machine())?, Plan::open(&lowered, &machine(), SchedulerKind::Eager)?]
        {
            let mut session = session(&lowered, &plan)?;
            let error = session.run(&mut Store::new(), 5, |_, _| {}, |_, _| {}).unwrap_err();
            assert_task_error(&error, "a kernel panicked: (no message)");
        }
        // More often than there are workers: none of them may be missing afterwards.
        for _ in 0..4 {
            let mut y = arena.zeros::<f32, 1>([4])?;
            submit(&BOMB, "reference", &[&x], &mut [&mut y], by(&fuse))?;
            assert_task_error(&y.read().map(|_| ()).unwrap_err(), "a kernel panicked: (no message)");
        }
        let mut y = arena.zeros::<f32, 1>([4])?;
        submit(&BOMB, "reference", &[&x], &mut [&mut y], by(&0.0))?;
        assert_eq!(y.to_vec()?, [2.0; 4]);
    }
    Ok(())
}
