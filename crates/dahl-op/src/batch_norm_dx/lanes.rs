//! Two subtractions, a multiply-add and a product per vector; what depends on the channel is computed once.

use super::{Channel, Known};
use crate::channels::Planes;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_dx, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let known = Known::of(call);
    let (planes, first) = (Planes::of(dx.region()), dx.region().lo()[1]);
    let (x, dy, mut dx) = (T::pieces(&x), T::pieces(&dy), T::pieces_mut(&mut dx));
    for (c, range) in planes.each::<T>() {
        let Channel { mean, scale, shift, slope } = known.channel(first + c);
        let (mean, scale, shift) = (s.splat(mean), s.splat(scale), s.splat(shift));
        let slope = s.splat(-slope);
        for at in range {
            let centred = s.sub(s.load(&x.get(at)), mean);
            let mut gradient = T::ZERO_LANES;
            let above = s.sub(s.load(&dy.get(at)), shift);
            s.store(s.mul(scale, s.mul_add(slope, centred, above)), &mut gradient);
            dx.set(at, gradient);
        }
    }
    Ok(())
}
