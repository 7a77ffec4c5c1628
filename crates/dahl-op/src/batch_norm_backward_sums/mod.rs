//! Batch normalisation, backward: the two sums per channel that every gradient needs, which are also the
//! gradients of `gamma` and `beta`.
//!
//! `dgamma[c] = Σ_{n,y,x} dy (x - mean[c]) / sqrt(var[c] + eps)` and `dbeta[c] = Σ_{n,y,x} dy`. Bytes: `x`
//! and `dy` read once.

mod lanes;

use super::channels::inverse_deviation;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dgamma[c] += Σ dy x̂`, `dbeta[c] += Σ dy`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_backward_sums",
    "x[n,c,y,x] dy[n,c,y,x] mean[c] var[c] -> dgamma[c] += dbeta[c] +=",
    4.0,
    super::implementations!(reference, lanes::batch_norm_backward_sums, 1, [L L R R R R]),
)
.samples(sample);

super::forms! {
    /// The gradients of `gamma` and `beta`.
    batch_norm_backward_sums<T>(x: [T; 4], dy: [T; 4], mean: [T; 1], var: [T; 1]; scalars eps)
        -> (dgamma: [T; 1], dbeta: [T; 1]), init batch_norm_backward_sums_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    let sample = Sample::new(Tolerance::Scale(100.0)).scalars(&[1e-5]);
    let sample = sample.real([n, c, y, x]).real([n, c, y, x]).real([c]).real_in([c], 0.1..2.0);
    sample.real([c]).real([c])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let (mean, var) = (call.input::<T>(2), call.input::<T>(3));
    let (mut dgamma, mut dbeta) = (call.output::<T>(0), call.output::<T>(1));
    let region = dy.region();
    let start = |value: T| if call.accumulate() { value } else { T::default() };
    for c in dgamma.region().range(0) {
        let (mut product, mut sum) = (T::default(), T::default());
        for n in region.range(0) {
            for row in region.range(2) {
                for column in region.range(3) {
                    let at = [n, c, row, column];
                    product += dy.at(at) * (x.at(at) - mean.at([c]));
                    sum += dy.at(at);
                }
            }
        }
        let product = product * inverse_deviation(var.at([c]), call.scalar(0));
        dgamma.set([c], start(dgamma.at([c])) + product);
        dbeta.set([c], start(dbeta.at([c])) + sum);
    }
    Ok(())
}
