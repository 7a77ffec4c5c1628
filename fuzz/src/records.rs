//! What dahl writes for itself: checkpoints, measurements and choices, traces.
//!
//! Checkpoints, measurements and choices end in a checksum, behind which no fuzzer would ever get. Under
//! `cfg(fuzzing)` any will do.

use super::folder::Folder;
use dahl::Trainer;
use dahl::dataset;
use dahl::model::Sequential;
use dahl::train::{Checkpoint, Event};
use dahl_runtime::machine::{Hardware, Machine, Peaks};
use dahl_runtime::perf::{Choice, Date, Identity, Store};
use dahl_trace::{Format, Statistics};
use std::ops::ControlFlow;

/// A checkpoint, from which a run goes on that it may or may not be of.
pub fn checkpoint(bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.write("step-000000000001.safetensors", bytes);
    let Ok(loaded) = Checkpoint::load(&path) else { return };
    let saved = loaded.checkpoint.save(folder.path().join("again")).expect("what was read can be written");
    let again = Checkpoint::load(saved).expect("what dahl writes it reads").checkpoint;
    assert_eq!(again.settings, loaded.checkpoint.settings);
    assert_eq!(again.tensors.to_bytes(), loaded.checkpoint.tensors.to_bytes());
    let resumed = trainer().resume(again);
    let data = dataset::open(DATA, &dataset::Options::default()).expect("synthetic images");
    let _ = resumed.fit_with(&mut model(), &data, |event| match event {
        Event::Step(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
}

const DATA: &str = "synthetic:1x4x4x2:8";

fn model() -> Sequential {
    Sequential::new([1, 4, 4]).flatten().dense(2)
}

fn trainer() -> Trainer {
    Trainer::new(&Machine::with_workers(1)).sgd(0.1).batch(4).epochs(2)
}

/// The bytes of a checkpoint that [`checkpoint`] can go on from.
pub fn small_checkpoint() -> Vec<u8> {
    let folder = Folder::new();
    let data = dataset::open(DATA, &dataset::Options::default()).expect("synthetic images");
    trainer().checkpoint(folder.path(), None).epochs(1).fit(&mut model(), &data).expect("it trains");
    let path = Checkpoint::load(folder.path()).expect("saved").path;
    std::fs::read(path).expect("readable")
}

/// A store of a machine that nothing is known about, whose file of measurements or of choices has these
/// lines.
fn store(folder: &Folder, magic: &str, lines: &[u8]) -> Store {
    let store = Store::at(folder.path(), Identity::new(&Hardware::default(), "any"));
    let path = if magic == CHOICES { store.choices_path() } else { store.path() };
    // The first two lines are those of any file of this machine.
    store.choose("anything", Choice::default()).expect("room for a small file");
    let written = std::fs::read_to_string(store.choices_path()).expect("written just now");
    let machine = written.lines().nth(1).expect("two lines");
    std::fs::remove_file(store.choices_path()).expect("written just now");
    let text = [format!("{magic} 1\n{machine}\n").as_bytes(), lines, b"\nend 0\n"].concat();
    std::fs::write(path, text).expect("room for a small file");
    store
}

const MEASUREMENTS: &str = "dahl-measurements";
const CHOICES: &str = "dahl-choices";
const NOW: Date = Date(1_800_000_000_000_000_000);

/// The lines of a file of measurements: read, added to, read again.
pub fn measurements(bytes: &[u8]) {
    let folder = Folder::new();
    let store = store(&folder, MEASUREMENTS, bytes);
    let models = store.models(NOW).known;
    store.add(&models, NOW).expect("what was read can be written");
    let again = store.models(NOW);
    assert!(again.warnings.is_empty(), "{:?}", again.warnings);
    for (key, _) in models.entries() {
        assert!(again.known.entries().any(|(other, _)| other == key), "{key} was lost");
    }
}

/// The lines of a file of choices: read, added to, read again.
pub fn choices(bytes: &[u8]) {
    let folder = Folder::new();
    let store = store(&folder, CHOICES, bytes);
    let known = store.choices().known;
    let more = Choice { text: "tiles:n=16".into(), date: NOW, note: "of today".into() };
    store.choose("a new key", more.clone()).expect("what was read can be written");
    let again = store.choices();
    assert!(again.warnings.is_empty(), "{:?}", again.warnings);
    assert_eq!(again.known.get("a new key"), Some(&more));
    assert!(known.iter().all(|(key, choice)| key == "a new key" || again.known.get(key) == Some(choice)));
}

/// A saved trace: its statistics, all its exports, and itself once more.
pub fn trace(bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.write("fuzzed.json", bytes);
    let Ok(trace) = dahl_trace::load(&path) else { return };
    let usage = trace.usage();
    assert!(usage.stall >= 0.0 && usage.n_steps < usize::MAX);
    let _ = (trace.seconds(), trace.idle());
    let statistics = Statistics::of(&trace);
    let _ = (statistics.slow_workers(), statistics.slow_implementations(&Peaks::nominal(), &[]));
    let rows = statistics.scope_rows(Some(&Peaks::nominal()));
    assert_eq!(rows.iter().map(|row| row.n).sum::<usize>(), statistics.n_executions());
    for format in Format::ALL {
        dahl_trace::write(&trace, format, std::io::sink()).expect("nothing refuses to be written to");
    }
    let mut written = Vec::new();
    dahl_trace::write(&trace, Format::Json, &mut written).expect("memory for a small file");
    let again = dahl_trace::load(folder.write("again.json", &written)).expect("what dahl writes it reads");
    assert_eq!((&again.workers, &again.scene.scopes), (&trace.workers, &trace.scene.scopes));
}
