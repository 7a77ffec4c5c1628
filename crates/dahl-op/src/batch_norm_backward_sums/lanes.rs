//! Both sums in one pass over lanes vectors, across lanes at the end; the deviation divides once per channel.

use crate::channels::{Planes, inverse_deviation};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(batch_norm_backward_sums, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let (mean, var) = (call.input::<T>(2), call.input::<T>(3));
    let (mut dgamma, mut dbeta) = (call.output::<T>(0), call.output::<T>(1));
    let planes = Planes::of(dy.region());
    let (x, dy) = (T::lanes(x.contiguous()), T::lanes(dy.contiguous()));
    let (means, vars) = (mean.contiguous(), var.contiguous());
    let start = |value: T| if call.accumulate() { value } else { T::default() };
    for (c, (dgamma, dbeta)) in dgamma.contiguous().iter_mut().zip(dbeta.contiguous()).enumerate() {
        let mean = s.splat(means[c]);
        let [product, sum]: [T; 2] = planes.sums(
            s,
            c,
            #[inline(always)]
            |at| {
                let gradient = s.load(&dy[at]);
                [s.mul(gradient, s.sub(s.load(&x[at]), mean)), gradient]
            },
        );
        *dgamma = start(*dgamma) + product * inverse_deviation(vars[c], call.scalar(0));
        *dbeta = start(*dbeta) + sum;
    }
    Ok(())
}
