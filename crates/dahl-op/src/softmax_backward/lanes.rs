//! Lanes over samples: one chain of multiply-adds per row, then a product per class vector.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(softmax_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (y, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let n_classes = y.region().shape()[1];
    if n_classes == 0 {
        return Ok(());
    }
    let (y, dy, mut dx) = (T::pieces(&y), T::pieces(&dy), T::pieces_mut(&mut dx));
    for row in (0..dx.len()).step_by(n_classes) {
        let row = row..row + n_classes;
        let mut product = s.zero();
        for k in row.clone() {
            product = s.mul_add(s.load(&y.get(k)), s.load(&dy.get(k)), product);
        }
        for k in row {
            let mut gradient = T::ZERO_LANES;
            s.store(s.mul(s.load(&y.get(k)), s.sub(s.load(&dy.get(k)), product)), &mut gradient);
            dx.set(k, gradient);
        }
    }
    Ok(())
}
