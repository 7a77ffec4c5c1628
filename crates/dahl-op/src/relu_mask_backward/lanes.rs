//! Vector by vector over the flat memory; padding lanes are mapped along, which harms nobody.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
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
    let (dy, mut dx) = (T::pieces(&dy), T::pieces_mut(&mut dx));
    for (at, mask) in T::bytes(mask.contiguous()).iter().enumerate() {
        let is_zero = s.eq_bytes(s.load_bytes(mask), s.splat_bytes(0));
        let mut gradient = T::ZERO_LANES;
        s.store(s.select(is_zero, s.zero(), s.load(&dy.get(at))), &mut gradient);
        dx.set(at, gradient);
    }
    Ok(())
}
