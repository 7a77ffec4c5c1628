//! What tracing and statistics cost in training:
//! `cargo bench -p dahl --bench tracing -- FOLDER [ROUNDS [MODEL]]`, or on the digits without a folder.
//!
//! The same training is run with and without trace, in turn, in short stretches, so that what else happens on
//! the machine meets both alike. The first epoch of a stretch warms up and is left out. With trace, what
//! tasks took is also learned and written to a file at the end, as `dahl train` does once per run. Printed
//! are the medians, the median of the ratios of neighbours with its quartiles, and beside it what follows
//! from the cost of the clock: a trace looks at it twice per task.

use dahl::dataset;
use dahl::model::Sequential;
use dahl::train::{Report, Trainer};
use dahl_runtime::machine::{Hardware, Machine, n_cores};
use dahl_runtime::perf::{Date, Identity, Models, RunId, Store};
use dahl_runtime::trace::ticks;
use std::hint::black_box;
use std::time::Instant;

/// Images and epochs of a stretch: some tens of milliseconds.
const N_IMAGES: usize = 6400;
const N_EPOCHS: usize = 4;
const N_ROUNDS: usize = 100;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let mut data = match args.first() {
        Some(folder) => dataset::idx(folder).expect("a folder with IDX files"),
        None => dataset::digits(),
    };
    let model = args.get(2).map_or("seed", String::as_str);
    let n_rounds = args.get(1).map_or(N_ROUNDS, |n| n.parse().expect("a number of rounds"));
    data.train.truncate(N_IMAGES);
    data.test.truncate(256);
    let machine = Machine::with_workers(n_cores().min(2));
    let train = |capacity: usize| -> Report {
        let mut model = Sequential::builtin(model, data.shape, data.classes).expect("a model by name");
        let trainer = Trainer::new(&machine).epochs(N_EPOCHS).sgd(0.05).trace_capacity(capacity);
        trainer.fit(&mut model, &data).expect("training succeeds")
    };
    let micros = |report: &Report| {
        let steps = (data.train.len() / 64) as f64;
        let seconds: Vec<f64> = report.epochs.iter().skip(1).map(|epoch| epoch.seconds).collect();
        1e6 * seconds.iter().sum::<f64>() / seconds.len() as f64 / steps
    };
    let folder = std::env::temp_dir().join(format!("dahl-tracing-{}", std::process::id()));
    let store = Store::at(&folder, Identity::new(&Hardware::detect(), "any"));
    let (mut on, mut off, mut learning) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..n_rounds {
        // Whoever comes second finds the machine as the first has left it.
        for is_on in [round % 2 == 0, round % 2 == 1] {
            let report = train(if is_on { 1 << 16 } else { 0 });
            (if is_on { &mut on } else { &mut off }).push(micros(&report));
            if is_on {
                let start = Instant::now();
                let mut models = Models::new();
                models.learn(&report.trace, RunId(round as u64), Date(round as u64));
                store.add(&models, Date(n_rounds as u64)).expect("a file can be written");
                learning.push(1e3 * start.elapsed().as_secs_f64());
            }
        }
    }
    let mut ratios: Vec<f64> = on.iter().zip(&off).map(|(on, off)| 100.0 * (on / off - 1.0)).collect();
    let [low, ratio, high] = quartiles(&mut ratios);
    let ([_, on, _], [_, off, _]) = (quartiles(&mut on), quartiles(&mut off));
    let _ = std::fs::remove_dir_all(&folder);
    println!(
        "{model} on {}: {n_rounds} rounds of {} images, {} workers",
        data.name,
        data.train.len(),
        machine.units.len()
    );
    println!("a step with trace {on:.1} us, without {off:.1} us");
    println!(
        "share of tracing, median of neighbours: {ratio:+.2} % (quartiles {low:+.2} % and {high:+.2} %)"
    );
    let [_, learning, _] = quartiles(&mut learning);
    println!("learning from the trace and writing it down, once per run: {learning:.1} ms");
    let n_tasks = train(0).plan.n_tasks as f64;
    let nanos = clock_nanos();
    let share = 100.0 * 2.0 * nanos * n_tasks / machine.units.len() as f64 / (1e3 * off);
    println!("share by the clock: two looks of {nanos:.1} ns for each of {n_tasks} tasks are {share:.2} %");
}

/// The quartiles of some values.
fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// What a look at the clock costs.
fn clock_nanos() -> f64 {
    const N_LOOKS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..N_LOOKS {
        black_box(ticks());
    }
    start.elapsed().as_nanos() as f64 / f64::from(N_LOOKS)
}
