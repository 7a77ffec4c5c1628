//! The losses, gradients and final weights of `seed` on the digits, against PyTorch's in f64.
//!
//! The golden file holds initial weights, batches and results; `scripts/golden_seed.py` makes it.

use dahl::dataset;
use dahl::model::Sequential;
use dahl::train::{Schedule, StepDump};
use dahl::{Result, Trainer};
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::CutOptions;
use safetensors::SafeTensors;

struct Golden {
    initial: Vec<f64>,
    batches: Vec<Vec<u32>>,
    learning_rate: f64,
    losses: Vec<f64>,
    gradients: Vec<f64>,
    last: Vec<f64>,
}

fn golden(model: &Sequential) -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/seed_digits_f64.safetensors");
    let bytes = std::fs::read(path).expect("the golden file is in the repository");
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
    golden: &Golden,
    dtype: Dtype,
    implementation: &str,
    schedule: Schedule,
) -> Result<(StepDump, Vec<f64>)> {
    let data = dataset::digits();
    let mut model = Sequential::seed([1, 8, 8], 10);
    model.set_weights(golden.initial.clone())?;
    let cut = CutOptions { implementations: vec![implementation.into()], ..CutOptions::default() };
    let trainer = Trainer::new(&Machine::with_workers(2)).sgd(golden.learning_rate).dtype(dtype);
    let dump = trainer.cut(cut).schedule(schedule).replay_batches(&mut model, &data, &golden.batches)?;
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

#[test]
fn two_hundred_steps_in_f64_equal_pytorch() {
    let golden = golden(&Sequential::seed([1, 8, 8], 10));
    assert_eq!(golden.losses.len(), 200);
    for implementation in ["reference", "lanes"] {
        for schedule in [Schedule::Replay, Schedule::Eager] {
            let (dump, weights) =
                train(&golden, Dtype::F64, implementation, schedule).expect("training works");
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
fn two_hundred_steps_in_f32_stay_close_to_pytorch() {
    let golden = golden(&Sequential::seed([1, 8, 8], 10));
    for implementation in ["reference", "lanes"] {
        let (dump, _) = train(&golden, Dtype::F32, implementation, Schedule::Replay).expect("training works");
        let loss = worst_relative(&dump.losses, &golden.losses);
        println!("{implementation}: loss {loss:.1e}");
        assert!(loss < 1e-4, "losses differ by {loss:e}");
    }
}
