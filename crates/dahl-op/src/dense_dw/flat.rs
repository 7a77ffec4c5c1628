//! Samples one after another: vectors of inputs, to which all samples are added, times their gradients. Each
//! weight is one chain of multiply-adds in the order of the samples.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense_dw, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let n_samples = x.region().shape()[0];
    let (n_outputs, n_inputs) = (dw.region().shape()[0], dw.region().shape()[1]);
    let (x, dy) = (x.contiguous(), dy.contiguous());
    let whole = n_inputs / T::LANES * T::LANES;
    for (o, dw) in dw.contiguous().chunks_exact_mut(n_inputs.max(1)).enumerate() {
        let samples = || (0..n_samples).map(|n| (dy[n * n_outputs + o], &x[n * n_inputs..][..n_inputs]));
        for (v, dw) in T::lanes_mut(dw).iter_mut().enumerate() {
            let mut sum = if call.accumulate() { s.load(dw) } else { s.zero() };
            for (gradient, x) in samples() {
                sum = s.mul_add(s.splat(gradient), s.load(&T::lanes(x)[v]), sum);
            }
            s.store(sum, dw);
        }
        for (i, dw) in (whole..).zip(&mut dw[whole..]) {
            let start = if call.accumulate() { *dw } else { T::default() };
            *dw = samples().fold(start, |sum, (gradient, x)| gradient.fused(x[i], sum));
        }
    }
    Ok(())
}
