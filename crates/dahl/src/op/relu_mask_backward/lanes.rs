//! Vector by vector over the flat memory; padding lanes are mapped along, which harms nobody.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(relu_mask_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (mask, dy) = (call.input::<u8>(0), call.input::<T>(1));
    if dy.region().rank() == 0 {
        // A single number has no lanes.
        return super::reference::<T>(call);
    }
    let mut dx = call.output::<T>(0);
    let inputs = T::bytes(mask.contiguous()).iter().zip(T::lanes(dy.contiguous()));
    for ((mask, dy), dx) in inputs.zip(T::lanes_mut(dx.contiguous())) {
        let is_zero = s.eq_bytes(s.load_bytes(mask), s.splat_bytes(0));
        s.store(s.select(is_zero, s.zero(), s.load(dy)), dx);
    }
    Ok(())
}
