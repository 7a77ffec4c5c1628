//! One subtraction and one multiply-add per vector; what a channel is multiplied with is computed once.

use crate::channels::{Planes, inverse_deviation};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_normalise, normalise);

/// The body, which training and inference share.
#[inline(always)]
pub(crate) fn normalise<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, mean, var) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (gamma, beta) = (call.input::<T>(3), call.input::<T>(4));
    let mut out = call.output::<T>(0);
    let planes = Planes::of(out.region());
    let (mean, var, gamma, beta) =
        (mean.contiguous(), var.contiguous(), gamma.contiguous(), beta.contiguous());
    let (x, mut out) = (T::pieces(&x), T::pieces_mut(&mut out));
    for (c, range) in planes.each::<T>() {
        let (mean, beta) = (s.splat(mean[c]), s.splat(beta[c]));
        let scale = s.splat(gamma[c] * inverse_deviation(var[c], call.scalar(0)));
        for at in range {
            let mut normal = T::ZERO_LANES;
            s.store(s.mul_add(s.sub(s.load(&x.get(at)), mean), scale, beta), &mut normal);
            out.set(at, normal);
        }
    }
    Ok(())
}
