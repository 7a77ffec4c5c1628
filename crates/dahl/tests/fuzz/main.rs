//! The targets of `fuzz/` on stable Rust: their corpora, and random plans and views in any number.

#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

mod seeds;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use targets::TARGETS;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// The files of a target's corpus, in the order of their names.
fn corpus(target: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(FUZZ).join("corpus").join(target)).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn every_target_has_a_corpus_and_a_program_and_every_corpus_a_target() {
    let expected: Vec<String> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    for folder in ["corpus", "src/bin"] {
        let entries = fs::read_dir(Path::new(FUZZ).join(folder)).expect("a folder of the repository");
        let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut found: Vec<String> = entries.map(|entry| stem(entry.expect("an entry").path())).collect();
        found.sort();
        assert_eq!(found, expected, "{folder}");
    }
    let manifest = fs::read_to_string(Path::new(FUZZ).join("Cargo.toml")).expect("a manifest");
    let binaries = manifest.split("[[bin]]").skip(1).map(|part| part.trim());
    let named = expected.iter().map(|name| format!("name = \"{name}\""));
    assert!(binaries.eq(named), "fuzz/Cargo.toml has a [[bin]] for every target, in their order");
    assert!(expected.iter().all(|name| !corpus(name).is_empty()), "an empty corpus");
}

#[test]
fn corpora_are_small() {
    let bytes: u64 = TARGETS
        .iter()
        .flat_map(|(name, _)| corpus(name))
        .map(|path| fs::metadata(path).expect("a file").len())
        .sum();
    assert!(bytes < 200_000, "{bytes} bytes in fuzz/corpus");
}

#[test]
fn nothing_in_the_corpora_is_a_surprise() {
    for (name, target) in TARGETS {
        for path in corpus(name) {
            let bytes = fs::read(&path).expect("a file of the repository");
            let told = std::panic::catch_unwind(|| target(&bytes));
            assert!(told.is_ok(), "{}", path.display());
        }
    }
}

/// Runs a target on random bytes: so many times, or for as many seconds as DAHL_TEST_SECONDS says. Which
/// bytes, is the same every time; what a failure prints can be kept as a file of the corpus.
fn random(name: &str, times: u64, most: usize) {
    let seconds =
        std::env::var("DAHL_TEST_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let begin = Instant::now();
    let is_done = |i: u64| match seconds {
        Some(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
        None => i >= times,
    };
    let mut i = 0;
    while !is_done(i) {
        let bytes = seeds::noise(i, most);
        if std::panic::catch_unwind(|| targets::run(name, &bytes)).is_err() {
            panic!("the target {name} fails on number {i}: {bytes:?}");
        }
        i += 1;
    }
    println!("{i} random inputs for {name}");
}

#[test]
fn random_plans_compute_the_same_however_late_kernels_are() {
    random("plans", 60, 400);
}

#[test]
fn random_views_show_what_a_vector_would() {
    random("arrays", 150, 400);
}

#[test]
fn random_tiles_touch_what_their_points_do() {
    random("regions", 500, 60);
}
