//! Commands that have too little memory: success, or a sentence; never a signal, a panic or a wait without
//! end.

#![cfg(target_os = "linux")]

mod command;

use command::{Folder, success};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// How many limits are tried, from too little for anything to enough.
const N_LIMITS: u64 = 40;

/// Runs the command with so much address space, and ends it if it hangs.
fn within(kib: u64, arguments: &[&str]) -> Output {
    let child = command::within(kib, arguments).spawn().expect("sh runs");
    command::ended(child, format!("{arguments:?} with {kib} KiB"))
}

/// The least that the command needs to begin: below, the loader of programs fails, and nobody can do anything
/// about it.
fn least_kib() -> u64 {
    let is_enough = |kib: u64| within(kib, &["--version"]).status.success();
    let (mut low, mut high) = (0, 4 << 20);
    assert!(is_enough(high), "dahl --version needs more than {high} KiB");
    while high - low > 16 {
        let middle = (low + high) / 2;
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

/// Runs a command within many limits. Its last exit code must be that of success, and all others that, or
/// `failed` with a sentence.
fn check(arguments: &[&str], failed: i32) {
    let least = least_kib();
    let mut enough = least;
    while !within(enough, arguments).status.success() {
        enough += enough / 4;
        assert!(enough < 64 << 20, "{arguments:?} needs more than {enough} KiB");
    }
    let mut wrongs = Vec::new();
    let mut n_refused = 0;
    for i in 0..N_LIMITS {
        // Denser where little is there: most of what can fail does so early.
        let share = i as f64 / (N_LIMITS - 1) as f64;
        let kib = least + ((enough - least) as f64 * share * share) as u64;
        let output = within(kib, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        let has_sentence = text.lines().any(|line| line.starts_with("dahl: "));
        let is_told = output.status.code() == Some(failed) && has_sentence && !text.contains("panicked");
        if !output.status.success() {
            n_refused += 1;
            if !is_told {
                wrongs.push(format!(
                    "{kib} KiB: {} (signal {:?}): {text}",
                    output.status,
                    output.status.signal()
                ));
            }
        }
    }
    assert!(wrongs.is_empty(), "{arguments:?}, of {least} to {enough} KiB:\n{}", wrongs.join("\n"));
    assert!(n_refused > 0, "{arguments:?} works with {least} KiB, so nothing was tried");
}

#[test]
fn training_with_too_little_memory() {
    check(&["train", "--limit", "200", "--epochs", "1", "--workers", "2"], 1);
}

#[test]
fn evaluating_with_too_little_memory() {
    let folder = Folder::new("shortage-eval");
    let run = folder.file("run");
    success(&["train", "--limit", "16", "--epochs", "1", "--workers", "1", "--checkpoint", &run]);
    check(&["eval", &run, "--workers", "2"], 1);
}

#[test]
fn checking_data_with_too_little_memory() {
    let folder = Folder::new("shortage-data");
    let header = |magic: u8, dims: &[u32]| {
        [vec![0, 0, 8, magic], dims.iter().flat_map(|dim| dim.to_be_bytes()).collect()].concat()
    };
    for part in ["train", "t10k"] {
        let images = [header(3, &[20_000, 16, 16]), vec![7; 20_000 * 256]].concat();
        fs::write(folder.0.join(format!("{part}-images-idx3-ubyte")), images).expect("written");
        let labels = [header(1, &[20_000]), [0, 1].repeat(10_000)].concat();
        fs::write(folder.0.join(format!("{part}-labels-idx1-ubyte")), labels).expect("written");
    }
    check(&["data", "check", &folder.file(""), "--threads", "2"], 1);
}

#[test]
fn comparing_files_with_too_little_memory() {
    let folder = Folder::new("shortage-diff");
    let numbers: String = (0..200_000).map(|i| format!("{i}\n")).collect();
    let (a, b) = (folder.write("a.csv", &numbers), folder.write("b.csv", &numbers));
    // There, 1 means that numbers differ.
    check(&["diff", &a, &b], 2);
}
