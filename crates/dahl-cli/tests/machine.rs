//! `dahl machine`, `dahl completions` and `dahl --help`.

mod command;

use command::{Folder, command, json_lines, misuse, sentence, success};
use dahl_runtime::machine::MachineFile;
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
    assert_eq!(measured.bandwidths.last().expect("a place").place.name, "memory");
    assert!(!file.machine.units.is_empty() && !file.instructions.is_empty());

    // It was kept, and is said again without measuring.
    let json: serde_json::Value = serde_json::from_str(&text(&["machine", "--json"])).expect("JSON");
    assert_eq!(json["measured"]["flops_per_second"]["f32"]["one"], measured.flops_f32.one);
    let kept = std::fs::read_dir(folder.file("cache/below")).expect("a folder").flatten();
    let kept: Vec<_> = kept.map(|entry| entry.path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    // What is damaged is not believed.
    let damaged = std::fs::read_to_string(&kept[0]).expect("text").replacen("flops f32 ", "flops f32 9", 1);
    std::fs::write(&kept[0], damaged).expect("written");
    let complaint = sentence("a damaged file", &run(&["machine"]), 1);
    assert!(complaint.contains("not what was written") && complaint.contains("--measure"), "{complaint}");
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
        Err(error) => return eprintln!("skipped: no bash ({error})"),
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
