//! What a task costs beyond its kernel: `cargo bench -p dahl-runtime --bench overhead`.
//!
//! The kernel is empty, so all the time measured is the runtime's, tracing of recorded graphs included. Each
//! figure is the median of several rounds after one to warm up, in nanoseconds per task. The last column is
//! the processor time of all threads together, which stays meaningful when other programs run on the same
//! cores.

use dahl_runtime::array::{Array, Dtype, Params, submit};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Call, CallSpec, Codelet, Implementation, Kernel, Needs};
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, lower};
use dahl_runtime::machine::{Machine, n_cores};
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Result, Runtime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const N_TASKS: usize = 200_000;
const N_CHAINS: usize = 256;
const N_ROUNDS: usize = 9;

static STEP: Codelet = Codelet::new("step", "x[i] y[i] -> y[i]", 0.0, IMPLEMENTATIONS);
static SCALED: Codelet = Codelet::new("scaled", "s[] y[i] -> y[i]", 0.0, IMPLEMENTATIONS);
static SUM: Codelet = Codelet::new("sum", "y[i] -> s[] +=", 0.0, IMPLEMENTATIONS);
static UPDATE: Codelet = Codelet::new("update", "y[i] -> y[i]", 0.0, IMPLEMENTATIONS);
const IMPLEMENTATIONS: &[Implementation] =
    &[Implementation::new("empty", 1, Dtype::F32, Needs::Nothing, empty)];

fn empty(call: &Call<'_>) -> Result<()> {
    black_box(call);
    Ok(())
}

fn main() -> Result<()> {
    let n_workers = n_cores().min(2);
    println!("{N_TASKS} empty tasks, {n_workers} workers, {} cores", n_cores());
    println!("{:<50} {:>8} {:>8} {:>8} {:>8}", "ns per task", "median", "fastest", "slowest", "CPU");
    bare_call();
    rayon_spawn(n_workers)?;
    dynamic(n_workers)?;
    for eager in [false, true] {
        recorded(n_workers, eager, false)?;
        recorded(n_workers, eager, true)?;
    }
    Ok(())
}

/// Times rounds of `N_TASKS` tasks and prints a line.
fn measure(what: &str, mut round: impl FnMut() -> Result<()>) -> Result<()> {
    round()?;
    let mut nanos = Vec::new();
    let cpu_before = cpu_nanos();
    for _ in 0..N_ROUNDS {
        let start = Instant::now();
        round()?;
        nanos.push(start.elapsed().as_nanos() as f64 / N_TASKS as f64);
    }
    let cpu = (cpu_nanos() - cpu_before) / (N_ROUNDS * N_TASKS) as f64;
    nanos.sort_by(f64::total_cmp);
    let (fastest, slowest) = (nanos[0], nanos[N_ROUNDS - 1]);
    println!("{what:<50} {:8.1} {fastest:8.1} {slowest:8.1} {cpu:8.1}", nanos[N_ROUNDS / 2]);
    Ok(())
}

/// Processor time of this program's threads, where the system tells (Linux); zero elsewhere.
fn cpu_nanos() -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let files = threads.flatten().map(|thread| thread.path().join("schedstat"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum()
}

/// The kernel, called through the same function pointer by one thread.
fn bare_call() {
    let spec = CallSpec::default();
    // SAFETY: there is no memory that one would have to vouch for.
    #[expect(unsafe_code, reason = "makes the call that an engine would make")]
    let call = unsafe { Call::new(&spec, &[], &mut []) };
    let kernel: Kernel = black_box(empty);
    measure("bare call", || (0..N_TASKS).try_for_each(|_| black_box(kernel)(&call)))
        .expect("an empty kernel succeeds");
}

/// Spawned closures, which have no dependencies.
fn rayon_spawn(n_workers: usize) -> Result<()> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(n_workers).build().expect("threads can be started");
    let kernel: fn() = black_box(|| ());
    measure("rayon spawn, no dependencies", || {
        pool.scope(|scope| (0..N_TASKS).for_each(|_| scope.spawn(move |_| kernel())));
        Ok(())
    })?;
    measure("rayon spawn from outside, no dependencies", || {
        pool.in_place_scope(|scope| (0..N_TASKS).for_each(|_| scope.spawn(move |_| kernel())));
        Ok(())
    })
}

/// Tasks submitted one by one on parts of arrays.
fn dynamic(n_workers: usize) -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(n_workers))?;
    let arena = runtime.arena("bench");
    let mut x = arena.zeros::<f32, 1>([N_CHAINS * 16])?;
    let mut y = arena.zeros::<f32, 1>([N_CHAINS * 16])?;

    let mut parts: Vec<Array<'_, f32, 1>> = y.split_mut(0, N_CHAINS)?.collect();
    measure("submit, 256 chains, in place", || {
        for i in 0..N_TASKS {
            submit(&UPDATE, "empty", &[], &mut [&mut parts[i % N_CHAINS]], Params::default())?;
        }
        runtime.wait()
    })?;
    let inputs: Vec<_> = x.split(0, N_CHAINS)?.collect();
    measure("submit, 256 chains, an input each", || {
        for i in 0..N_TASKS {
            submit(
                &STEP,
                "empty",
                &[&inputs[i % N_CHAINS]],
                &mut [&mut parts[i % N_CHAINS]],
                Params::default(),
            )?;
        }
        runtime.wait()
    })?;
    drop((parts, inputs));

    let mut left: Vec<Array<'_, f32, 1>> = x.split_mut(0, N_CHAINS)?.collect();
    let mut right: Vec<Array<'_, f32, 1>> = y.split_mut(0, N_CHAINS)?.collect();
    measure("submit, 256 chains that cross", || {
        for i in 0..N_TASKS {
            let (from, to) = ((i + i / N_CHAINS) % N_CHAINS, i % N_CHAINS);
            match (i / N_CHAINS) % 2 {
                0 => submit(&STEP, "empty", &[&left[from]], &mut [&mut right[to]], Params::default())?,
                _ => submit(&STEP, "empty", &[&right[from]], &mut [&mut left[to]], Params::default())?,
            }
        }
        runtime.wait()
    })?;
    measure("submit, one chain", || {
        for _ in 0..N_TASKS {
            submit(&UPDATE, "empty", &[], &mut [&mut right[0]], Params::default())?;
        }
        runtime.wait()
    })
}

/// A recorded graph: each step, 8 updates of each of 256 chains, whose tiles stay on their worker; and, if
/// wanted, a sum over all of them that every chain of the next step waits for.
fn recorded(n_workers: usize, eager: bool, reduces: bool) -> Result<()> {
    const UPDATES: usize = 8;
    let mut store = Store::new();
    let state = store.add::<f32>("y", [N_CHAINS * 16])?;
    let sum = store.add::<f32>("s", [1])?;
    let mut graph = Graph::new(4);
    let (y, s) = (store.record(&mut graph, state), store.record(&mut graph, sum));
    for _ in 0..UPDATES {
        if reduces {
            graph.task(&SCALED, Dtype::F32, &[s.reshape([])?], &[y], &[], &[])?;
        } else {
            graph.task(&UPDATE, Dtype::F32, &[], &[y], &[], &[])?;
        }
    }
    if reduces {
        graph.task(&SUM, Dtype::F32, &[y], &[s.reshape([])?], &[], &[])?;
    }
    let options = CutOptions {
        tilings: vec![vec![("i".into(), TileSize::Size(16))]],
        tiles_per_group: N_CHAINS / 4,
        implementations: vec!["empty".into()],
        ..CutOptions::default()
    };
    let lowered = lower(&graph, &Cut::heuristic(&graph, &options)?)?;
    let machine = Machine::with_workers(n_workers);
    let plan = if eager {
        Plan::open(&lowered, &machine, SchedulerKind::Eager)?
    } else {
        Plan::heuristic(&lowered, &machine)?
    };
    let pool = Arc::new(Pool::new(&machine).unwrap());
    let mut session = Session::new(&pool, &lowered, &plan, 1 << 12)?;
    let steps = N_TASKS.div_ceil(lowered.tasks().len()) as u64;
    let how = if eager { "eager" } else { "replay" };
    let what = if reduces { "a sum over all every step" } else { "tiles stay on their worker" };
    measure(&format!("{how}, 256 chains, {what}"), || {
        session.run(&mut store, steps, |_, _| {}, |_, _| {}).map(|_| ())
    })
}
