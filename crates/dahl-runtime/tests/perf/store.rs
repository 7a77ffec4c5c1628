//! The file in which measurements stay: nothing is lost, and nothing wrong is used silently.

use super::*;
use dahl_runtime::ErrorKind;
use dahl_runtime::machine::Hardware;
use dahl_runtime::perf::{Identity, Loaded, MAX_CONDITIONS, MAX_KEYS, MAX_TEXT, N_RUNS, Store};
use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder that is removed in the end.
pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("perf-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("created");
        Folder(path)
    }

    /// The names of the files in it, in order, without the one that is locked.
    pub fn names(&self) -> Vec<String> {
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

pub(super) fn identity(processor: &str) -> Identity {
    Identity::new(&Hardware { processor: Some(processor.into()), ..Hardware::default() }, "avx2")
}

pub(super) fn store(folder: &Path) -> Store {
    Store::at(folder, identity("a processor"))
}

/// Something of everything.
pub(super) fn some() -> Models {
    let mut some = models(&[
        ("conv2d", WARM, run(1, 1.23456789e-6)),
        ("conv2d", COLD, run(1, 3e-6)),
        ("conv2d", WARM, run(2, 1.1e-6)),
        ("dense", WARM_2, run(2, 0.0)),
    ]);
    some.add(key("with space", ""), 0.0, 0, WARM, run_on(u64::MAX, NOW.0, 1.0 / 3.0));
    some
}

/// What is known, of a file that nothing is wrong with.
pub(super) fn sound(store: &Store) -> Models {
    let Loaded { known, warnings } = store.models(NOW);
    assert_eq!(warnings, []);
    known
}

#[test]
fn what_is_added_is_loaded_bit_by_bit() {
    let folder = Folder::new("round-trip");
    let store = store(&folder.0.join("made/on/demand"));
    assert!(sound(&store).is_empty());
    assert_eq!(store.add(&some(), NOW).expect("added"), []);
    assert_eq!(sound(&store), some());
    // Adding the same again changes no byte; adding more keeps what is there.
    let bytes = fs::read(store.path()).expect("a file");
    assert_eq!(store.add(&some(), NOW).expect("added"), []);
    assert_eq!(fs::read(store.path()).expect("a file"), bytes);
    let more = models(&[("sgd", WARM, run(9, 2e-6))]);
    store.add(&more, NOW).expect("added");
    let mut all = some();
    all.merge(&more);
    assert_eq!(sound(&store), all);
}

#[test]
fn a_file_cut_off_anywhere_or_changed_anywhere_is_noticed_and_kept() {
    let folder = Folder::new("damage");
    let store = store(&folder.0);
    let known = models(&[("conv2d", WARM, run(1, 1e-6)), ("dense", COLD, run(2, 2e-6))]);
    store.add(&known, NOW).expect("added");
    let whole = fs::read(store.path()).expect("a file");
    let name = store.path().file_name().expect("a name").to_string_lossy().into_owned();
    let is_noticed = |bytes: &[u8], what: &str| {
        fs::write(store.path(), bytes).expect("written");
        let Loaded { known, warnings } = store.models(NOW);
        assert!(known.is_empty(), "{what}");
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
    assert_eq!(sound(&store), known);
}

#[test]
fn adding_to_a_damaged_file_moves_it_aside_and_begins_anew() {
    let folder = Folder::new("anew");
    let store = store(&folder.0);
    for (i, damage) in ["first", "second", "third"].iter().enumerate() {
        fs::write(store.path(), damage).expect("written");
        let warnings = store.add(&some(), NOW).expect("added");
        assert!(
            warnings.len() == 1 && warnings[0].message.contains("does not begin as one of dahl's"),
            "{warnings:?}"
        );
        assert_eq!(sound(&store), some());
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
    store.add(&some(), NOW).expect("added");
    let whole = fs::read_to_string(store.path()).expect("text");
    let newer = whole.replacen("dahl-measurements 1\n", "dahl-measurements 2\n", 1) + "and something new\n";
    let other = {
        let elsewhere = Store::at(folder.0.join("elsewhere"), identity("another processor"));
        elsewhere.add(&some(), NOW).expect("added");
        assert_ne!(elsewhere.path().file_name(), store.path().file_name());
        fs::read_to_string(elsewhere.path()).expect("text")
    };
    for (text, why) in [
        (newer, "format version 2, and this dahl reads version 1"),
        (other, "another machine (processor another processor;"),
    ] {
        fs::write(store.path(), &text).expect("written");
        let loaded = store.models(NOW);
        assert!(loaded.known.is_empty());
        assert!(
            loaded.warnings.len() == 1 && loaded.warnings[0].message.contains(why),
            "{:?}",
            loaded.warnings
        );
        let error = store.add(&some(), NOW).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.message().contains(why) && error.message().contains("neither used nor changed"),
            "{error}"
        );
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
    store.add(&many, NOW).expect("added");
    let models = sound(&store);
    assert_eq!(models.entries().count(), MAX_KEYS);
    let kept = |footprint: &str| models.get(&key("conv2d", footprint)).is_some();
    assert!(kept("0") && kept("900") && !kept("1001"));
    let dense = models.get(&key("dense", "a")).expect("the newest");
    assert_eq!(dense.histories.keys().map(|condition| condition.workers).min(), Some(5));
    assert_eq!(dense.histories.len(), MAX_CONDITIONS);
}

#[test]
fn places_where_nothing_can_be_are_sentences() {
    let folder = Folder::new("places");
    let plain = folder.0.join("plain");
    fs::write(&plain, "a file").expect("written");
    let error = store(&plain).add(&some(), NOW).expect_err("refused");
    assert!(error.message().contains("a file is in its place"), "{error}");
    // A folder where the file should be.
    let store = store(&folder.0);
    fs::create_dir(store.path()).expect("created");
    let loaded = store.models(NOW);
    assert!(loaded.known.is_empty() && loaded.warnings.len() == 1, "{:?}", loaded.warnings);
    assert!(store.add(&some(), NOW).is_err());
    assert!(store.path().is_dir());
}

#[test]
fn a_run_from_the_future_does_not_stay_for_ever() {
    let folder = Folder::new("future");
    let store = store(&folder.0);
    let day = Date::of_seconds(86_400).0;
    // The clock was wrong for a while, and what was measured then is the newest of all.
    let later = Date(NOW.0 + 400 * day);
    let mut wrong = models(&[("conv2d", WARM, run_on(1, later.0, 9e-6))]);
    for i in 0..MAX_KEYS as u64 {
        wrong.add(key("dense", &i.to_string()), 1.0, 4, WARM, run_on(i, later.0, 1e-6));
    }
    assert_eq!(store.add(&wrong, later).expect("added"), []);
    let loaded = store.models(NOW);
    assert_eq!(loaded.known.entries().count(), MAX_KEYS);
    assert!(loaded.known.entries().all(|(_, entry)| entry.newest() == Date::UNKNOWN));
    let said = |text: &str| {
        text.contains(&format!("runs that are dated in the future ({MAX_KEYS}) count as the oldest"))
    };
    assert!(loaded.warnings.len() == 1 && said(&loaded.warnings[0].message), "{:?}", loaded.warnings);
    // A few hours are no mistake.
    let near =
        models(&[("sgd", WARM, run_on(5, NOW.0 + day / 2, 1e-6)), ("dense", WARM, run_on(6, NOW.0, 1e-6))]);
    let warnings = store.add(&near, NOW).expect("added");
    assert!(warnings.len() == 1 && said(&warnings[0].message), "{warnings:?}");
    let known = sound(&store);
    assert_eq!(known.entries().count(), MAX_KEYS);
    assert!(known.get(&key("sgd", "16x3")).is_some() && known.get(&key("dense", "16x3")).is_some());
}

#[test]
fn keys_that_a_run_does_not_know_stay_as_they_are() {
    let folder = Folder::new("others");
    let (one, all) = (store(&folder.0.join("one")), store(&folder.0.join("all")));
    // In pieces, and in another order, it comes to the same bytes.
    let names = ["sgd", "conv2d", "relu", "dense", "a", "z"];
    let part = |i: u64, name| models(&[(name, WARM, run(i, 1e-6)), ("conv2d", COLD, run(i, 2e-6))]);
    let mut together = Models::new();
    for (i, name) in (1..).zip(names) {
        one.add(&part(i, name), NOW).expect("added");
        together.merge(&part(i, name));
    }
    all.add(&together, NOW).expect("added");
    assert_eq!(fs::read_to_string(one.path()).expect("text"), fs::read_to_string(all.path()).expect("text"));
    assert_eq!(sound(&one), together);
}

#[test]
fn a_file_stays_as_small_as_it_should() {
    let folder = Folder::new("large");
    let store = store(&folder.0);
    let mut many = Models::new();
    let n = 2 * MAX_TEXT as u64 / 150 / (MAX_CONDITIONS * N_RUNS) as u64;
    for i in 0..n {
        for id in 0..N_RUNS as u64 {
            for workers in 0..MAX_CONDITIONS as u32 {
                let condition = Condition { is_cold: true, workers };
                let run = run_on(id, 1_000 * i + id, 1e-6 / (3.0 + i as f64));
                many.add(key("conv2d", &i.to_string()), 1.0, 4, condition, run);
            }
        }
    }
    store.add(&many, NOW).expect("added");
    let size = |store: &Store| fs::metadata(store.path()).expect("a file").len() as usize;
    let known = sound(&store);
    let kept = |footprint: u64| known.get(&key("conv2d", &footprint.to_string())).is_some();
    assert!((MAX_TEXT - 20_000..MAX_TEXT + 1000).contains(&size(&store)), "{}", size(&store));
    assert!(kept(n - 1) && !kept(0));
    // There is room for what comes next.
    store.add(&models(&[("sgd", WARM, run_on(7, NOW.0, 1e-6))]), NOW).expect("added");
    assert!(size(&store) < MAX_TEXT + 1000);
    assert!(sound(&store).get(&key("sgd", "16x3")).is_some());
}
