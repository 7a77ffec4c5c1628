//! Vectors over inputs instead of samples, because the sum runs over samples: squares of inputs by samples
//! are transposed in registers, those of some groups of samples at a time, and each sample then adds
//! `dy[n,o] * x[n, i..]` to a block of rows of `dw`. Only the samples that exist are added, in their order;
//! each weight is one chain of multiply-adds.

use crate::real::Real;
use crate::simd::{Simd, block_sizes, lanes_kernel, with_block};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(dense_dw, body);

/// Groups of samples that are added at a time: two vectors of inputs of all their samples are half of the
/// first cache.
const GROUPS: usize = 8;

/// Some groups of samples of a call, `x` and `dy` in lanes from the first of them.
struct Job<'a, T: Real> {
    x: &'a [T::Lanes],
    dy: &'a [T::Lanes],
    n_samples: usize,
    n_inputs: usize,
    n_outputs: usize,
    /// Whether to add to what is in `dw`.
    add: bool,
}

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
    let part = |group: usize, n_groups: usize| Job::<T> {
        x: &x[group * n_inputs..],
        dy: &dy[group * n_outputs..],
        n_samples: (n_samples - group * T::LANES).min(n_groups * T::LANES),
        n_inputs,
        n_outputs,
        add: call.accumulate() || group > 0,
    };
    let n_groups = n_samples.div_ceil(T::LANES);
    let mut first = 0;
    if n_groups > 1 && const { S::ACCUMULATORS >= 24 } {
        let mut panel = [T::ZERO_BLOCK; 2 * GROUPS];
        for group in (0..n_groups).step_by(GROUPS) {
            first = part(group, GROUPS).pairs(s, &mut panel, dw);
        }
    }
    for group in 0..n_groups {
        part(group, 1).vectors(s, first, dw);
    }
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// Several groups of samples, two vectors of inputs at a time. Returns the first input that is left.
    #[inline(always)]
    fn pairs<S: Simd<T>>(&self, s: S, panel: &mut [T::Block], dw: &mut [T]) -> usize {
        let mut first = 0;
        while first + 2 * T::LANES <= self.n_inputs {
            self.transpose::<S, 2>(s, first, panel);
            let mut o = 0;
            while o < self.n_outputs {
                let dw = &mut dw[o * self.n_inputs + first..];
                o += match self.n_outputs - o {
                    8.. => self.block::<S, 8, 2>(s, o, 0, panel, dw),
                    4.. => self.block::<S, 4, 2>(s, o, 0, panel, dw),
                    2.. => self.block::<S, 2, 2>(s, o, 0, panel, dw),
                    _ => self.block::<S, 1, 2>(s, o, 0, panel, dw),
                };
            }
            first += 2 * T::LANES;
        }
        first
    }

    /// One group of samples, one vector of inputs at a time from `first`: what is read and written for a
    /// block weighs as much as its few sums, so as many rows as possible share the vector.
    #[inline(always)]
    fn vectors<S: Simd<T>>(&self, s: S, first: usize, dw: &mut [T]) {
        let mut panel = [T::ZERO_BLOCK];
        for first in (first..self.n_inputs).step_by(T::LANES) {
            // The last inputs make up a vector together with some that are done, which are then left as they
            // are.
            let start = first.min(self.n_inputs.saturating_sub(T::LANES));
            self.transpose::<S, 1>(s, start, &mut panel);
            for outputs in block_sizes(self.n_outputs, S::ACCUMULATORS.min(12)) {
                let dw = &mut dw[outputs.start * self.n_inputs + start..];
                if self.n_inputs >= T::LANES {
                    with_block!(outputs.len(), vector(s, self, outputs.start, first - start, &panel, dw));
                } else {
                    self.narrow(s, outputs, &panel, dw);
                }
            }
        }
    }

    /// All inputs, fewer than a vector: row by row through a vector beside `dw`.
    #[inline(always)]
    fn narrow<S: Simd<T>>(&self, s: S, outputs: Range<usize>, panel: &[T::Block], dw: &mut [T]) {
        let width = self.n_inputs;
        for (i, o) in outputs.enumerate() {
            let mut row = T::ZERO_LANES;
            let dw = &mut dw[i * self.n_inputs..][..width];
            row.as_mut()[..width].copy_from_slice(dw);
            self.block::<S, 1, 1>(s, o, 0, panel, row.as_mut());
            dw.copy_from_slice(&row.as_ref()[..width]);
        }
    }

    /// Transposes `V` vectors of inputs from `first` of all groups, those of vector `v` of group `g` into
    /// square `g * V + v`. There are zeros where there are no inputs.
    #[inline(always)]
    fn transpose<S: Simd<T>, const V: usize>(&self, s: S, first: usize, panel: &mut [T::Block]) {
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let x = &self.x[group * self.n_inputs..][..self.n_inputs];
            for v in 0..V {
                let rows = x.get(first + v * T::LANES..).unwrap_or_default();
                let square = &mut panel[group * V + v];
                if rows.len() >= T::LANES {
                    s.transpose(T::block(rows), square);
                } else {
                    let mut padded = T::ZERO_BLOCK;
                    padded.as_mut()[..rows.len()].copy_from_slice(rows);
                    s.transpose(&padded, square);
                }
            }
        }
    }

    /// Adds the products of all samples to `O` rows from `o`, `V` vectors wide, the first of which begins
    /// where `dw` does. The first `n_done` inputs are left as they are. Returns `O`.
    #[inline(always)]
    fn block<S: Simd<T>, const O: usize, const V: usize>(
        &self,
        s: S,
        o: usize,
        n_done: usize,
        panel: &[T::Block],
        dw: &mut [T],
    ) -> usize {
        let step = self.n_inputs;
        let mut sums = [[s.zero(); V]; O];
        if self.add {
            for i in 0..O {
                let row = &T::lanes(&dw[i * step..])[..V];
                for v in 0..V {
                    sums[i][v] = s.load(&row[v]);
                }
            }
        }
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let squares = &panel[group * V..][..V];
            let dy = &self.dy[group * self.n_outputs + o..][..O];
            let n_valid = (self.n_samples - group * T::LANES).min(T::LANES);
            for n in 0..n_valid {
                let mut values = [s.zero(); V];
                for v in 0..V {
                    values[v] = s.load(&squares[v].as_ref()[n]);
                }
                for i in 0..O {
                    let gradient = s.splat(dy[i].as_ref()[n]);
                    for v in 0..V {
                        sums[i][v] = s.mul_add(gradient, values[v], sums[i][v]);
                    }
                }
            }
        }
        for i in 0..O {
            let row = &mut T::lanes_mut(&mut dw[i * step..])[..V];
            if n_done > 0 {
                sums[i][0] = s.select(s.first(n_done), s.load(&row[0]), sums[i][0]);
            }
            for v in 0..V {
                s.store(sums[i][v], &mut row[v]);
            }
        }
        O
    }
}

/// A block of one vector of inputs.
#[inline(always)]
fn vector<T: Real, S: Simd<T>, const O: usize>(
    s: S,
    job: &Job<'_, T>,
    o: usize,
    n_done: usize,
    panel: &[T::Block],
    dw: &mut [T],
) {
    job.block::<S, O, 1>(s, o, n_done, panel, dw);
}
