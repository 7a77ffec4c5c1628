//! Vectors over inputs instead of samples, because the sum runs over samples: a square of inputs by samples is
//! transposed in registers, and each sample then adds `dy[n,o] * x[n, i..]` to a block of rows of `dw`. Only the
//! samples that exist are added, in their order.

use crate::op::real::Real;
use crate::op::simd::{Simd, block_sizes, lanes_kernel, with_block};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(dense_dw, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let n_samples = x.region().shape()[0];
    let (n_outputs, n_inputs) = (dw.region().shape()[0], dw.region().shape()[1]);
    let (x, dy) = (T::lanes(x.contiguous()), T::lanes(dy.contiguous()));
    let dw = dw.contiguous();
    if !call.accumulate() && n_samples == 0 {
        dw.fill(T::default());
    }
    let mut transposed = T::ZERO_BLOCK;
    for first in (0..n_inputs).step_by(T::LANES) {
        let width = (n_inputs - first).min(T::LANES);
        for group in 0..n_samples.div_ceil(T::LANES) {
            let rows = &x[group * n_inputs + first..][..width];
            if width == T::LANES {
                s.transpose(T::block(rows), &mut transposed);
            } else {
                let mut padded = T::ZERO_BLOCK;
                padded.as_mut()[..width].copy_from_slice(rows);
                s.transpose(&padded, &mut transposed);
            }
            let samples = &transposed.as_ref()[..(n_samples - group * T::LANES).min(T::LANES)];
            let dy = &dy[group * n_outputs..][..n_outputs];
            let add = call.accumulate() || group > 0;
            for outputs in block_sizes(n_outputs, S::ACCUMULATORS / 2) {
                let dw = &mut dw[outputs.start * n_inputs + first..];
                let dy = &dy[outputs];
                if width == T::LANES {
                    with_block!(dy.len(), block(s, samples, dy, dw, n_inputs, add));
                } else {
                    narrow(s, samples, dy, dw, n_inputs, width, add);
                }
            }
        }
    }
    Ok(())
}

/// Adds the products of all samples to `O` rows of `dw`, one vector wide and `step` apart.
#[inline(always)]
fn block<T: Real, S: Simd<T>, const O: usize>(
    s: S,
    samples: &[T::Lanes],
    dy: &[T::Lanes],
    dw: &mut [T],
    step: usize,
    add: bool,
) {
    let mut sums = [s.zero(); O];
    if add {
        for o in 0..O {
            sums[o] = s.load(&T::lanes(&dw[o * step..])[0]);
        }
    }
    let dy = &dy[..O];
    for (n, values) in samples.iter().enumerate() {
        let values = s.load(values);
        for o in 0..O {
            sums[o] = s.mul_add(s.splat(dy[o].as_ref()[n]), values, sums[o]);
        }
    }
    for o in 0..O {
        s.store(sums[o], &mut T::lanes_mut(&mut dw[o * step..])[0]);
    }
}

/// The last inputs, fewer than a vector: row by row through a vector beside `dw`.
#[inline(always)]
fn narrow<T: Real, S: Simd<T>>(
    s: S,
    samples: &[T::Lanes],
    dy: &[T::Lanes],
    dw: &mut [T],
    step: usize,
    width: usize,
    add: bool,
) {
    for (o, dy) in dy.iter().enumerate() {
        let mut row = T::ZERO_LANES;
        row.as_mut()[..width].copy_from_slice(&dw[o * step..][..width]);
        block::<T, S, 1>(s, samples, std::slice::from_ref(dy), row.as_mut(), 0, add);
        dw[o * step..][..width].copy_from_slice(&row.as_ref()[..width]);
    }
}
