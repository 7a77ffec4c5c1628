//! The losses, gradients and final weights of `seed`, against PyTorch's in f64.
//!
//! A golden file holds initial weights, batches and results; `scripts/golden_seed.py` makes it. The one for the
//! digits is in the repository. `.ci/full` makes one for Fashion-MNIST, which is looked at when it is there.

use dahl::dataset::{self, Dataset};
use dahl::model::Sequential;
use dahl::train::{Schedule, StepDump};
use dahl::{Result, Trainer};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::CutOptions;
use safetensors::SafeTensors;
use std::io::Write;
use std::path::Path;

struct Golden {
    initial: Vec<f64>,
    batches: Vec<Vec<u32>>,
    learning_rate: f64,
    losses: Vec<f64>,
    gradients: Vec<f64>,
    last: Vec<f64>,
}

fn digits() -> (Golden, Dataset) {
    let data = dataset::digits();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/seed_digits_f64.safetensors");
    (golden(&path, &data), data)
}

fn golden(path: &Path, data: &Dataset) -> Golden {
    let model = Sequential::seed(data.shape, data.classes);
    let bytes = std::fs::read(path).expect("the golden file is there");
    let tensors = SafeTensors::deserialize(&bytes).expect("the golden file is readable");
    let words = |name: &str| -> Vec<[u8; 8]> {
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        tensor.data().chunks_exact(8).map(|word| word.try_into().expect("8 bytes")).collect()
    };
    let floats = |name: &str| -> Vec<f64> { words(name).into_iter().map(f64::from_le_bytes).collect() };
    let flat = |prefix: &str| -> Vec<f64> {
        let parameters = model.parameters().expect("the model is sound");
        parameters.iter().flat_map(|p| floats(&format!("{prefix}.{}", p.name))).collect()
    };
    let steps = tensors.tensor("indices").expect("the batches are there").shape()[0];
    let indices: Vec<u32> =
        words("indices").into_iter().map(|word| i64::from_le_bytes(word) as u32).collect();
    Golden {
        initial: flat("init"),
        batches: indices.chunks(indices.len() / steps).map(<[u32]>::to_vec).collect(),
        learning_rate: floats("lr")[0],
        losses: floats("losses"),
        gradients: flat("grad"),
        last: flat("final"),
    }
}

fn train(
    (golden, data): (&Golden, &Dataset),
    dtype: Dtype,
    implementation: &str,
    schedule: Schedule,
) -> Result<(StepDump, Vec<f64>)> {
    let mut model = Sequential::seed(data.shape, data.classes);
    model.set_weights(golden.initial.clone())?;
    let cut = CutOptions { implementations: vec![implementation.into()], ..CutOptions::default() };
    let trainer = Trainer::new(&Machine::with_workers(2)).sgd(golden.learning_rate).dtype(dtype);
    let dump = trainer.cut(cut).schedule(schedule).replay_batches(&mut model, data, &golden.batches)?;
    let weights = model.weights().expect("trained").to_vec();
    Ok((dump, weights))
}

fn worst_relative(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / b.abs().max(1e-12)).fold(0.0, f64::max)
}

/// The largest difference, relative to the largest element.
fn worst_scaled(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let scale = theirs.iter().fold(0.0_f64, |max, v| max.max(v.abs()));
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max)
}

fn check_f64(golden: &Golden, data: &Dataset, implementations: &[&str]) {
    let steps = golden.losses.len();
    assert!(steps >= 200, "{steps} steps");
    for implementation in implementations {
        for schedule in Schedule::ALL {
            let (dump, weights) =
                train((golden, data), Dtype::F64, implementation, schedule).expect("training works");
            let loss = worst_relative(&dump.losses, &golden.losses);
            let gradient = worst_scaled(&dump.gradients, &golden.gradients);
            let weight = worst_scaled(&weights, &golden.last);
            println!(
                "{implementation} {schedule:?}: loss {loss:.1e} gradient {gradient:.1e} weights {weight:.1e}"
            );
            assert!(loss < 1e-9, "losses differ by {loss:e}");
            assert!(gradient < 1e-12, "first gradients differ by {gradient:e}");
            assert!(weight < 1e-9, "final weights differ by {weight:e}");
        }
    }
}

#[test]
fn two_hundred_steps_on_the_digits_equal_pytorch_in_f64() {
    let (golden, data) = digits();
    check_f64(&golden, &data, &["reference", "lanes"]);
}

#[test]
fn two_hundred_steps_on_fashion_mnist_equal_pytorch_in_f64() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/golden");
    let path = folder.join("seed_fashion_f64.safetensors");
    if !path.exists() {
        // Written past the test harness, which would hide it.
        let _ = writeln!(std::io::stderr(), "skipped: no {}; .ci/full makes it", path.display());
        return;
    }
    let data = dataset::idx(folder.join("fashion-mnist")).expect("the data is beside the golden file");
    check_f64(&golden(&path, &data), &data, &["lanes"]);
}

#[test]
fn two_hundred_steps_on_the_digits_stay_close_to_pytorch_in_f32() {
    let (golden, data) = digits();
    for implementation in ["reference", "lanes"] {
        let (dump, _) =
            train((&golden, &data), Dtype::F32, implementation, Schedule::Replay).expect("training works");
        let loss = worst_relative(&dump.losses, &golden.losses);
        println!("{implementation}: loss {loss:.1e}");
        assert!(loss < 1e-4, "losses differ by {loss:e}");
    }
}
