//! `dahl bench`, alone and beside something that pretends to be PyTorch.

#[path = "../command/mod.rs"]
mod command;

use command::{Folder, command, failure, json_lines, misuse, sentence, success};
use serde_json::Value;
use std::process::{Command, Output};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/fake_torch.sh");

const TINY: [&str; 10] =
    ["bench", "--model", "seed", "--workers", "1", "--rounds", "2", "--seconds", "0.001", "--patience=60"];

/// A comparison with the fake, which is told what is to go wrong.
fn fake(arguments: &[&str], wrong: &str) -> Output {
    let all = [&TINY[..], &["--batch", "3", "--against", "torch", "--python", FAKE], arguments].concat();
    command(&all).env("FAKE", wrong).output().expect("dahl runs")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn every_case_is_an_object_with_sane_numbers() {
    let lines = json_lines(&[&TINY[..], &["--batch", "3,17", "--dtype", "f32,f64"]].concat());
    assert_eq!(lines.len(), 4);
    for (line, (batch, dtype)) in lines.iter().zip([(3, "f32"), (3, "f64"), (17, "f32"), (17, "f64")]) {
        assert_eq!((&line["model"], &line["batch"]), (&"seed".into(), &batch.into()), "{line}");
        assert_eq!((&line["dtype"], &line["workers"]), (&dtype.into(), &1.into()), "{line}");
        assert_eq!(number(&line["flops_per_step"]), f64::from(batch) * 275_808.0);
        let dahl = &line["dahl"];
        let rounds = dahl["rounds_us"].as_array().expect("rounds");
        assert!(rounds.len() == 2 && rounds.iter().all(|us| number(us) > 0.0), "{line}");
        let rate = f64::from(batch) / number(&dahl["step_us"]) * 1e6;
        assert!((number(&dahl["images_per_s"]) / rate - 1.0).abs() < 1e-9, "{line}");
        assert!(number(&dahl["mean_images_per_s"]) > 0.0);
        if cfg!(target_os = "linux") {
            let memory = &dahl["memory"];
            let bytes = |key: &str| number(&memory[key]);
            assert!(
                bytes("peak_bytes") >= bytes("ready_bytes") && bytes("ready_bytes") >= bytes("data_bytes")
            );
            assert_eq!(bytes("whole_bytes"), bytes("peak_bytes") - bytes("data_bytes"));
            assert_eq!(bytes("training_bytes"), bytes("peak_bytes") - bytes("ready_bytes"));
        }
        assert!(line["torch"].as_array().is_some_and(Vec::is_empty));
    }
}

#[test]
fn floors_are_those_of_the_measured_machine() {
    let folder = Folder::new("bench-floors");
    let run = |arguments: &[&str]| -> String {
        let output = command(arguments).env("DAHL_CACHE", folder.file("cache")).output().expect("dahl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let bench = [&TINY[..], &["--batch", "5"]].concat();
    let text = run(&bench);
    assert!(text.contains("dahl machine --measure") && text.contains("images/s"), "{text}");
    run(&["machine", "--measure"]);
    let line: Value = serde_json::from_str(&run(&[&bench[..], &["--json"]].concat())).expect("JSON");
    let (floor, dahl) = (&line["floor"], &line["dahl"]);
    let flop_us = 1e6 * number(&line["flops_per_step"]) / number(&floor["flops_per_second"]);
    assert!((number(&floor["flop_us"]) / flop_us - 1.0).abs() < 1e-9, "{line}");
    assert!(number(&floor["byte_us"]) > 0.0);
    assert!(
        (number(&dahl["peak_fraction"]) * number(&dahl["step_us"]) / flop_us - 1.0).abs() < 1e-9,
        "{line}"
    );
    let text = run(&bench);
    assert!(text.contains("by plain arithmetic") && !text.contains("dahl machine --measure"), "{text}");
}

#[test]
fn rivals_take_turns_and_the_best_of_them_counts() {
    let output = fake(&["--modes", "eager,compile", "--json"], "");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_str(text.trim()).expect("one line");
    let rivals = line["torch"].as_array().expect("rivals");
    let named =
        |name: &str| rivals.iter().find(|rival| rival["name"] == name).unwrap_or_else(|| panic!("{line}"));
    assert_eq!(named("eager")["rounds_us"], serde_json::json!([2e6, 2e6]));
    assert_eq!(named("eager")["memory"]["whole_bytes"], 8000);
    assert_eq!(named("eager")["memory"]["training_bytes"], 3000);
    assert_eq!(named("compile")["error"], "there is no C++ compiler");
    let (best, seconds) = if cfg!(target_os = "linux") { ("eager +malloc", 1.0) } else { ("eager", 2.0) };
    let against = &line["against_torch"][0];
    assert_eq!((&against["best"], &against["device"]), (&best.into(), &"cpu".into()));
    let ratio = number(&against["ratio"]);
    let quartiles = [&against["ratio_quartiles"][0], &against["ratio_quartiles"][1]].map(number);
    assert!(quartiles[0] <= ratio && ratio <= quartiles[1], "{line}");
    // Of two rounds, the ratio is the mean of both.
    let steps = line["dahl"]["rounds_us"].as_array().expect("rounds");
    let expected = steps.iter().map(|us| 1e6 * seconds / number(us)).sum::<f64>() / 2.0;
    assert!((ratio / expected - 1.0).abs() < 1e-9, "{line}");

    let output = fake(&[], "");
    let text = String::from_utf8(output.stdout).expect("text");
    for expected in
        [best, "times as fast as PyTorch's best", "compile could not be measured: there is no C++ compiler"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn what_was_disturbed_is_marked() {
    let output = fake(&["--modes", "eager"], "disturbed");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("): disturbed\n") && text.contains("in 2 of 2 rounds"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("seed ") && line.ends_with("disturbed")), "{text}");
    let output = fake(&["--modes", "eager", "--json"], "disturbed");
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line");
    assert_eq!(line["disturbed_rounds"], 2, "{line}");
    // As many rounds as were asked for, however many there were.
    assert_eq!(line["torch"][0]["rounds_us"], serde_json::json!([2e6, 2e6]));
}

#[test]
fn a_rival_that_cannot_be_measured_is_a_sentence() {
    let text = sentence("no torch", &fake(&[], "missing"), 1);
    assert!(text.contains("No module named 'torch'") && text.contains("--python"), "{text}");
    let text = sentence("dying", &fake(&["--modes", "eager,channels-last"], "dying"), 1);
    assert!(text.contains("in any mode") && text.contains("out of memory"), "{text}");
    let text = sentence("compile alone", &fake(&["--modes", "compile"], ""), 1);
    assert!(text.contains("C++ compiler"), "{text}");
    let python = "/usr/bin/python3";
    let has_torch =
        Command::new(python).args(["-c", "import torch"]).output().map(|output| output.status.success());
    match has_torch {
        Ok(false) => {
            let text = failure(&[&TINY[..], &["--against", "torch", "--python", python]].concat());
            assert!(text.contains("has no PyTorch"), "{text}");
        }
        Ok(true) | Err(_) => command::skipped("no Python without torch"),
    }
}

#[test]
fn mistakes_are_sentences() {
    assert!(misuse(&["bench", "--workers", "4000"]).contains("at most"));
    assert!(misuse(&["bench", "--rounds", "0"]).contains("rounds"));
    assert!(misuse(&["bench", "--python", "python3"]).contains("--against"));
    let torch = [&TINY[..], &["--against", "torch"]].concat();
    assert!(misuse(&[&torch[..], &["--modes", "cuda-graph"]].concat()).contains("--torch-device cuda"));
    assert!(failure(&[&torch[..], &["--python", "no/such/python"]].concat()).contains("no/such/python"));
    assert!(misuse(&["bench", "--model", "nothing"]).contains("nothing"));
    let folder = Folder::new("bench-mistakes");
    let model = folder.write("mine.toml", success(&["model", "lenet5", "--input", "1x28x28", "--toml"]));
    let text = failure(&["bench", "--model", &model, "--against", "torch", "--python", FAKE]);
    assert!(text.contains("mine.toml") && text.contains("lenet5"), "{text}");
    // Alone, a file is as good as a name.
    let arguments =
        ["bench", "--model", &model, "--batch", "2", "--workers", "1", "--rounds", "1", "--seconds", "0.001"];
    assert_eq!(json_lines(&arguments)[0]["input"], serde_json::json!([1, 28, 28]));
}
