//! `dahl machine`, `dahl completions` and `dahl --help`.

mod command;

use command::{Folder, command, json_lines, misuse, sentence, skipped, success};
use dahl_runtime::machine::MachineFile;
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn the_machine_is_described_in_words_and_for_programs() {
    let words = success(&["machine"]);
    for title in ["processor", "units", "caches", "memory", "instructions", "power"] {
        assert!(words.lines().any(|line| line.starts_with(title)), "{title} in {words}");
    }
    let lines = json_lines(&["machine"]);
    let [machine] = &lines[..] else { panic!("one object") };
    assert!(machine["units"].as_array().is_some_and(|units| !units.is_empty()), "{machine}");
    assert_eq!(machine["instruction_sets"][0], "plain");
    assert!(["measured", "modelled"].contains(&machine["energy"].as_str().unwrap_or_default()));
}

#[test]
fn what_is_measured_is_told_kept_and_written_as_a_machine_file() {
    let folder = Folder::new("measure");
    let run = |arguments: &[&str]| {
        command(arguments).env("DAHL_CACHE", folder.file("cache/below")).output().expect("dahl runs")
    };
    let text = |arguments: &[&str]| {
        let output = run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(text(&["machine"]).contains("nothing yet: dahl machine --measure"));
    let path = folder.file("this.machine");
    let words = text(&["machine", "--measure", "-o", &path]);
    for part in
        ["f32", "f64", "GFLOP/s on one core", "memory read", "memory triad", "tasks", "this.machine", "below"]
    {
        assert!(words.contains(part), "{part} in {words}");
    }
    let file = MachineFile::load(&path).expect("it can be read");
    let measured = file.measured.expect("it was measured");
    assert!(measured.flops_f32.one > 0.0 && measured.task_seconds.is_some(), "{measured:?}");
    assert_eq!(measured.bandwidths.last().expect("a level").level.name, "memory");
    assert!(!file.machine.units.is_empty() && !file.instructions.is_empty());

    // It was kept, and is said again without measuring.
    let json: Value = serde_json::from_str(&text(&["machine", "--json"])).expect("JSON");
    let found = json["measured"]["flops_per_second"]["f32"]["one"].as_f64().expect("a number");
    // What reads the JSON here may be off by a bit.
    assert!((found / measured.flops_f32.one - 1.0).abs() < 1e-12, "{found} {measured:?}");
    let kept = std::fs::read_dir(folder.file("cache/below")).expect("a folder").flatten();
    let kept: Vec<_> = kept.map(|entry| entry.path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    // What is damaged or newer is not believed, and the rest is said all the same.
    let damaged = std::fs::read_to_string(&kept[0]).expect("text").replacen("flops f32 ", "flops f32 9", 1);
    for (text, complaint) in [(damaged.as_str(), "not what was written"), ("dahl-machine 2\n", "version 2")] {
        std::fs::write(&kept[0], text).expect("written");
        for arguments in [&["machine"][..], &["machine", "--json"]] {
            let output = run(arguments);
            let told = sentence("a file that cannot be used", &output, 0);
            assert!(told.contains(complaint) && told.contains("--measure"), "{told}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("\"measured\":null") || said.contains("nothing yet"), "{said}");
        }
    }
}

#[test]
fn what_is_measured_is_not_lost_where_it_cannot_be_written() {
    let folder = Folder::new("measure-lost");
    let cache = folder.write("cache", "this is no folder");
    let run = |path: &str| {
        let arguments = ["machine", "--measure", "--json", "-o", path];
        let output = command(&arguments).env("DAHL_CACHE", &cache).output().expect("dahl runs");
        let json: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert!(
            json["measured"]["flops_per_second"]["f32"]["one"].as_f64().is_some_and(|x| x > 0.0),
            "{json}"
        );
        (output, json)
    };
    // What is kept is only a help for other commands.
    let path = folder.file("this.machine");
    let (output, json) = run(&path);
    let told = sentence("a cache that is no folder", &output, 0);
    assert!(told.contains("cache") && told.contains("--machine"), "{told}");
    assert_eq!(json["machine_file"], path.as_str());
    assert!(MachineFile::load(&path).expect("it can be read").measured.is_some());
    // A file that was asked for must be written.
    let (output, json) = run(&folder.file("no/folder/this.machine"));
    assert!(sentence("no such folder", &output, 1).contains("no/folder"));
    assert!(json["machine_file"].is_null(), "{json}");
}

#[test]
fn completions_are_scripts_that_know_all_commands() {
    let help = success(&["--help"]);
    let is_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(is_command);
    let commands: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"train") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = success(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{command} in the script for {shell}");
        }
    }
    misuse(&["completions", "tcsh"]);
}

#[test]
fn bash_understands_its_script() {
    let mut bash = match Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn() {
        Ok(bash) => bash,
        Err(error) => return skipped(format_args!("no bash ({error})")),
    };
    let script = success(&["completions", "bash"]);
    std::io::Write::write_all(&mut bash.stdin.take().expect("a pipe"), script.as_bytes()).expect("written");
    assert!(bash.wait().expect("ended").success());
}

#[test]
fn exit_codes_are_documented() {
    let help = success(&["--help"]);
    assert!(help.contains("Exit codes:") && help.contains("130"), "{help}");
    misuse(&["no-such-command"]);
    misuse(&["train", "--no-such-argument"]);
}
