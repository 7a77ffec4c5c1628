//! Vector by vector over the flat parameters.

use super::Rates;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::update::update;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(adam, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    step::<T, S, false>(s, call)
}

/// Adam, or AdamW where the weight decay is decoupled from the gradient.
#[inline(always)]
pub(crate) fn step<T: Real, S: Simd<T>, const DECOUPLED: bool>(s: S, call: &Call<'_>) -> Result<()> {
    let g = call.input::<T>(0);
    let (mut p, mut m, mut v) = (call.output::<T>(0), call.output::<T>(1), call.output::<T>(2));
    let rates = Rates::<T>::of(call);
    let (decay, shrink, take_first) =
        (s.splat(rates.decay), s.splat(rates.shrink), s.splat(rates.take_first));
    let (keep_second, take_second) = (s.splat(rates.keep_second), s.splat(rates.take_second));
    let (correction, eps, size) =
        (s.splat(rates.second_correction), s.splat(rates.eps), s.splat(-rates.size));
    update(
        s,
        [g.contiguous()],
        [p.contiguous(), m.contiguous(), v.contiguous()],
        #[inline(always)]
        |[g], [p, m, v]| {
            let gradient = if DECOUPLED { g } else { s.mul_add(decay, p, g) };
            let parameter = if DECOUPLED { s.mul(p, shrink) } else { p };
            let first = s.mul_add(take_first, s.sub(gradient, m), m);
            let second = s.mul_add(s.mul(take_second, gradient), gradient, s.mul(keep_second, v));
            let deviation = s.add(s.div(s.sqrt(second), correction), eps);
            [s.mul_add(size, s.div(first, deviation), parameter), first, second]
        },
    );
    Ok(())
}
