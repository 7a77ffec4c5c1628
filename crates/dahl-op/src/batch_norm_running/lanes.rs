//! Vector by vector over the channels.

use super::Rates;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::update::update;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_running, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (mean, var) = (call.input::<T>(0), call.input::<T>(1));
    let (mut running_mean, mut running_var) = (call.output::<T>(0), call.output::<T>(1));
    let rates = Rates::<T>::of(call)?;
    let (keep, take) = (s.splat(rates.keep), s.splat(rates.take));
    let correction = s.splat(rates.correction);
    update(
        s,
        [mean.contiguous(), var.contiguous()],
        [running_mean.contiguous(), running_var.contiguous()],
        #[inline(always)]
        |[mean, var], [running_mean, running_var]| {
            let var = s.mul(var, correction);
            [s.mul_add(keep, running_mean, s.mul(take, mean)), s.mul_add(keep, running_var, s.mul(take, var))]
        },
    );
    Ok(())
}
