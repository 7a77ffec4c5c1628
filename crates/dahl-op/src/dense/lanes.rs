//! A block of outputs in registers, lanes over samples: per input one vector of `x` and one broadcast weight
//! per output. Each output is one chain of multiply-adds in the order of the inputs, so that the blocking,
//! which differs between instruction sets, cannot show in the bits.

use crate::real::Real;
use crate::simd::{Simd, block_sizes, lanes_kernel, with_block};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    // The region of `x` is empty where there are no inputs; the outputs are there all the same.
    let n_inputs = x.region().shape()[1];
    let (n_samples, n_outputs) = (y.region().shape()[0], y.region().shape()[1]);
    let has_bias = x.region().lo()[1] == 0;
    let (x, w, b) = (T::lanes(x.contiguous()), w.contiguous(), b.contiguous());
    let y = T::lanes_mut(y.contiguous());
    // Rows that are a multiple of 4 KiB apart share a set of the first cache, which has room for 8 lines.
    let most_outputs =
        S::ACCUMULATORS.min(if (n_inputs * size_of::<T>()).is_multiple_of(4096) { 6 } else { 12 });
    for group in 0..n_samples.div_ceil(T::LANES) {
        let x = &x[group * n_inputs..][..n_inputs];
        let y = &mut y[group * n_outputs..][..n_outputs];
        for outputs in block_sizes(n_outputs, most_outputs) {
            let bias = if has_bias { Some(&b[outputs.clone()]) } else { None };
            let w = &w[outputs.start * n_inputs..outputs.end * n_inputs];
            let y = &mut y[outputs];
            with_block!(y.len(), block(s, x, w, bias, y, call.accumulate()));
        }
    }
    Ok(())
}

#[inline(always)]
fn block<T: Real, S: Simd<T>, const O: usize>(
    s: S,
    x: &[T::Lanes],
    w: &[T],
    bias: Option<&[T]>,
    y: &mut [T::Lanes],
    accumulate: bool,
) {
    let mut sums = [s.zero(); O];
    for o in 0..O {
        if accumulate {
            sums[o] = s.load(&y[o]);
        }
        if let Some(bias) = bias {
            sums[o] = s.add(sums[o], s.splat(bias[o]));
        }
    }
    let n = x.len();
    let mut weights = [w; O];
    for o in 0..O {
        weights[o] = &w[o * n..][..n];
    }
    for i in 0..n {
        let value = s.load(&x[i]);
        for o in 0..O {
            sums[o] = s.mul_add(s.splat(weights[o][i]), value, sums[o]);
        }
    }
    for o in 0..O {
        s.store(sums[o], &mut y[o]);
    }
}
