//! The gradient of the cross-entropy of probabilities: `dp[n,k] = -1 / (p[n,k] N)` at the label, 0 elsewhere,
//! where `N` is the batch size of the whole array. A label without a probability is an error. Bytes: `p` read
//! once, `dp` written once.

mod lanes;

use super::real::Real;
use super::softmax_ce::checked;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dp = -[k = label] / (p N)`
pub static CODELET: Codelet = Codelet::new(
    "cross_entropy_backward",
    "p[n,k] label[n] -> dp[n,k]",
    2.0,
    super::implementations!(reference, lanes::cross_entropy_backward, 1, [L L L]; reference, 1, [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// The gradient of the probabilities under the mean of `-ln p` at the labels.
    cross_entropy_backward<T>(p: [T; 2], label: [u8; 1]) -> (dp: [T; 2]), init cross_entropy_backward_init,
        in_place cross_entropy_backward_self(p: [T; 2], label: [u8; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.full()];
    let sample = Sample::new(Tolerance::Scale(10.0)).real_in([n, k], 0.1..1.0);
    sample.below(Dtype::U8, [n], k).real([n, k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (p, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut dp = call.output::<T>(0);
    let batch = T::from_f64(p.extent()[0] as f64);
    for n in dp.region().range(0) {
        let label = checked(label.at([n]), n, p.extent()[1])?;
        for k in dp.region().range(1) {
            let gradient = T::from_f64(-1.0) / p.at([n, k]) / batch;
            dp.set([n, k], if k == label { gradient } else { T::default() });
        }
    }
    Ok(())
}
