//! `dahl train --trace` and `dahl trace`, as a user calls them.

mod command;

use command::{Folder, dahl};
use std::path::Path;

fn success(args: &[&str]) -> Vec<u8> {
    let output = dahl(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn failure(args: &[&str]) -> String {
    let output = dahl(args);
    assert!(!output.status.success(), "{args:?} should fail");
    String::from_utf8(output.stderr).unwrap()
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(path)).unwrap()
}

#[test]
fn a_saved_trace_is_described_and_converted_to_what_training_would_have_saved() {
    let folder = Folder::new("convert");
    let saved = folder.file("run.json");
    success(&["train", "--epochs", "1", "--workers", "2", "--watchdog", "60", "--trace", &saved]);
    let summary = String::from_utf8(success(&["trace", &saved])).unwrap();
    assert!(
        summary.contains("executions of 39 tasks on 2 workers") && summary.contains("in kernels"),
        "{summary}"
    );

    let json: serde_json::Value = serde_json::from_slice(&success(&["trace", &saved, "--json"])).unwrap();
    assert_eq!((&json["tasks"], &json["workers"]), (&39.into(), &2.into()), "{json}");
    let beginning = format!("{} executions", json["events"]);
    assert!(summary.starts_with(&beginning) && json["dropped"].is_number(), "{beginning} in {summary}");
    let idle = json["idle_seconds"].as_object().unwrap();
    let expected = ["dependency", "memory_edge", "not_released", "nothing_ready", "overhead", "transfer"];
    let mut names: Vec<&String> = idle.keys().collect();
    names.sort();
    assert_eq!(names, expected);
    assert!(idle.values().all(|seconds| seconds.as_f64().unwrap() >= 0.0), "{json}");
    let milliseconds = format!("{:.3} ms", 1e3 * json["kernel_seconds"].as_f64().unwrap());
    assert!(summary.contains(&milliseconds), "{milliseconds} in {summary}");

    for (format, ending, beginning) in [
        ("perfetto", "pftrace", &b"\x0a"[..]),
        ("paje", "trace", b"%EventDef PajeDefineContainerType 0\n"),
        ("dot", "dot", b"// Filled by codelet"),
        ("html", "html", b"<!DOCTYPE html>\n"),
        ("json", "json", b"[\"dahl-trace\",3]\n"),
    ] {
        let (named, ended) = (folder.file("named"), folder.file(&format!("ended.{ending}")));
        success(&["trace", &saved, "--to", format, "-o", &named]);
        success(&["trace", &saved, "-o", &ended]);
        let printed = success(&["trace", &saved, "--to", format]);
        assert!(printed.starts_with(beginning), "{format}");
        assert_eq!(read(&named), printed);
        assert_eq!(read(&ended), printed);
    }
    assert_eq!(read(&folder.file("named")), read(&saved), "what is loaded is saved as it was");
    let trained = folder.file("run.perfetto");
    success(&["train", "--epochs", "1", "--schedule", "eager", "--trace", &trained]);
    assert!(read(&trained).starts_with(b"\x0a"));
}

#[test]
fn mistakes_are_sentences() {
    let folder = Folder::new("mistakes");
    for arguments in [&["train", "--trace", "run.txt"][..], &["trace", "run.json", "-o", "run.txt"]] {
        let text = command::misuse(arguments);
        assert!(text.contains("run.txt") && text.contains(".perfetto or .pftrace (perfetto)"), "{text}");
        assert!(text.contains(".json (json)"), "{text}");
    }
    let text = failure(&["train", "--watchdog", "-1"]);
    assert!(text.contains("--watchdog"), "{text}");
    let text = failure(&["trace", &folder.file("nothing.json")]);
    assert!(text.contains("nothing.json"), "{text}");
    let old = folder.file("old.json");
    std::fs::write(&old, "[\"dahl-trace\",99]\n").unwrap();
    let text = failure(&["trace", &old, "--to", "dot"]);
    assert!(text.contains("version 99") && text.contains("versions 2 to 3"), "{text}");
    let saved = folder.file("run.json");
    success(&["train", "--epochs", "1", "--trace", &saved]);
    let text = failure(&["trace", &saved, "-o", &saved]);
    assert!(text.contains("overwritten with itself"), "{text}");
    let text = failure(&["trace", &saved, "-o", &folder.file("no/such/folder/run.dot")]);
    assert!(text.contains("no/such/folder/run.dot") && text.contains("create it"), "{text}");
    let text = failure(&["trace", &saved, "--json", "--to", "dot"]);
    assert!(text.contains("cannot be used with"), "{text}");
}
