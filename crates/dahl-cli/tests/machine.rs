//! `dahl machine`, `dahl completions` and `dahl --help`.

mod command;

use command::{json_lines, misuse, success};
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
