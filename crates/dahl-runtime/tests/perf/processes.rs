//! Many who write at once, who are killed while they write, and disks on which nothing can be written.

use super::store::{Folder, some, sound, store};
use super::*;
use dahl_runtime::perf::{Choice, Loaded};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Says that a test could not be made here. Past the harness, which hides what passing tests print.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Called in processes of their own by the tests below, in the folder of the store, with a file that says how
/// often.
#[test]
#[ignore = "a part of other tests"]
fn adds_where_it_is_called() {
    let Ok(n) = fs::read_to_string("n") else { return skipped("this is a part of other tests") };
    let n: u64 = n.parse().expect("a number");
    let id = std::process::id();
    for i in 0..n {
        let mut mine = Models::new();
        mine.add(key("conv2d", &format!("process {id}")), 1.0, 4, WARM, run_on(i, i, 1e-6));
        match store(Path::new(".")).add(&mine, NOW) {
            Ok(warnings) => assert_eq!(warnings, []),
            Err(error) => println!("refused {error}"),
        }
    }
}

/// This program, to be executed in a folder with one of its ignored tests.
fn command(folder: &Path, before: &str, test: &str) -> Command {
    let program = std::env::current_exe().expect("this program");
    let script = format!("{before}\nexec \"$0\" --ignored --exact processes::{test} --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program).current_dir(folder);
    command
}

fn adding(folder: &Path, before: &str) -> Command {
    command(folder, before, "adds_where_it_is_called")
}

#[cfg(unix)]
#[test]
fn eight_processes_at_once_lose_nothing() {
    const N: usize = 8;
    let folder = Folder::new("processes");
    fs::write(folder.0.join("n"), "6").expect("written");
    let start = || adding(&folder.0, "").stdout(Stdio::piped()).spawn().expect("started");
    let children: Vec<_> = (0..N).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains("refused"), "{text}");
    }
    let known = sound(&store(&folder.0));
    assert_eq!(known.entries().count(), N, "one key of each process");
    assert!(known.entries().all(|(_, entry)| entry.histories[&WARM].runs().len() == 6));
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

#[test]
fn eight_threads_at_once_lose_nothing() {
    let folder = Folder::new("threads");
    std::thread::scope(|scope| {
        for thread in 0..8_u32 {
            let store = store(&folder.0);
            scope.spawn(move || {
                for i in 0..4 {
                    let mut mine = Models::new();
                    mine.add(key("dense", &thread.to_string()), 1.0, 4, WARM, run_on(i, i, 1e-6));
                    store.add(&mine, NOW).expect("added");
                    store.choose(&format!("{thread} {i}"), Choice::default()).expect("chosen");
                    assert_eq!(store.models(NOW).warnings, []);
                    assert_eq!(store.choices().warnings, []);
                }
            });
        }
    });
    let store = store(&folder.0);
    assert_eq!(store.choices().known.len(), 32);
    let known = sound(&store);
    assert_eq!(known.entries().count(), 8);
    assert!(known.entries().all(|(_, entry)| entry.histories[&WARM].runs().len() == 4));
}

#[cfg(unix)]
#[test]
fn a_process_that_is_killed_leaves_no_lock() {
    let folder = Folder::new("killed");
    fs::write(folder.0.join("n"), "1000000").expect("written");
    let bytes = || fs::read(store(&folder.0).path()).ok();
    for round in 0..5 {
        let mut before = bytes();
        let mut child = adding(&folder.0, "").stdout(Stdio::null()).spawn().expect("started");
        // It writes again and again; at some moment in between, another one each time, it is killed.
        let (begin, mut n_changes) = (Instant::now(), 0);
        while n_changes < 3 + round {
            let now = bytes();
            n_changes += usize::from(now != before);
            before = now;
            if begin.elapsed() > Duration::from_secs(60) {
                let _ = child.kill();
                panic!("the other process writes nothing");
            }
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        sound(&store(&folder.0));
        store(&folder.0).add(&some(), NOW).expect("added");
    }
    // And what it was writing is removed by the next writer.
    let mut last = some();
    last.add(key("sgd", "last"), 1.0, 4, WARM, run(99, 1e-6));
    store(&folder.0).add(&last, NOW).expect("added");
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_a_sentence() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("permission");
    let store = store(&folder.0);
    store.add(&some(), NOW).expect("added");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).expect("set");
    if fs::write(folder.0.join("probe"), "").is_ok() {
        skipped("this user may write everywhere");
        let _ = fs::remove_file(folder.0.join("probe"));
    } else {
        let error = store.add(&models(&[("sgd", WARM, run(3, 1e-6))]), NOW).expect_err("refused");
        assert!(error.message().contains("check the permissions"), "{error}");
        assert_eq!(sound(&store), some());
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).expect("set");
}

#[cfg(unix)]
#[test]
fn a_limit_for_files_loses_nothing() {
    let folder = Folder::new("limit");
    let store = store(&folder.0);
    let mut large = Models::new();
    for i in 0..300 {
        large.add(key("conv2d", &i.to_string()), 1.0, 4, WARM, run(1, 1e-6));
    }
    store.add(&large, NOW).expect("added");
    fs::write(folder.0.join("n"), "1").expect("written");
    let before = fs::read(store.path()).expect("a file");
    // 32 blocks of 512 or 1024 bytes; without the trap, the signal would end the process.
    let Output { stdout, .. } = adding(&folder.0, "trap '' XFSZ\nulimit -f 32").output().expect("sh runs");
    let text = String::from_utf8_lossy(&stdout);
    assert!(text.contains("refused") && text.contains("the limit for files is reached"), "{text}");
    assert_eq!(fs::read(store.path()).expect("untouched"), before);
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

/// In a name space of our own, so that nobody else sees the disk, and so that it takes no rights.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let folder = Folder::new("disk");
    let script = "mount -t tmpfs -o size=64k dahl . || exit 77\ncd \"$PWD\"\ntouch small-disk";
    let inner = command(&folder.0, script, "writes_on_a_small_disk");
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(&folder.0)
        .output();
    match output {
        Err(error) => skipped(&format!("no unshare ({error})")),
        Ok(Output { status, stdout, stderr }) => {
            let [said, wrong] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            // Where name spaces are forbidden, the test itself does not begin.
            if !said.contains("running 1 test") {
                return skipped(&format!("no disk of our own ({})", wrong.trim()));
            }
            assert!(status.success() && said.contains("1 passed"), "{said}{wrong}");
        }
    }
}

/// Called by the test above, in a folder that is a file system of 64 KB.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a part of another test"]
fn writes_on_a_small_disk() {
    if !Path::new("small-disk").exists() {
        return skipped("this is a part of another test");
    }
    let store = store(Path::new("."));
    let remount = |mode: &str| {
        let output = Command::new("mount").args(["-o", mode, "."]).output().expect("mount runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    store.choose("graph", Choice::default()).expect("chosen");
    store.add(&some(), NOW).expect("added");
    let before = fs::read(store.path()).expect("a file");
    let mut large = Models::new();
    for i in 0..1000 {
        large.add(key("conv2d", &i.to_string()), 1.0, 4, WARM, run(1, 1e-6));
    }
    let error = store.add(&large, NOW).expect_err("no room");
    assert!(error.message().contains("make room on the disk"), "{error}");
    assert_eq!(fs::read(store.path()).expect("untouched"), before);
    assert_eq!(sound(&store), some());
    let is_temporary = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().to_string_lossy().starts_with('.')
    };
    assert!(!fs::read_dir(".").expect("a folder").any(is_temporary));
    // And then there is room again.
    store.add(&models(&[("sgd", WARM, run(3, 1e-6))]), NOW).expect("added");
    assert!(store.choices().known.contains_key("graph"));
    // A disk that can only be read still tells what it knows.
    let known = sound(&store);
    remount("remount,ro");
    let error = store.add(&models(&[("relu", WARM, run(4, 1e-6))]), NOW).expect_err("read only");
    assert!(error.message().contains("nothing can be written there"), "{error}");
    assert_eq!(sound(&store), known);
    // And one that is damaged there cannot be moved aside.
    remount("remount,rw");
    fs::write(store.path(), "damage").expect("written");
    remount("remount,ro");
    let Loaded { known, warnings } = store.models(NOW);
    assert!(known.is_empty() && warnings.len() == 1, "{warnings:?}");
    let text = warnings[0].to_string();
    assert!(warnings[0].message.starts_with("it is damaged: it does not begin as one"), "{text}");
    assert!(text.contains("it is not used, and stays: ") && text.contains("Read-only"), "{text}");
    assert_eq!(text.matches(&store.path().display().to_string()).count(), 1, "{text}");
}
