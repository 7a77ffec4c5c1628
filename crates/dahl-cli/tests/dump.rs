//! `--init`, `--batches` and `--dump`, and that workers and schedules change no bit.

mod command;

use command::{Folder, failure, json_lines, success};
use dahl::tensors::{Dtype, Tensor, Tensors};
use serde_json::Value;

/// The losses of a dump, to the last bit, which readers of JSON do not promise.
fn losses(folder: &Folder, name: &str) -> Vec<f64> {
    let text = String::from_utf8(folder.read(name)).expect("text");
    let _: Value = serde_json::from_str(&text).expect("JSON");
    let numbers = text.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    numbers.map(|number| number.parse().expect("a number")).collect()
}

fn load(folder: &Folder, name: &str) -> Tensors {
    Tensors::load(folder.0.join(name)).expect("tensors")
}

#[test]
fn workers_and_schedules_do_not_change_the_weights() {
    let folder = Folder::new("workers");
    let mut first = None;
    for (name, arguments) in [
        ("1", &["--workers", "1"][..]),
        ("2", &["--workers", "2"]),
        ("4", &["--workers", "4"]),
        ("steal", &["--workers", "3", "--schedule", "steal"]),
        ("unit", &["--workers", "2", "--test-unit"]),
    ] {
        success(&[&["train", "--dump", &folder.file(name), "--epochs", "10"], arguments].concat());
        let files = ["final.safetensors", "step1.safetensors", "losses.json"]
            .map(|file| folder.read(&format!("{name}/{file}")));
        let first = first.get_or_insert_with(|| files.clone());
        assert!(*first == files, "{name} workers differ");
    }
}

#[test]
fn a_dump_holds_what_another_program_needs_to_compare() {
    let folder = Folder::new("dump");
    let arguments = ["train", "--dtype", "f64", "--batch", "7", "--steps", "3", "--dump", &folder.file("a")];
    success(&arguments);
    let losses = losses(&folder, "a/losses.json");
    assert_eq!(losses.len(), 3);
    let step = load(&folder, "a/step1.safetensors");
    let names: Vec<&str> = step.names().collect();
    assert_eq!(
        names,
        ["grad.conv1.bias", "grad.conv1.weight", "grad.fc1.bias", "grad.fc1.weight", "logits", "loss"]
    );
    let shape = |name: &str| step.get(name).map(|tensor| (tensor.shape().to_vec(), tensor.dtype()));
    assert_eq!(shape("logits"), Some((vec![7, 10], Dtype::F64)));
    assert_eq!(shape("grad.conv1.weight"), Some((vec![8, 1, 3, 3], Dtype::F64)));
    assert_eq!(step.get("loss").and_then(|loss| loss.get::<f64>()), Some(&losses[..1]));
    let last = load(&folder, "a/final.safetensors");
    assert_eq!(last.names().collect::<Vec<_>>(), ["conv1.bias", "conv1.weight", "fc1.bias", "fc1.weight"]);
    // What is left of an earlier dump goes: a run that goes on has no first step, and its own losses only.
    let saved = folder.file("run");
    success(&["train", "--steps", "2", "--checkpoint", &saved]);
    success(&["train", "--steps", "2", "--dump", &folder.file("c")]);
    assert!(folder.0.join("c/step1.safetensors").exists());
    success(&["train", "--resume", &saved, "--steps", "3", "--dump", &folder.file("c")]);
    assert!(!folder.0.join("c/step1.safetensors").exists());
    assert_eq!(self::losses(&folder, "c/losses.json").len(), 1);
    // Going on from there is not going on from the beginning.
    let weights = folder.file("a/final.safetensors");
    success(&[&arguments[..8], &[&folder.file("b"), "--init", &weights]].concat());
    assert_ne!(folder.read("b/losses.json"), folder.read("a/losses.json"));
}

#[test]
fn given_batches_are_replayed() {
    let folder = Folder::new("batches");
    let indices = |rows: &[[i64; 4]]| {
        let mut tensors = Tensors::new();
        tensors.insert("indices", Tensor::new(&[rows.len(), 4], rows.concat()).expect("fits"));
        tensors.save(folder.0.join("b.safetensors")).expect("saved");
        folder.file("b.safetensors")
    };
    let path = indices(&[[0, 1, 2, 3], [1500, 0, 0, 7], [5, 6, 7, 8]]);
    let lines = json_lines(&["train", "--batches", &path, "--dump", &folder.file("all"), "--dtype", "f64"]);
    let summary = &lines[lines.len() - 1]["summary"];
    assert_eq!(summary["steps"], 3);
    assert_eq!(losses(&folder, "all/losses.json").len(), 3);
    assert_eq!(
        load(&folder, "all/step1.safetensors").get("logits").map(|logits| logits.shape().to_vec()),
        Some(vec![4, 10])
    );

    // The first two of them, then the last from the weights after those: the same weights in the end.
    success(&["train", "--batches", &path, "--steps", "2", "--dump", &folder.file("two"), "--dtype", "f64"]);
    let last = indices(&[[5, 6, 7, 8]]);
    let weights = folder.file("two/final.safetensors");
    success(&[
        "train",
        "--batches",
        &last,
        "--init",
        &weights,
        "--dump",
        &folder.file("last"),
        "--dtype",
        "f64",
    ]);
    assert_eq!(folder.read("last/final.safetensors"), folder.read("all/final.safetensors"));

    let path = indices(&[[0, 1, 2, 1501]]);
    assert!(failure(&["train", "--batches", &path]).contains("1501"));
    let path = indices(&[[0, 1, 2, -1]]);
    assert!(failure(&["train", "--batches", &path]).contains("-1"));
}
