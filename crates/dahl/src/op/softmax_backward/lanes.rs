//! Lanes over samples: one chain of multiply-adds per row, then a product per class vector.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
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
    let rows = T::lanes(y.contiguous()).chunks_exact(n_classes);
    let rows = rows.zip(T::lanes(dy.contiguous()).chunks_exact(n_classes));
    let dx = T::lanes_mut(dx.contiguous());
    for ((y, dy), dx) in rows.zip(dx.chunks_exact_mut(n_classes)) {
        let mut product = s.zero();
        for (y, dy) in y.iter().zip(dy) {
            product = s.mul_add(s.load(y), s.load(dy), product);
        }
        for ((y, dy), dx) in y.iter().zip(dy).zip(dx) {
            s.store(s.mul(s.load(y), s.sub(s.load(dy), product)), dx);
        }
    }
    Ok(())
}
