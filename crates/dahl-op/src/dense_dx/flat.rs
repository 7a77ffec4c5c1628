//! Samples one after another: vectors of inputs, to which some rows of weights at a time are added, times
//! their gradients. Each input is one chain of multiply-adds in the order of the outputs.

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
    let (n_outputs, n_inputs) = (dy.region().shape()[1], dx.region().shape()[1]);
    let (dy, w, dx) = (dy.contiguous(), w.contiguous(), dx.contiguous());
    if !call.accumulate() {
        dx.fill(T::default());
    }
    for (n, dx) in dx.chunks_exact_mut(n_inputs.max(1)).enumerate() {
        let (fours, rest) = dy[n * n_outputs..][..n_outputs].as_chunks::<4>();
        let (rows, last_rows) = w.split_at(fours.len() * 4 * n_inputs);
        for (dy, rows) in fours.iter().zip(rows.chunks_exact(4 * n_inputs)) {
            add_rows(s, *dy, rows, dx);
        }
        for (&dy, row) in rest.iter().zip(last_rows.chunks_exact(n_inputs)) {
            add_rows(s, [dy], row, dx);
        }
    }
    Ok(())
}

/// Adds `N` rows, each times its factor.
#[inline(always)]
fn add_rows<T: Real, S: Simd<T>, const N: usize>(s: S, factors: [T; N], rows: &[T], to: &mut [T]) {
    let len = to.len();
    let whole = len / T::LANES * T::LANES;
    for (v, to) in T::lanes_mut(to).iter_mut().enumerate() {
        let mut sum = s.load(to);
        for i in 0..N {
            let row = &T::lanes(&rows[i * len..][..len])[v];
            sum = s.mul_add(s.splat(factors[i]), s.load(row), sum);
        }
        s.store(sum, to);
    }
    for (at, to) in (whole..).zip(&mut to[whole..]) {
        for i in 0..N {
            *to = factors[i].fused(rows[i * len + at], *to);
        }
    }
}
