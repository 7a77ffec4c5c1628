//! Samples one after another: vectors of columns.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::sums::row_sums;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(channel_sum, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let samples = (dy.region().shape()[0], dy.region().shape()[3]);
    row_sums(s, dy.contiguous(), samples, db.contiguous(), call.accumulate());
    Ok(())
}
