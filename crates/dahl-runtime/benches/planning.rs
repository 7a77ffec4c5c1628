//! What a plan costs: `cargo bench -p dahl-runtime --bench planning`.
//!
//! The step of a network of dense layers is recorded, cut, lowered and planned: once with few layers and more
//! and more samples, which are cut into chunks of 16 to 64, and once with few samples and more and more
//! layers. Time should grow as the number of tasks does. Each figure is the fastest of several rounds, in
//! milliseconds; the last column is how many tasks a second are lowered and planned for two workers.

use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::engine::Store;
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, Var, lower};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use std::hint::black_box;
use std::time::Instant;

const N_ROUNDS: usize = 3;
/// Inputs and outputs of every layer.
const WIDTH: usize = 32;

static LOAD: Codelet = Codelet::new("load", "images[*,i] index[n] -> x[n,i]", 0.0, EMPTY);
static DENSE: Codelet = Codelet::new("dense", "x[n,i] w[o,i] -> y[n,o]", 2.0, EMPTY)
    .scratch(|_, spec| spec.args[0].region.len() * size_of::<f32>());
static RELU: Codelet = Codelet::new("relu", "x[..] -> y[..]", 1.0, EMPTY).in_place();
static LOSS: Codelet = Codelet::new("loss", "y[n,o!] -> loss[] += dy[n,o!]", 8.0, EMPTY);
static DX: Codelet = Codelet::new("dx", "dy[n,o] w[o,i] -> dx[n,i]", 2.0, EMPTY);
static DW: Codelet = Codelet::new("dw", "x[n,i] dy[n,o] -> dw[o,i] +=", 2.0, EMPTY);
static UPDATE: Codelet = Codelet::new("update", "g[i] p[i] -> p[i]", 2.0, EMPTY);
const EMPTY: &[Implementation] = &[implementation(Dtype::F32)];

const fn implementation(dtype: Dtype) -> Implementation {
    Implementation::new("reference", 1, dtype, Needs::Nothing, empty)
}

fn empty(call: &Call<'_>) -> Result<()> {
    black_box(call);
    Ok(())
}

fn main() -> Result<()> {
    println!(
        "{:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "samples", "layers", "tasks", "cut", "lower", "1 worker", "2 workers", "16", "open", "tasks/s"
    );
    for n_samples in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 640_000] {
        measure(n_samples, 2)?;
    }
    for n_layers in [250, 500, 1_000, 2_000, 6_061] {
        measure(64, n_layers)?;
    }
    Ok(())
}

/// Plans a step in every way and prints a line.
fn measure(n_samples: usize, n_layers: usize) -> Result<()> {
    let graph = step(n_samples, n_layers)?;
    let options = CutOptions::parse("tiles:n=16to64/i=4096max impl:reference")?;
    let (cut, cut_millis) = fastest(|| Cut::heuristic(&graph, &options))?;
    let (lowered, lower_millis) = fastest(|| lower(&graph, &cut))?;
    let planned = |plan: &dyn Fn(&Lowered) -> Result<Plan>| Ok(fastest(|| plan(&lowered))?.1);
    let one = planned(&|lowered| Plan::heuristic(lowered, &Machine::with_workers(1)))?;
    let two = planned(&|lowered| Plan::heuristic(lowered, &Machine::with_workers(2)))?;
    let many = planned(&|lowered| Plan::heuristic(lowered, &Machine::with_workers(16)))?;
    let open = planned(&|lowered| Plan::open(lowered, &Machine::with_workers(2), SchedulerKind::Eager))?;
    let n_tasks = lowered.tasks().len();
    let rate = n_tasks as f64 / (lower_millis + two) * 1e3;
    println!(
        "{n_samples:>8} {n_layers:>8} {n_tasks:>8} {cut_millis:9.1} {lower_millis:9.1} {one:9.1} {two:9.1} {many:9.1} \
         {open:9.1} {rate:9.0}"
    );
    Ok(())
}

/// The result of the fastest of several rounds, and its time in milliseconds.
fn fastest<T>(mut round: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let mut timed = || {
        let start = Instant::now();
        let result = round()?;
        Ok((result, start.elapsed().as_secs_f64() * 1e3))
    };
    let mut best = timed()?;
    for _ in 1..N_ROUNDS {
        let next = timed()?;
        if next.1 < best.1 {
            best = next;
        }
    }
    Ok(best)
}

/// Forward, loss, backward and update.
fn step(n_samples: usize, n_layers: usize) -> Result<Graph> {
    let mut store = Store::new();
    let (images, weights) =
        (store.add::<f32>("images", [1, WIDTH])?, store.add::<f32>("weights", [n_layers * WIDTH * WIDTH])?);
    let mut graph = Graph::new(4);
    let (images, weights) = (store.record(&mut graph, images), store.record(&mut graph, weights));
    let gradients = graph.temporary("gradients", Dtype::F32, weights.shape());
    let part = |flat: Var, layer: usize| flat.part(layer * WIDTH * WIDTH, [WIDTH, WIDTH]);
    let index = graph.port("index", Dtype::U32, [n_samples]);
    let batch = [n_samples, WIDTH];
    let mut x = graph.temporary("x", Dtype::F32, batch);
    graph.task(&LOAD, Dtype::F32, &[images, index], &[x], &[], &[])?;
    let mut inputs = Vec::new();
    for layer in 0..n_layers {
        let y = graph.temporary(&format!("y{layer}"), Dtype::F32, batch);
        graph.task(&DENSE, Dtype::F32, &[x, part(weights, layer)?], &[y], &[], &[])?;
        graph.task(&RELU, Dtype::F32, &[y], &[y], &[], &[])?;
        inputs.push(x);
        x = y;
    }
    let loss = graph.output("loss", Dtype::F32, []);
    let mut dy = graph.temporary("dy", Dtype::F32, batch);
    graph.task(&LOSS, Dtype::F32, &[x], &[loss, dy], &[], &[])?;
    for (layer, &x) in inputs.iter().enumerate().rev() {
        graph.task(&DW, Dtype::F32, &[x, dy], &[part(gradients, layer)?], &[], &[])?;
        let dx = graph.temporary(&format!("dx{layer}"), Dtype::F32, batch);
        graph.task(&DX, Dtype::F32, &[dy, part(weights, layer)?], &[dx], &[], &[])?;
        dy = dx;
    }
    graph.task(&UPDATE, Dtype::F32, &[gradients], &[weights], &[], &[])?;
    Ok(graph)
}
