//! `dahl train` writes plans and executes them.

mod command;

use command::command;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn train(arguments: &[&str]) -> Output {
    let mut command = command(&["train", "--limit", "200", "--epochs", "2", "--workers", "2"]);
    command.args(arguments).output().expect("dahl runs")
}

/// The JSON lines of a run, without what differs from run to run.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = train(&[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = |line: &str| {
        let mut value: Value = serde_json::from_str(line).expect("JSON");
        let measured = [
            "images_per_s",
            "seconds",
            "peak_bytes",
            "stall",
            "reading",
            "median_step_us",
            "overhead",
            "median_overhead",
            "busy_cores",
        ];
        value.as_object_mut().expect("an object").retain(|key, _| !measured.contains(&key.as_str()));
        if let Some(summary) = value["summary"].as_object_mut() {
            let startup = summary.remove("startup").expect("what passed before the first step");
            let all = startup["seconds"].as_f64().expect("a step");
            let parts = ["read", "plan", "first_step"].map(|part| startup[part].as_f64().expect("a time"));
            assert!(parts.iter().all(|&part| part > 0.0) && parts.iter().sum::<f64>() <= all, "{startup}");
        }
        value
    };
    text.lines().map(line).collect()
}

#[test]
fn a_saved_plan_is_executed_and_an_edited_one_has_another_hash() {
    let path = std::env::temp_dir().join(format!("dahl-cli-{}.plan", std::process::id()));
    let file = path.to_str().expect("a path in UTF-8");
    let original = lines(&["--save-plan", file]);
    assert_eq!(lines(&["--plan", file]), original);
    let hash = |lines: &[Value]| lines[lines.len() - 1]["summary"]["plan_hash"].as_str().map(str::to_string);
    let text = std::fs::read_to_string(&path).expect("saved");
    assert!(text.contains(&format!("hash {}", hash(&original).expect("a hash"))));

    // Without floating tasks the plan is another one, and the bits are the same.
    std::fs::write(&path, text.replace(" floating", "")).expect("written");
    let edited = lines(&["--plan", file]);
    assert_ne!(hash(&edited), hash(&original));
    assert_eq!(edited[..2], original[..2]);
    let human = String::from_utf8(train(&["--plan", file]).stdout).expect("text");
    assert!(human.contains("was edited") && human.contains(&hash(&edited).expect("a hash")), "{human}");

    std::fs::write(&path, text.replacen(" on 1", " on 9", 1)).expect("written");
    let refused = train(&["--plan", file]);
    std::fs::remove_file(&path).expect("removed");
    let sentence = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && sentence.contains(file), "{sentence}");
    assert!(sentence.contains(", line ") && sentence.contains("there is no unit 9"), "{sentence}");
    let missing = train(&["--plan", file]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read the plan"));
    assert!(!Path::new(file).exists());
}
