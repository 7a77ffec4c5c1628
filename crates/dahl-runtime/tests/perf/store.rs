//! The file in which measurements stay: nothing is lost, and nothing wrong is used silently.

use super::*;
use dahl_runtime::ErrorKind;
use dahl_runtime::machine::Hardware;
use dahl_runtime::perf::{Choice, Identity, Loaded, MAX_CHOICES, MAX_CONDITIONS, MAX_KEYS, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("perf-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("created");
        Folder(path)
    }

    /// The names of the files in it, in order, without the one that is locked.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.ends_with(".lock"));
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn identity(processor: &str) -> Identity {
    Identity::new(&Hardware { processor: Some(processor.into()), ..Hardware::default() }, "avx2")
}

fn store(folder: &Path) -> Store {
    Store::at(folder, identity("a processor"))
}

fn choice(text: &str, date: u64) -> Choice {
    Choice { text: text.into(), date, note: "calibrated, 3 runs\n".into() }
}

/// Something of everything.
fn some() -> Models {
    let mut some = models(&[
        ("conv2d", WARM, run(1, 1.23456789e-6)),
        ("conv2d", COLD, run(1, 3e-6)),
        ("conv2d", WARM, run(2, 1.1e-6)),
        ("dense", WARM_2, run(2, 0.0)),
    ]);
    some.add(key("with space", ""), 0.0, 0, WARM, run(u64::MAX, 1.0 / 3.0));
    some
}

fn sound(store: &Store) -> Loaded {
    let loaded = store.load();
    assert_eq!(loaded.warnings, []);
    loaded
}

#[test]
fn what_is_added_is_loaded_bit_by_bit() {
    let folder = Folder::new("round-trip");
    let store = store(&folder.0.join("made/on/demand"));
    assert_eq!(sound(&store), Loaded::default());
    assert_eq!(store.add(&some()).expect("added"), []);
    assert_eq!(sound(&store).models, some());
    // Adding the same again changes no byte; adding more keeps what is there.
    let bytes = fs::read(store.path()).expect("a file");
    assert_eq!(store.add(&some()).expect("added"), []);
    assert_eq!(fs::read(store.path()).expect("a file"), bytes);
    let more = models(&[("sgd", WARM, run(9, 2e-6))]);
    store.add(&more).expect("added");
    let mut all = some();
    all.merge(&more);
    assert_eq!(sound(&store).models, all);
}

#[test]
fn choices_change_only_when_somebody_chooses() {
    let folder = Folder::new("choices");
    let store = store(&folder.0);
    store.choose("graph 1, batch 64", choice("tiles n=16 %\n", 5)).expect("chosen");
    store.choose("", Choice::default()).expect("chosen");
    store.add(&some()).expect("added");
    let loaded = sound(&store);
    assert_eq!(loaded.choices.len(), 2);
    assert_eq!(loaded.choices["graph 1, batch 64"], choice("tiles n=16 %\n", 5));
    assert_eq!(loaded.models, some());
    store.choose("graph 1, batch 64", choice("tiles n=32", 6)).expect("chosen");
    store.forget("").expect("forgotten");
    assert_eq!(sound(&store).choices.into_values().collect::<Vec<_>>(), [choice("tiles n=32", 6)]);
    for i in 0..=MAX_CHOICES as u64 {
        if i % 512 == 0 || i == MAX_CHOICES as u64 {
            store.choose(&format!("graph {i}"), choice("x", i + 7)).expect("chosen");
        }
    }
    assert_eq!(sound(&store).choices.len(), 4);
}

#[test]
fn a_file_cut_off_anywhere_or_changed_anywhere_is_noticed_and_kept() {
    let folder = Folder::new("damage");
    let store = store(&folder.0);
    store.choose("graph", choice("tiles", 1)).expect("chosen");
    store.add(&models(&[("conv2d", WARM, run(1, 1e-6)), ("dense", COLD, run(2, 2e-6))])).expect("added");
    let whole = fs::read(store.path()).expect("a file");
    let name = store.path().file_name().expect("a name").to_string_lossy().into_owned();
    let is_noticed = |bytes: &[u8], what: &str| {
        fs::write(store.path(), bytes).expect("written");
        let Loaded { models, choices, warnings } = store.load();
        assert!(models.is_empty() && choices.is_empty(), "{what}");
        assert_eq!(warnings.len(), 1, "{what}");
        let text = warnings[0].to_string();
        assert!(text.starts_with(&store.path().display().to_string()), "{what}: {text}");
        if text.contains("it is damaged: ") {
            assert!(text.contains("it was moved to") && text.contains("begins anew"), "{what}: {text}");
            let aside = folder.0.join(format!("{name}.damaged"));
            assert_eq!(fs::read(&aside).expect("kept"), bytes, "{what}");
            fs::remove_file(aside).expect("removed");
            assert!(folder.names().is_empty(), "{what}: {:?}", folder.names());
        } else {
            // Another digit for the version is another version.
            assert!(text.contains("format version"), "{what}: {text}");
            assert_eq!(fs::read(store.path()).expect("untouched"), bytes, "{what}");
        }
    };
    for n in 0..whole.len() {
        is_noticed(&whole[..n], &format!("the first {n} bytes"));
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        for flip in [1, 0x20, 0x80] {
            changed[at] = whole[at] ^ flip;
            is_noticed(&changed, &format!("byte {at} with {flip:02x} flipped"));
        }
    }
    is_noticed(&[&whole[..], b"\n"].concat(), "a line more");
    is_noticed(&vec![0; whole.len()], "zeros");
    is_noticed(&whole[1..], "without the first byte");
    fs::write(store.path(), &whole).expect("written");
    assert_eq!(sound(&store).choices.len(), 1);
}

#[test]
fn adding_to_a_damaged_file_moves_it_aside_and_begins_anew() {
    let folder = Folder::new("anew");
    let store = store(&folder.0);
    for (i, damage) in ["first", "second", "third"].iter().enumerate() {
        fs::write(store.path(), damage).expect("written");
        let warnings = store.add(&some()).expect("added");
        assert!(
            warnings.len() == 1 && warnings[0].message.contains("does not begin as one of dahl's"),
            "{warnings:?}"
        );
        assert_eq!(sound(&store).models, some());
        let kept = folder.names().into_iter().filter(|name| name.ends_with(".damaged"));
        let mut kept: Vec<String> =
            kept.map(|name| fs::read_to_string(folder.0.join(name)).expect("kept")).collect();
        kept.sort();
        assert_eq!(kept, ["first", "second", "third"][..=i]);
    }
}

#[test]
fn another_version_and_another_machine_are_neither_used_nor_changed() {
    let folder = Folder::new("refused");
    let store = store(&folder.0);
    store.add(&some()).expect("added");
    let whole = fs::read_to_string(store.path()).expect("text");
    let newer = whole.replacen("dahl-performance 1\n", "dahl-performance 2\n", 1) + "and something new\n";
    let other = {
        let elsewhere = Store::at(folder.0.join("elsewhere"), identity("another processor"));
        elsewhere.add(&some()).expect("added");
        assert_ne!(elsewhere.path().file_name(), store.path().file_name());
        fs::read_to_string(elsewhere.path()).expect("text")
    };
    for (text, why) in [
        (newer, "format version 2, and this dahl reads version 1"),
        (other, "another machine (processor another processor;"),
    ] {
        fs::write(store.path(), &text).expect("written");
        let loaded = store.load();
        assert!(loaded.models.is_empty() && loaded.choices.is_empty());
        assert!(
            loaded.warnings.len() == 1 && loaded.warnings[0].message.contains(why),
            "{:?}",
            loaded.warnings
        );
        for error in [
            store.add(&some()).expect_err("refused"),
            store.choose("a", choice("b", 1)).expect_err("refused"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(
                error.message().contains(why) && error.message().contains("neither used nor changed"),
                "{error}"
            );
        }
        assert_eq!(fs::read_to_string(store.path()).expect("untouched"), text);
    }
}

#[test]
fn an_identity_is_everything_that_times_depend_on() {
    let hardware = Hardware { processor: Some("a".into()), cores: Some(2), ..Hardware::default() };
    let same = Identity::new(&hardware, "avx2");
    assert_eq!(Identity::new(&Hardware { memory_bytes: Some(1), ..hardware.clone() }, "avx2"), same);
    let others = [
        Identity::new(&hardware, "avx512"),
        Identity::new(&Hardware { cores: Some(4), ..hardware.clone() }, "avx2"),
        Identity::new(&Hardware { processor: None, ..hardware }, "avx2"),
    ];
    for other in others {
        assert!(other != same && other.fingerprint() != same.fingerprint(), "{other}");
    }
}

#[test]
fn a_file_holds_so_many_keys_and_drops_the_oldest() {
    let folder = Folder::new("limits");
    let store = store(&folder.0);
    let mut many = Models::new();
    for i in 0..MAX_KEYS as u64 + 10 {
        many.add(key("conv2d", &i.to_string()), 1.0, 4, WARM, run_on(i, 1000 - i.min(1000), 1e-6));
    }
    for workers in 0..MAX_CONDITIONS as u32 + 5 {
        let condition = Condition { is_cold: false, workers };
        many.add(key("dense", "a"), 1.0, 4, condition, run_on(1, u64::from(workers) + 5000, 1e-6));
    }
    store.add(&many).expect("added");
    let models = sound(&store).models;
    assert_eq!(models.entries().count(), MAX_KEYS);
    let kept = |footprint: &str| models.get(&key("conv2d", footprint)).is_some();
    assert!(kept("0") && kept("900") && !kept("1001"));
    let dense = models.get(&key("dense", "a")).expect("the newest");
    assert_eq!(dense.histories.keys().map(|condition| condition.workers).min(), Some(5));
    assert_eq!(dense.histories.len(), MAX_CONDITIONS);
}

/// Called in processes of their own by the tests below, in the folder of the store. The name of the program says what to do.
#[test]
#[ignore = "a part of other tests"]
fn adds_where_it_is_called() {
    let who: u64 = fs::read_to_string("n").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1);
    let id = u64::from(std::process::id());
    for i in 0..who {
        let mine =
            models(&[("conv2d", Condition { is_cold: false, workers: id as u32 }, run_on(i, i, 1e-6))]);
        match store(Path::new(".")).add(&mine) {
            Ok(warnings) => assert_eq!(warnings, []),
            Err(error) => println!("refused {error}"),
        }
    }
    println!("process {id}");
}

fn command(folder: &Path, before: &str) -> Command {
    let program = std::env::current_exe().expect("this program");
    let script =
        format!("{before}\nexec \"$0\" --ignored --exact store::adds_where_it_is_called --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(program).current_dir(folder);
    command
}

fn add_in(folder: &Path, before: &str) -> String {
    let Output { stdout, .. } = command(folder, before).output().expect("sh runs");
    String::from_utf8_lossy(&stdout).into_owned()
}

#[cfg(unix)]
#[test]
fn eight_processes_at_once_lose_nothing() {
    const N: usize = 8;
    let folder = Folder::new("processes");
    fs::write(folder.0.join("n"), "6").expect("written");
    let start = || command(&folder.0, "").stdout(std::process::Stdio::piped()).spawn().expect("started");
    let children: Vec<_> = (0..N).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !text.contains("refused"), "{text}");
    }
    let models = sound(&store(&folder.0)).models;
    let entry = models.get(&key("conv2d", "16x3")).expect("added");
    assert_eq!(entry.histories.len(), N, "one condition of each process");
    assert!(entry.histories.values().all(|history| history.runs().len() == 6));
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
                    let condition = Condition { is_cold: false, workers: thread };
                    store.add(&models(&[("dense", condition, run_on(i, i, 1e-6))])).expect("added");
                    store.choose(&format!("{thread} {i}"), choice("x", 1)).expect("chosen");
                    assert_eq!(store.load().warnings, []);
                }
            });
        }
    });
    let loaded = sound(&store(&folder.0));
    assert_eq!(loaded.choices.len(), 32);
    let histories = &loaded.models.get(&key("dense", "16x3")).expect("added").histories;
    assert!(histories.len() == 8 && histories.values().all(|history| history.runs().len() == 4));
}

#[cfg(unix)]
#[test]
fn a_process_that_is_killed_leaves_no_lock() {
    let folder = Folder::new("killed");
    fs::write(folder.0.join("n"), "1000000").expect("written");
    for _ in 0..5 {
        let mut child = command(&folder.0, "").stdout(std::process::Stdio::null()).spawn().expect("started");
        while !store(&folder.0).path().exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(store(&folder.0).load().warnings, []);
        store(&folder.0).add(&some()).expect("added");
    }
    // And what it was writing is removed by the next writer.
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_a_sentence() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("permission");
    let store = store(&folder.0);
    store.add(&some()).expect("added");
    fs::write(folder.0.join("n"), "1").expect("written");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).expect("set");
    if fs::write(folder.0.join("probe"), "").is_ok() {
        println!("skipped: this user may write everywhere");
        let _ = fs::remove_file(folder.0.join("probe"));
    } else {
        let error = store.add(&models(&[("sgd", WARM, run(3, 1e-6))])).expect_err("refused");
        assert!(error.message().contains("check the permissions"), "{error}");
        assert_eq!(sound(&store).models, some());
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).expect("set");
}

#[test]
fn places_where_nothing_can_be_are_sentences() {
    let folder = Folder::new("places");
    let plain = folder.0.join("plain");
    fs::write(&plain, "a file").expect("written");
    let error = store(&plain).add(&some()).expect_err("refused");
    assert!(error.message().contains("a file is in its place"), "{error}");
    // A folder where the file should be.
    let store = store(&folder.0);
    fs::create_dir(store.path()).expect("created");
    let loaded = store.load();
    assert!(loaded.models.is_empty() && loaded.warnings.len() == 1, "{:?}", loaded.warnings);
    assert!(store.add(&some()).is_err());
    assert!(store.path().is_dir());
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
    store.add(&large).expect("added");
    let before = fs::read(store.path()).expect("a file");
    // 32 blocks of 512 or 1024 bytes; without the trap, the signal would end the process.
    let text = add_in(&folder.0, "trap '' XFSZ\nulimit -f 32");
    assert!(text.contains("refused") && text.contains("the limit for files is reached"), "{text}");
    assert_eq!(fs::read(store.path()).expect("untouched"), before);
    assert_eq!(folder.names().len(), 1, "{:?}", folder.names());
}

/// A small file system of its own.
#[cfg(target_os = "linux")]
struct SmallDisk(Folder);

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).output();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let disk = SmallDisk(Folder::new("disk"));
    let folder = &disk.0;
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&folder.0).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: a small disk cannot be mounted here");
        return;
    }
    let store = store(&folder.0);
    store.choose("graph", choice("tiles", 1)).expect("chosen");
    store.add(&some()).expect("added");
    let before = fs::read(store.path()).expect("a file");
    let mut large = Models::new();
    for i in 0..1500 {
        large.add(key("conv2d", &i.to_string()), 1.0, 4, WARM, run(1, 1e-6));
    }
    let error = store.add(&large).expect_err("no room");
    assert!(error.message().contains("make room on the disk"), "{error}");
    assert_eq!(fs::read(store.path()).expect("untouched"), before);
    assert_eq!(sound(&store).models, some());
    assert_eq!(folder.names().len(), 1, "{:?}", folder.names());
    // And then there is room again.
    store.add(&models(&[("sgd", WARM, run(3, 1e-6))])).expect("added");
    assert!(sound(&store).choices.contains_key("graph"));
    // A disk that can only be read still tells what it knows.
    let known = sound(&store).models;
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&folder.0).output();
    assert!(remounted.is_ok_and(|output| output.status.success()));
    let error = store.add(&models(&[("relu", WARM, run(4, 1e-6))])).expect_err("read only");
    assert!(error.message().contains("nothing can be written there"), "{error}");
    assert_eq!(sound(&store).models, known);
    // And one that is damaged there cannot be moved aside.
    let remount = |mode: &str| Command::new("mount").args(["-o", mode]).arg(&folder.0).output();
    assert!(remount("remount,rw").is_ok_and(|output| output.status.success()));
    fs::write(store.path(), "damage").expect("written");
    assert!(remount("remount,ro").is_ok_and(|output| output.status.success()));
    let Loaded { models, warnings, .. } = store.load();
    assert!(models.is_empty() && warnings.len() == 1, "{warnings:?}");
    assert!(warnings[0].message.starts_with("it is damaged: it does not begin as one"), "{warnings:?}");
    assert!(warnings[0].message.contains("it is not used, and stays"), "{warnings:?}");
}
