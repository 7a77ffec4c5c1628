//! Vector by vector over the flat parameters, one fused multiply-add each.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(sgd, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (g, lr) = (call.input::<T>(0), call.input::<T>(1).at([]));
    let mut p = call.output::<T>(0);
    let (g, p) = (g.contiguous(), p.contiguous());
    let rate = s.splat(-lr);
    for (g, p) in T::lanes(g).iter().zip(T::lanes_mut(p)) {
        s.store(s.mul_add(rate, s.load(g), s.load(p)), p);
    }
    let rest = p.len() - p.len() % T::LANES;
    for (g, p) in g[rest..].iter().zip(&mut p[rest..]) {
        *p = (-lr).fused(*g, *p);
    }
    Ok(())
}
