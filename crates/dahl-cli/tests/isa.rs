//! Whole runs give the same bits whichever instructions compute them.

mod command;

use command::{Folder, misuse, skipped, success};
use dahl::op::simd::Isa;
use dahl::tensors::Tensors;
use dahl::train::Checkpoint;

/// The built-in models on images of a size that each can take.
const RUNS: [[&str; 2]; 5] = [
    ["seed", "digits"],
    ["mlp", "digits"],
    ["vggish", "digits"],
    ["resnet8", "digits"],
    ["lenet5", "synthetic:1x28x28:300"],
];

/// Everything that an epoch has changed: weights, statistics, velocities.
fn trained(folder: &Folder, [model, data]: [&str; 2], dtype: &str, isa: Isa) -> Tensors {
    let saved = folder.file(&format!("{model}-{dtype}-{isa}"));
    let run = ["train", "--model", model, "--data", data, "--dtype", dtype, "--isa", &isa.to_string()];
    let rest =
        ["--limit", "300", "--epochs", "1", "--momentum", "0.9", "--workers", "2", "--checkpoint", &saved];
    success(&[&run[..], &rest].concat());
    Checkpoint::load(&saved).expect("saved").checkpoint.tensors
}

/// Bits but for the sign of zeros: a kernel may put zeros in or leave them out, which may turn it.
fn bits(tensors: &Tensors) -> Vec<(&str, Vec<u64>)> {
    let bits = |value: &f64| if *value == 0.0 { 0 } else { value.to_bits() };
    tensors
        .iter()
        .map(|(name, tensor)| (name, tensor.to_f64().expect("real").iter().map(bits).collect()))
        .collect()
}

#[test]
fn runs_give_the_same_bits_on_every_instruction_set() {
    let folder = Folder::new("isa");
    let available = Isa::available();
    if available.len() < 3 {
        skipped(format!("this processor has {available:?} only"));
    }
    for run in RUNS {
        for dtype in ["f32", "f64"] {
            let plain = trained(&folder, run, dtype, available[0]);
            assert!(plain.len() > 1 && plain.iter().all(|(_, tensor)| !tensor.is_empty()), "{run:?}");
            for &isa in &available[1..] {
                let other = trained(&folder, run, dtype, isa);
                for ((name, expected), (_, found)) in bits(&plain).into_iter().zip(bits(&other)) {
                    assert!(
                        found == expected,
                        "{name} of {run:?} in {dtype} differs between plain and {isa}"
                    );
                }
                assert!(plain.names().eq(other.names()));
            }
        }
    }
}

#[test]
fn an_instruction_set_that_is_not_there_is_refused() {
    let sentence = misuse(&["train", "--isa", "neon"]);
    assert!(sentence.contains("no instruction set 'neon'") && sentence.contains("plain"), "{sentence}");
    assert!(!success(&["train", "--help"]).contains("--isa"), "it is for tests");
}
