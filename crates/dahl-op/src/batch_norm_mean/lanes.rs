//! Sums over lanes vectors, across lanes at the end, and one division per channel.

use crate::channels::{Planes, count};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_mean, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut mean = call.output::<T>(0);
    let (planes, count) = (Planes::of(x.region()), count(x.extent()));
    let x = T::lanes(x.contiguous());
    for (c, mean) in mean.contiguous().iter_mut().enumerate() {
        let [sum]: [T; 1] = planes.sums(
            s,
            c,
            #[inline(always)]
            |at| [s.load(&x[at])],
        );
        let start = if call.accumulate() { *mean } else { T::default() };
        *mean = start + sum / count;
    }
    Ok(())
}
