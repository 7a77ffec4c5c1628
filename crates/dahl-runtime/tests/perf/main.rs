//! Performance models: what is learned from traces, how it is kept, and what is predicted from it.

#![cfg(not(feature = "shuttle"))]

mod choices;
mod learning;
mod merging;
mod prediction;
mod regression;
mod processes;
mod store;
#[path = "../turn/mod.rs"]
mod turn;

use dahl_runtime::perf::{Condition, Date, Key, Models, Run, RunId, Summary};

/// A key of a codelet with a footprint.
fn key(codelet: &str, footprint: &str) -> Key {
    Key {
        codelet: codelet.into(),
        implementation: "lanes".into(),
        algorithm: String::new(),
        version: 1,
        unit: "cpu".into(),
        dtype: "f32".into(),
        footprint: footprint.into(),
    }
}

const WARM: Condition = Condition { is_cold: false, workers: 1 };
const COLD: Condition = Condition { is_cold: true, workers: 1 };
const WARM_2: Condition = Condition { is_cold: false, workers: 2 };

/// Later than all runs of these tests.
const NOW: Date = Date(1_800_000_000_000_000_000);

/// A run of a hundred executions that all took as long.
fn run(id: u64, seconds: f64) -> Run {
    run_on(id, id, seconds)
}

fn run_on(id: u64, date: u64, seconds: f64) -> Run {
    Run {
        id: RunId(id),
        date: Date(date),
        summary: Summary::of(&[seconds; 100]).expect("a hundred executions"),
    }
}

/// Models that know one run of some keys.
fn models(runs: &[(&str, Condition, Run)]) -> Models {
    let mut models = Models::new();
    for (name, condition, run) in runs {
        models.add(key(name, "16x3"), 1e6, 4096, *condition, *run);
    }
    models
}
