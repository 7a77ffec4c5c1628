//! Sums over lanes vectors, across lanes at the end.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::sums::plane_sums;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(channel_sum, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let n_samples = dy.region().shape()[0];
    plane_sums(s, T::lanes(dy.contiguous()), n_samples, db.contiguous(), call.accumulate());
    Ok(())
}
