//! Batch normalisation in training: `out = gamma (x - mean) / sqrt(var + eps) + beta` per channel, with mean and biased
//! variance of the batch. Bytes: `x` read once, `out` written once.

mod lanes;

pub(super) use lanes::normalise;

use super::channels::inverse_deviation;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, for_each_index};

/// `out = gamma (x - mean) / sqrt(var + eps) + beta`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_normalise",
    "x[n,c,y,x] mean[c] var[c] gamma[c] beta[c] -> out[n,c,y,x]",
    3.0,
    super::implementations!(reference, lanes::batch_norm_normalise, 1, [L R R R R L]),
);

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
