//! Cross-entropy of probabilities with class labels: `loss = Σ_n -ln p[n,label_n] / N`, where `N` is the
//! batch size of the whole array, so that the tiles of a batch add up to its mean. A label without a
//! probability is an error.
//!
//! Where the probabilities come from a softmax, `softmax_ce` is faster and more accurate: it never forms
//! them. Bytes: one element and a byte read per sample.

mod lanes;

use super::real::Real;
use super::softmax_ce::checked;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `loss += mean -ln p[label]`
pub static CODELET: Codelet = Codelet::new(
    "cross_entropy",
    "p[n,*] label[n] -> loss[] +=",
    2.0,
    super::implementations!(reference, lanes::cross_entropy, 1, [L L R]; reference, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// The mean of `-ln p` at the labels.
    cross_entropy<T>(p: [T; 2], label: [u8; 1]) -> (loss: [T; 0]), init cross_entropy_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.full()];
    let sample = Sample::new(Tolerance::Scale(3.0)).real_in([n, k], 0.1..1.0);
    sample.below(Dtype::U8, [n], k).real([])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (p, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut loss = call.output::<T>(0);
    let batch = T::from_f64(p.extent()[0] as f64);
    let mut total = if call.accumulate() { loss.at([]) } else { T::default() };
    for n in label.region().range(0) {
        let label = checked(label.at([n]), n, p.extent()[1])?;
        total += -p.at([n, label]).logarithm() / batch;
    }
    loss.set([], total);
    Ok(())
}
