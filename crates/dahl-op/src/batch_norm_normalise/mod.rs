//! Batch normalisation in training: `out = gamma (x - mean) / sqrt(var + eps) + beta` per channel, with mean
//! and biased variance of the batch. Bytes: `x` read once, `out` written once.

mod lanes;

pub(super) use lanes::normalise;

use super::channels::inverse_deviation;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `out = gamma (x - mean) / sqrt(var + eps) + beta`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_normalise",
    "x[n,c,y,x] mean[c] var[c] gamma[c] beta[c] -> out[n,c,y,x]",
    3.0,
    super::implementations!(reference, lanes::batch_norm_normalise, 1, [L R R R R L]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `out = gamma (x - mean) / sqrt(var + eps) + beta`, channel by channel.
    batch_norm_normalise<T>(x: [T; 4], mean: [T; 1], var: [T; 1], gamma: [T; 1], beta: [T; 1]; scalars eps)
        -> (out: [T; 4]), init batch_norm_normalise_init,
        in_place batch_norm_normalise_self(x: [T; 4], mean: [T; 1], var: [T; 1], gamma: [T; 1], beta: [T; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    let sample = Sample::new(Tolerance::Scale(10.0)).scalars(&[1e-5]);
    sample.real([n, c, y, x]).real([c]).real_in([c], 0.1..2.0).real([c]).real([c]).real([n, c, y, x])
}

pub(super) fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, mean, var) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (gamma, beta) = (call.input::<T>(3), call.input::<T>(4));
    let mut out = call.output::<T>(0);
    for_each_index(out.region(), |index| {
        let c = [index[1]];
        let scale = gamma.at(c) * inverse_deviation(var.at(c), call.scalar(0));
        out.put(index, (x.get(index) - mean.at(c)) * scale + beta.at(c));
    });
    Ok(())
}
