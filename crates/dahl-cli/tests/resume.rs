//! Checkpoints: interrupted, killed, damaged and continued, to the same bits.

#![cfg(unix)]

mod command;

use command::{Folder, command, failure, json_lines, sentence, success};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Runs with everything that a checkpoint must hold: moments, dropout, a schedule over the whole run, a small
/// last batch.
const RUNS: [&str; 2] = [
    "--model mlp --optimizer adamw --lr-schedule cosine --warmup 10 --epochs 6",
    "--optimizer sgd --momentum 0.9 --weight-decay 0.001 --batch 50 --epochs 6",
];

fn has_checkpoint(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("step-"))
}

/// Starts a run, or goes on with it if it has saved anything.
fn start(folder: &Folder, run: &[&str]) -> Child {
    let (saved, dump) = (folder.file("run"), folder.file("dump"));
    let arguments = match has_checkpoint(Path::new(&saved)) {
        true => vec!["train", "--resume", &saved, "--dump", &dump],
        false => {
            [&["train", "--checkpoint", &saved, "--checkpoint-every", "3", "--dump", &dump], run].concat()
        }
    };
    command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

/// What runs are ended by: mostly what nobody can listen to.
const SIGNALS: [&str; 6] = ["KILL", "KILL", "TERM", "KILL", "HUP", "KILL"];

/// Ends a run `n` times at random moments, by several signals, and then lets it end; starts over if it ends
/// before.
fn kill_and_go_on(name: &str, run: &[&str], n: usize) {
    let folder = Folder::new(name);
    let begin = Instant::now();
    success(
        &[
            &[
                "train",
                "--checkpoint",
                &folder.file("whole"),
                "--checkpoint-every",
                "3",
                "--dump",
                &folder.file("expected"),
            ],
            run,
        ]
        .concat(),
    );
    let whole = begin.elapsed();
    // Any moments will do, and the same ones never come again anyway.
    let mut state = begin.elapsed().subsec_nanos() as u64;
    let mut kills = 0;
    loop {
        let child = start(&folder, run);
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let pause = whole.mul_f64((state >> 40) as f64 / (1 << 24) as f64 * 0.6);
        if kills < n {
            std::thread::sleep(pause);
            send(&child, SIGNALS[(state >> 20) as usize % SIGNALS.len()]);
        }
        let output = child.wait_with_output().expect("ended");
        match output.status.code() {
            // 130: it was asked to stop when it listened already, and saved.
            None | Some(130) => kills += 1,
            Some(0) if kills < n => std::fs::remove_dir_all(folder.file("run")).expect("removed"),
            Some(0) => break,
            Some(_) => panic!("after {kills} kills: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    assert!(
        folder.read("dump/final.safetensors") == folder.read("expected/final.safetensors"),
        "other bits after {n} kills"
    );
}

#[test]
fn a_killed_run_goes_on_to_the_same_bits() {
    for (i, run) in RUNS.iter().enumerate() {
        kill_and_go_on(&format!("killed-{i}"), &run.split(' ').collect::<Vec<_>>(), 3);
    }
}

#[test]
#[ignore = "takes long: .ci/full runs it"]
fn a_run_that_is_killed_again_and_again_goes_on_to_the_same_bits() {
    for (i, run) in RUNS.iter().enumerate() {
        kill_and_go_on(&format!("again-{i}"), &run.split(' ').collect::<Vec<_>>(), 25);
    }
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let folder = Folder::new("interrupted");
    let (saved, dump) = (folder.file("run"), folder.file("dump"));
    let run = ["--epochs", "4000", "--steps", "90000"];
    let child = command(&[&["train", "--checkpoint", &saved], &run[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    wait_for(|| has_checkpoint(Path::new(&saved)));
    interrupt(&child);
    let output = child.wait_with_output().expect("ended");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(&format!("dahl train --resume {saved}")), "{text}");
    // It goes on with its settings, except for what is said anew: two steps more than there were.
    let lines = json_lines(&["eval", &saved]);
    let steps = lines[0]["steps"].as_u64().expect("a number") + 2;
    let whole = folder.file("whole");
    success(&["train", "--resume", &saved, "--steps", &steps.to_string(), "--dump", &dump]);
    success(&["train", "--epochs", "4000", "--steps", &steps.to_string(), "--dump", &whole]);
    assert!(folder.read("dump/final.safetensors") == folder.read("whole/final.safetensors"));
}

/// Whether this process ignores a signal, which those that it starts then do, too.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[test]
fn what_batch_systems_send_saves_like_ctrl_c() {
    // The number of SIGUSR1 is that of Linux; elsewhere nothing is known to be ignored.
    for (signal, number) in [("TERM", 15), ("HUP", 1), ("USR1", 10)] {
        if is_ignored(number) {
            command::skipped(format_args!("SIG{signal} is ignored here"));
            continue;
        }
        let folder = Folder::new(&format!("signal-{signal}"));
        let saved = folder.file("run");
        let child = command(&["train", "--epochs", "4000", "--checkpoint", &saved])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        wait_for(|| has_checkpoint(Path::new(&saved)));
        send(&child, signal);
        let output = child.wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "SIG{signal}: {text}");
        assert!(text.contains(&format!("dahl train --resume {saved}")), "SIG{signal}: {text}");
    }
}

#[test]
fn a_run_that_nohup_started_goes_on_when_the_terminal_is_closed() {
    let folder = Folder::new("nohup");
    let saved = folder.file("run");
    // Ten epochs after the signal, it is still there.
    let run = ["train", "--epochs", "100000", "--limit", "64", "--json", "--checkpoint", &saved];
    let child = std::process::Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dahl")])
        .args(run)
        .env("DAHL_CACHE", command::CACHE)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("started");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    lines
        .by_ref()
        .find(|line| line.as_ref().is_ok_and(|line| line.contains("\"epoch\"")))
        .expect("an epoch")
        .expect("text");
    send(&child, "HUP");
    for _ in 0..10 {
        lines.next().expect("another epoch").expect("text");
    }
    send(&child, "TERM");
    lines.for_each(drop);
    assert_eq!(child.wait().expect("ended").code(), Some(130));
}

#[test]
fn the_limit_for_files_is_an_error_and_loses_nothing() {
    let folder = Folder::new("limit");
    let saved = folder.file("run");
    success(&["train", "--epochs", "1", "--limit", "64", "--checkpoint", &saved]);
    let before = std::fs::read(folder.file("run/step-000000000001.safetensors")).expect("a checkpoint");
    // 8 blocks of 512 or 1024 bytes.
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 8; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dahl")])
        .args(["train", "--resume", &saved, "--epochs", "2"])
        .env("DAHL_CACHE", command::CACHE)
        .output()
        .expect("sh runs");
    let text = sentence("a limit for files", &output, 1);
    assert!(text.contains("the limit for files is reached"), "{text}");
    assert_eq!(std::fs::read(folder.file("run/step-000000000001.safetensors")).expect("still there"), before);
}

#[test]
fn two_runs_do_not_save_into_one_folder() {
    let folder = Folder::new("two");
    let saved = folder.file("run");
    let endless = ["train", "--epochs", "100000", "--checkpoint", &saved];
    let mut child = command(&endless).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    wait_for(|| has_checkpoint(Path::new(&saved)));
    for second in [&["train", "--resume", &saved][..], &["train", "--checkpoint", &saved, "--epochs", "1"]] {
        let text = failure(second);
        assert!(text.contains("another run saves into this folder") && text.contains(&saved), "{text}");
    }
    // Whoever only looks is not in the way.
    success(&["eval", &saved]);
    // A dead process has no lock.
    child.kill().expect("killed");
    child.wait().expect("ended");
    let steps = json_lines(&["eval", &saved])[0]["steps"].as_u64().expect("a number") + 1;
    success(&["train", "--resume", &saved, "--steps", &steps.to_string()]);
}

#[test]
fn metrics_that_do_not_fit_end_with_a_whole_line() {
    let folder = Folder::new("lines");
    let metrics = folder.file("metrics.csv");
    // 1 block of 512 or 1024 bytes, which is not enough for so many lines.
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 1; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dahl")])
        .args(["train", "--epochs", "20", "--limit", "64", "--metrics", &metrics])
        .env("DAHL_CACHE", command::CACHE)
        .output()
        .expect("sh runs");
    let text = sentence("a limit for files", &output, 1);
    assert!(text.contains(&metrics) && text.contains("the limit for files is reached"), "{text}");
    let text = String::from_utf8(folder.read("metrics.csv")).expect("text");
    assert!(text.ends_with('\n') && text.lines().count() > 2, "{text}");
    assert!(text.lines().all(|line| line.split(',').count() == 8), "{text}");
}

#[test]
fn without_a_folder_ctrl_c_says_that_nothing_was_saved() {
    let folder = Folder::new("stopped");
    let report = folder.file("run.html");
    let child = command(&["train", "--epochs", "100000", "--report", &report])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut child = child;
    // The first line comes before the signal is caught: the first epoch is waited for.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    lines
        .by_ref()
        .find(|line| line.as_ref().is_ok_and(|line| line.starts_with("epoch")))
        .expect("an epoch")
        .expect("text");
    interrupt(&child);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert!(rest.iter().any(|line| line.contains("nothing was saved")), "{:?}", rest.last());
    // The report is of what was trained until then.
    assert!(rest.iter().any(|line| *line == format!("report: {report}")), "{:?}", rest.last());
    let page = String::from_utf8(folder.read("run.html")).expect("text");
    assert!(page.contains("\"seed on digits\"") && page.contains("then stopped"));
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_the_older_one_is_used() {
    let folder = Folder::new("damaged");
    let (saved, dump) = (folder.file("run"), folder.file("dump"));
    success(&["train", "--epochs", "3", "--checkpoint", &saved, "--dump", &dump]);
    let entries = std::fs::read_dir(&saved).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut names: Vec<_> = entries.filter(|path| !path.ends_with(".dahl-lock")).collect();
    names.sort();
    assert_eq!(names.len(), 2, "the last two are kept: {names:?}");
    let newest = names.pop().expect("a checkpoint");
    let bytes = std::fs::read(&newest).expect("read");
    let mut changed = bytes.clone();
    changed[bytes.len() - 5] ^= 1;
    for damaged in [&bytes[..bytes.len() - 1], &bytes[..20], &[], &changed] {
        std::fs::write(&newest, damaged).expect("written");
        let again = folder.file("again");
        let output = command::dahl(&["train", "--resume", &saved, "--dump", &again]);
        let text = sentence("a damaged checkpoint", &output, 0);
        assert!(text.contains("is passed over") && text.contains(newest.to_str().expect("UTF-8")), "{text}");
        assert!(folder.read("again/final.safetensors") == folder.read("dump/final.safetensors"));
        // The run that went on has written it again.
        assert_eq!(std::fs::read(&newest).expect("read").len(), bytes.len());
    }
    for name in names.iter().chain([&newest]) {
        std::fs::write(name, "nothing").expect("written");
    }
    let text = failure(&["train", "--resume", &saved]);
    assert!(text.contains("intact"), "{text}");
}

#[test]
fn a_run_does_not_go_on_with_other_settings() {
    let folder = Folder::new("other");
    let saved = folder.file("run");
    success(&["train", "--epochs", "2", "--checkpoint", &saved]);
    let text =
        failure(&["train", "--resume", &saved, "--epochs", "3", "--batch", "65", "--optimizer", "adam"]);
    assert!(text.contains("batch") && text.contains("optimizer"), "{text}");
    let text = failure(&["train", "--resume", &saved, "--epochs", "3", "--model", "mlp"]);
    assert!(text.contains("model"), "{text}");
    // Another run does not begin among these checkpoints.
    let text = failure(&["train", "--epochs", "1", "--checkpoint", &saved]);
    assert!(text.contains("up to step 48") && text.contains("--resume"), "{text}");
    // What is done is done; more epochs are another matter.
    assert!(success(&["train", "--resume", &saved]).contains("were done already"));
    success(&["train", "--resume", &folder.file("run/step-000000000048.safetensors"), "--epochs", "3"]);
    let metrics = folder.file("metrics.csv");
    success(&["train", "--resume", &saved, "--epochs", "5", "--metrics", &metrics]);
    let text = String::from_utf8(folder.read("metrics.csv")).expect("text");
    let epochs: Vec<&str> = text.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(epochs, ["epoch", "4", "5"]);
}

#[test]
fn more_steps_are_not_held_up_by_the_epochs_of_before_nor_the_other_way_round() {
    let folder = Folder::new("more");
    let steps = |lines: Vec<serde_json::Value>| lines[lines.len() - 1]["summary"]["steps"].as_u64();
    // 24 steps are an epoch.
    let (by_epochs, by_steps) = (folder.file("epochs"), folder.file("steps"));
    let begun = json_lines(&["train", "--epochs", "1", "--checkpoint", &by_epochs]);
    assert_eq!(steps(begun), Some(24));
    assert_eq!(steps(json_lines(&["train", "--resume", &by_epochs, "--steps", "30"])), Some(30));
    let begun = json_lines(&["train", "--steps", "10", "--checkpoint", &by_steps]);
    assert_eq!(steps(begun), Some(10));
    assert_eq!(steps(json_lines(&["train", "--resume", &by_steps, "--epochs", "2"])), Some(48));
    // Where both are said, whichever ends first ends the run.
    let both = ["train", "--resume", &by_steps, "--epochs", "3", "--steps", "50"];
    assert_eq!(steps(json_lines(&both)), Some(50));
}

#[test]
fn a_second_request_ends_a_run_at_once() {
    // Steps of some seconds, of which there are enough for an hour.
    let arguments = "train --data synthetic:3x32x32 --model vggish --batch 2000 --epochs 1000 --workers 1";
    let mut child = command(&arguments.split(' ').collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    // Two lines come before the signals are listened to; then planning takes a moment.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("a pipe")));
    lines.nth(1).expect("two lines").expect("text");
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(600));
    interrupt(&child);
    assert_eq!(child.wait().expect("ended").signal(), Some(2));
}

fn interrupt(child: &Child) {
    send(child, "INT");
}

/// Sends a signal to a process that has not been waited for.
fn send(child: &Child, signal: &str) {
    let sent =
        std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("there is a kill").success());
}

fn wait_for(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "waited for too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}
