//! Takes the labels of a batch from the data set: `label[n] = labels[index[n]]`, bytes throughout. An index
//! beyond the data set is an error. Bytes: one read, one written per sample.
//!
//! No floating-point number occurs; the codelet is listed under both element types so that a look-up by the
//! type that a model computes in finds it, with the lane count of that type.

mod lanes;

use super::load::checked;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet};

/// `label[n] = labels[index[n]]`
pub static CODELET: Codelet = Codelet::new(
    "load_labels",
    "labels[*] index[n] -> label[n]",
    0.0,
    super::implementations!((reference, reference, lanes::load_labels, lanes::load_labels), 1, [R R L]),
);

fn reference(call: &Call<'_>) -> Result<()> {
    let (labels, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut label = call.output::<u8>(0);
    for n in label.region().range(0) {
        let entry = checked(index.at([n]), n, &labels.region().range(0))?;
        label.set([n], labels.at([entry]));
    }
    Ok(())
}
