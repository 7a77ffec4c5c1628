//! Vector by vector over the flat memory; padding lanes are mapped along, which harms nobody.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(relu, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    T::map_flat(
        call,
        #[inline(always)]
        |lanes| {
            let mut y = T::ZERO_LANES;
            s.store(s.max(s.zero(), s.load(&lanes)), &mut y);
            y
        },
    );
    Ok(())
}
