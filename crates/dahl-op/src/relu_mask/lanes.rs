//! Vector by vector over the flat memory; padding lanes are mapped along, which harms nobody.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(relu_mask, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    if x.region().rank() == 0 {
        // A single number has no lanes.
        return super::reference::<T>(call);
    }
    let (mut y, mut mask) = (call.output::<T>(0), call.output::<u8>(1));
    let (x, mut y) = (T::pieces(&x), T::pieces_mut(&mut y));
    for (at, mask) in T::bytes_mut(mask.contiguous()).iter_mut().enumerate() {
        let value = s.load(&x.get(at));
        let is_positive = s.gt(value, s.zero());
        let mut rectified = T::ZERO_LANES;
        s.store(s.max(s.zero(), value), &mut rectified);
        y.set(at, rectified);
        s.store_bytes(s.select_bytes(is_positive, s.splat_bytes(1), s.splat_bytes(0)), mask);
    }
    Ok(())
}
