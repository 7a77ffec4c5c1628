//! How steps of these operations are cut unless somebody says otherwise.
//!
//! Tasks with a sample axis `n` are cut into chunks of 16 samples (in large batches 32 or 64, as long as 16
//! chunks are left), and updates into ranges of at most 4096 weights. Implementations in sample lanes are
//! preferred. A batch that would fill at most half of the lanes is computed without lanes ([`FEW`]), if every
//! task of the step has an implementation that suits it.

use dahl_runtime::array::Layout;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::codelet::{Codelet, Family, Implementation, Needs, Work};
use dahl_runtime::graph::CutOptions;

/// Implementations with lanes over samples.
const LANES: &str = "lanes";
/// Implementations whose arrays are all in row-major order.
pub(crate) const FLAT: &str = "flat";

/// What is computed without lanes, where samples are too few for them: a part of a step alone would have to
/// convert what the others left.
pub static FEW: Family = Family { name: "few", agrees: suits_few, has: |by| !has_lanes(by) };

/// The cut of a step that suits these operations.
pub fn default_cut() -> CutOptions {
    CutOptions {
        tilings: vec![
            vec![("n".into(), TileSize::Between(16, 64))],
            vec![("i".into(), TileSize::AtMost(4096))],
        ],
        implementations: [FEW.name, LANES, FLAT, "reference"].map(String::from).to_vec(),
        ..CutOptions::default()
    }
}

/// Whether at most half of the lanes of a task would be full, and an implementation without lanes suits it;
/// or whether it has none with lanes.
fn suits_few(codelet: &Codelet, work: &Work<'_>) -> bool {
    let lanes = codelet.implementation(LANES, work.dtype).filter(|lanes| has_lanes(lanes));
    let Some(Needs::Layouts(layouts)) = lanes.map(|lanes| lanes.needs) else { return true };
    let is_half_empty = work.shapes.iter().zip(layouts).all(|(shape, layout)| match *layout {
        Layout::Lanes(lanes) => shape.first().is_none_or(|&n_samples| n_samples <= lanes / 2),
        _ => true,
    });
    let flat = || codelet.implementation(FLAT, work.dtype);
    is_half_empty && flat().is_some_and(|flat| (codelet.suits)(flat, work))
}

/// Whether an implementation has some argument in lanes.
fn has_lanes(implementation: &Implementation) -> bool {
    match implementation.needs {
        Needs::Nothing => false,
        Needs::Layouts(layouts) => layouts.iter().any(|layout| matches!(layout, Layout::Lanes(_))),
    }
}
