//! Vector by vector over the flat memory; padding lanes are mapped along, which harms nobody.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(relu_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    T::map2_flat(
        call,
        #[inline(always)]
        |y, dy| {
            let mut dx = T::ZERO_LANES;
            s.store(s.select(s.gt(s.load(&y), s.zero()), s.load(&dy), s.zero()), &mut dx);
            dx
        },
    );
    Ok(())
}
