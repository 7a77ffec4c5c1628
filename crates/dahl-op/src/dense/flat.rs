//! Samples one after another: vectors of inputs, and as many outputs at a time as there are lanes, whose sums
//! are then added up across lanes. What is left of the inputs fills a vector with zeros.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::sums::across;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense, body);

/// Outputs whose sums are in registers at a time.
const OUTPUTS: usize = 4;

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    // The region of `x` is empty where there are no inputs; the outputs are there all the same.
    let n_inputs = x.region().shape()[1];
    let n_outputs = y.region().shape()[1];
    let bias = (x.region().lo()[1] == 0).then(|| b.contiguous());
    let (x, w) = (x.contiguous(), w.contiguous());
    for (n, y) in y.contiguous().chunks_exact_mut(n_outputs.max(1)).enumerate() {
        let x = &x[n * n_inputs..][..n_inputs];
        for (first, y) in (0..).step_by(T::LANES).zip(y.chunks_mut(T::LANES)) {
            let mut sums = T::ZERO_BLOCK;
            for (o, sums) in (0..y.len()).step_by(OUTPUTS).zip(sums.as_mut().chunks_mut(OUTPUTS)) {
                // Rows beyond the last are computed like it, and left out.
                let row = |i: usize| &w[(first + (o + i).min(y.len() - 1)) * n_inputs..][..n_inputs];
                products(s, x, [row(0), row(1), row(2), row(3)], sums);
            }
            let mut results = T::ZERO_LANES;
            across(s, sums.as_ref(), results.as_mut());
            for (o, (y, result)) in (first..).zip(y.iter_mut().zip(results.as_ref())) {
                let start = if call.accumulate() { *y } else { T::default() };
                *y = start + bias.map_or(T::default(), |bias| bias[o]) + *result;
            }
        }
    }
    Ok(())
}

/// The products of `x` and some rows, added up lane by lane.
#[inline(always)]
fn products<T: Real, S: Simd<T>>(s: S, x: &[T], rows: [&[T]; OUTPUTS], sums: &mut [T::Lanes]) {
    let mut chains = [s.zero(); OUTPUTS];
    let n_vectors = x.len() / T::LANES;
    let vectors = rows.map(|row| &T::lanes(row)[..n_vectors]);
    for (v, x) in T::lanes(x).iter().enumerate() {
        let value = s.load(x);
        for i in 0..OUTPUTS {
            chains[i] = s.mul_add(value, s.load(&vectors[i][v]), chains[i]);
        }
    }
    let whole = n_vectors * T::LANES;
    if whole < x.len() {
        let rest = |from: &[T]| {
            let mut vector = T::ZERO_LANES;
            vector.as_mut()[..x.len() - whole].copy_from_slice(&from[whole..]);
            vector
        };
        let value = s.load(&rest(x));
        for i in 0..OUTPUTS {
            chains[i] = s.mul_add(value, s.load(&rest(rows[i])), chains[i]);
        }
    }
    for (chain, sum) in chains.into_iter().zip(sums) {
        s.store(chain, sum);
    }
}
