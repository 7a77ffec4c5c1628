//! A block of inputs in registers, lanes over samples: per output one vector of `dy` and a run of broadcast
//! weights. Each input is one chain of multiply-adds in the order of the outputs.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense_dx, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    // The region of `dy` is empty where there are no outputs; the inputs are there all the same.
    let (n_samples, n_outputs) = (dx.region().shape()[0], dy.region().shape()[1]);
    let n_inputs = dx.region().shape()[1];
    let (dy, w) = (T::lanes(dy.contiguous()), w.contiguous());
    let dx = T::lanes_mut(dx.contiguous());
    let accumulate = call.accumulate();
    for group in 0..n_samples.div_ceil(T::LANES) {
        let dy = &dy[group * n_outputs..][..n_outputs];
        let dx = &mut dx[group * n_inputs..][..n_inputs];
        if S::ACCUMULATORS >= 16 {
            blocks::<T, S, 8>(s, dy, w, dx, accumulate);
        } else {
            blocks::<T, S, 4>(s, dy, w, dx, accumulate);
        }
    }
    Ok(())
}

#[inline(always)]
fn blocks<T: Real, S: Simd<T>, const I: usize>(
    s: S,
    dy: &[T::Lanes],
    w: &[T],
    dx: &mut [T::Lanes],
    accumulate: bool,
) {
    let n_inputs = dx.len();
    let (wholes, rest) = dx.as_chunks_mut::<I>();
    let first_rest = wholes.len() * I;
    for (at, dx) in wholes.iter_mut().enumerate() {
        block(s, dy, w, n_inputs, at * I, dx, accumulate);
    }
    for (at, dx) in rest.as_chunks_mut::<1>().0.iter_mut().enumerate() {
        block(s, dy, w, n_inputs, first_rest + at, dx, accumulate);
    }
}

#[inline(always)]
fn block<T: Real, S: Simd<T>, const I: usize>(
    s: S,
    dy: &[T::Lanes],
    w: &[T],
    n_inputs: usize,
    first: usize,
    dx: &mut [T::Lanes; I],
    accumulate: bool,
) {
    let mut sums = [s.zero(); I];
    if accumulate {
        for i in 0..I {
            sums[i] = s.load(&dx[i]);
        }
    }
    for (o, dy) in dy.iter().enumerate() {
        let gradient = s.load(dy);
        let weights: &[T; I] = w[o * n_inputs + first..].first_chunk().expect("a weight per input");
        for i in 0..I {
            sums[i] = s.mul_add(s.splat(weights[i]), gradient, sums[i]);
        }
    }
    for i in 0..I {
        s.store(sums[i], &mut dx[i]);
    }
}
