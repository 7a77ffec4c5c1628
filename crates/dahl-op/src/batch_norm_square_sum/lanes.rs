//! Squares of centred vectors, summed over vectors, across lanes at the end, and one division per channel.

use crate::channels::{Planes, count};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_square_sum, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, mean) = (call.input::<T>(0), call.input::<T>(1));
    let mut var = call.output::<T>(0);
    let (planes, count) = (Planes::of(x.region()), count(x.extent()));
    let (x, means) = (T::lanes(x.contiguous()), mean.contiguous());
    for (c, (var, &mean)) in var.contiguous().iter_mut().zip(means).enumerate() {
        let mean = s.splat(mean);
        let [sum]: [T; 1] = planes.sums(
            s,
            c,
            #[inline(always)]
            |at| {
                let centred = s.sub(s.load(&x[at]), mean);
                [s.mul(centred, centred)]
            },
        );
        let start = if call.accumulate() { *var } else { T::default() };
        *var = start + sum / count;
    }
    Ok(())
}
