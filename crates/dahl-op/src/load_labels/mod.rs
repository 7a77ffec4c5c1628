//! Takes the labels of a batch from the data set: `label[n] = labels[index[n]]`, bytes throughout. An index
//! beyond the data set is an error. Bytes: one read, one written per sample.
//!
//! No floating-point number occurs; the codelet is listed under both element types so that a look-up by the
//! type that a model computes in finds it, with the lane count of that type.

mod lanes;

use super::load::checked;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `label[n] = labels[index[n]]`
pub static CODELET: Codelet = Codelet::new(
    "load_labels",
    "labels[*] index[n] -> label[n]",
    0.0,
    super::implementations!((reference, reference), lanes, (lanes::load_labels, lanes::load_labels), 1, [R R L]; (lanes::load_labels, lanes::load_labels), 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// `label[n] = labels[index[n]]`.
    load_labels<>(labels: [u8; 1], index: [u32; 1]) -> (label: [u8; 1]), init load_labels_init
}

fn sample(draw: &mut Draw) -> Sample {
    let n = draw.n_samples();
    let sample = Sample::new(Tolerance::Exact).below(Dtype::U8, [9], 256);
    sample.below(Dtype::U32, [n], 9).below(Dtype::U8, [n], 256)
}

fn reference(call: &Call<'_>) -> Result<()> {
    let (labels, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut label = call.output::<u8>(0);
    for n in label.region().range(0) {
        let entry = checked(index.at([n]), n, &labels.region().range(0))?;
        label.set([n], labels.at([entry]));
    }
    Ok(())
}
