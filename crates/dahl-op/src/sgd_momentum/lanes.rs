//! Vector by vector over the flat parameters, three or four fused multiply-adds each.

use super::is_nesterov;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::update::update;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(sgd_momentum, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (g, lr) = (call.input::<T>(0), call.input::<T>(1).at([]));
    let (mut p, mut v) = (call.output::<T>(0), call.output::<T>(1));
    let (momentum, decay) = (s.splat(T::from_f64(call.scalar(0))), s.splat(T::from_f64(call.scalar(1))));
    let (rate, is_nesterov) = (s.splat(-lr), is_nesterov(call));
    update(
        s,
        [g.contiguous()],
        [p.contiguous(), v.contiguous()],
        #[inline(always)]
        |[g], [p, v]| {
            let gradient = s.mul_add(decay, p, g);
            let velocity = s.mul_add(momentum, v, gradient);
            let direction = if is_nesterov { s.mul_add(momentum, velocity, gradient) } else { velocity };
            [s.mul_add(rate, direction, p), velocity]
        },
    );
    Ok(())
}
