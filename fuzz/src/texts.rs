//! Texts that people write: models, machines, ways to cut.

use super::plans::Step;
use dahl::model::Sequential;
use dahl_runtime::graph::lower;
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::machine::{Machine, MachineFile};
use dahl_runtime::plan::Plan;

/// A model file, read with images of 8 x 8 in ten classes and without any.
pub fn model(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for (input, classes) in [(Some([1, 8, 8]), Some(10)), (None, None)] {
        let Ok(mut model) = Sequential::from_toml(text, "fuzzed.toml", input, classes) else { continue };
        let written = model.to_toml();
        let again = Sequential::from_toml(&written, "written.toml", None, classes).expect("what dahl writes");
        assert_eq!(again.to_toml(), written);
        let _ = (model.summary(), model.classes(), model.n_statistics());
        if model.n_weights().is_ok_and(|n| n <= 1 << 16) {
            let _ = model.initialise(1);
        }
    }
}

/// A machine file.
pub fn machine(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(file) = MachineFile::from_text(text) else { return };
    let written = file.to_text();
    assert_eq!(MachineFile::from_text(&written).expect("what dahl writes"), file, "{written}");
    if let Some(measured) = &file.measured {
        let _ = measured.peaks(file.machine.units.len()).seconds("f32", 1e6, 1 << 20, true);
    }
}

/// Options of a cut, tried on a small step.
pub fn cut(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(options) = CutOptions::parse(text) else { return };
    assert_eq!(CutOptions::parse(&options.to_string()).expect("what dahl writes"), options);
    let graph = Step::small().graph;
    if let Ok(lowered) = Cut::heuristic(&graph, &options).and_then(|cut| lower(&graph, &cut)) {
        let plan = Plan::heuristic(&lowered, &Machine::with_workers(3)).expect("a small plan");
        assert_eq!(plan.placement().expect("planned").sequence.len(), lowered.tasks().len());
    }
}
