//! Samples one after another: vectors of columns.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::sums::{Rows, add_rows};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(channel_sum, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let [_, n_planes, height, width] = *dy.region().shape() else { unreachable!("dy has four dimensions") };
    let db = db.contiguous();
    if !call.accumulate() {
        db.fill(T::default());
    }
    for sample in dy.contiguous().chunks_exact((n_planes * height * width).max(1)) {
        add_rows(s, sample, Rows { plane: height * width, row: width, height, width }, db);
    }
    Ok(())
}
