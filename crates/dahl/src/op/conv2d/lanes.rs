//! A block of output channels by neighbouring columns in registers, lanes over samples: per tap one vector of
//! `x` per column and one broadcast weight per channel. The weights of a block of channels are first copied
//! side by side onto the stack, as many rows of taps at a time as fit; between such batches the sums rest in
//! `y`. Each output is one chain of multiply-adds in the order (channel, row, column) of its taps, clipped at the
//! border, so that the blocking, which differs between instruction sets, cannot show in the bits.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d, body);

/// Taps whose weights are on the stack at a time: 8 KiB of `f32` for 8 channels.
const STACK_TAPS: usize = 256;

/// What all blocks of a call share; `x` and `y` in lanes.
struct Job<'a, T: Real> {
    x: &'a [T::Lanes],
    w: &'a [T],
    /// `b[k]`, where this call adds it.
    bias: Option<&'a [T]>,
    accumulate: bool,
    window: Window,
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    /// Which rows and columns of the image `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// The taps of `w`.
    kys: Range<usize>,
    kxs: Range<usize>,
    /// Which rows and columns `y` holds, and the columns whose windows lie inside `columns`.
    oys: Range<usize>,
    oxs: Range<usize>,
    interior: Range<usize>,
}

/// Some rows of taps, for a block of output channels: `weights[row * width + kx][k]`.
struct Taps<'a, T, const K: usize> {
    weights: &'a [[T; K]],
    /// Which rows of taps: `channel * height + ky`.
    rows: Range<usize>,
    /// The bias, or nothing where it has been added already.
    bias: Option<[T; K]>,
    /// Whether to add to what is in `y`.
    add: bool,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (columns, kxs, oxs) = (x.region().range(3), w.region().range(3), y.region().range(3));
    if kxs.len() > STACK_TAPS {
        return super::reference::<T>(call);
    }
    let interior = window.interior(&oxs, &kxs, &columns);
    let job = Job::<T> {
        x: T::lanes(x.contiguous()),
        w: w.contiguous(),
        bias: if x.region().lo()[1] == 0 { Some(b.contiguous()) } else { None },
        accumulate: call.accumulate(),
        window,
        n_samples: y.region().shape()[0],
        n_channels: x.region().shape()[1],
        n_kernels: y.region().shape()[1],
        rows: x.region().range(2),
        columns,
        kys: w.region().range(2),
        kxs,
        oys: y.region().range(2),
        oxs,
        interior,
    };
    let y = T::lanes_mut(y.contiguous());
    let mut k = 0;
    while k < job.n_kernels {
        // As many accumulators as the registers hold: channels times columns.
        k += match job.n_kernels - k {
            8.. if S::ACCUMULATORS >= 24 => job.kernels::<S, 8, 3>(s, k, y),
            4.. if S::ACCUMULATORS >= 24 => job.kernels::<S, 4, 6>(s, k, y),
            2.. if S::ACCUMULATORS >= 24 => job.kernels::<S, 2, 8>(s, k, y),
            1 if S::ACCUMULATORS >= 24 => job.kernels::<S, 1, 8>(s, k, y),
            2.. => job.kernels::<S, 2, 3>(s, k, y),
            _ => job.kernels::<S, 1, 4>(s, k, y),
        };
    }
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// All outputs of `K` output channels from `k`. Returns `K`.
    #[inline(always)]
    fn kernels<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        k: usize,
        y: &mut [T::Lanes],
    ) -> usize {
        let width = self.kxs.len();
        let n_rows = self.n_channels * self.kys.len();
        let mut stack = [[T::default(); K]; STACK_TAPS];
        let per_batch = if width == 0 { 1 } else { STACK_TAPS / width };
        let mut first = 0;
        // Once even without any tap: the bias is due all the same.
        while first < n_rows.max(1) {
            let rows = first..(first + per_batch).min(n_rows);
            let weights = &mut stack[..rows.len() * width];
            for i in 0..K {
                let from = &self.w[((k + i) * n_rows + rows.start) * width..][..weights.len()];
                for (to, &weight) in weights.iter_mut().zip(from) {
                    to[i] = weight;
                }
            }
            let bias = match self.bias {
                Some(bias) if first == 0 => bias[k..].first_chunk().copied(),
                _ => None,
            };
            let taps = Taps { weights, rows, bias, add: self.accumulate || first > 0 };
            self.plane::<S, K, X>(s, k, &taps, y);
            first += per_batch;
        }
        K
    }

    /// Adds some rows of taps to all outputs of the channels, in blocks of `X` columns where nothing is clipped.
    #[inline(always)]
    fn plane<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        k: usize,
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let (height, width) = (self.oys.len(), self.oxs.len());
        let x_len = self.n_channels * self.rows.len() * self.columns.len();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let x = &self.x[group * x_len..][..x_len];
            for oy in self.oys.clone() {
                let row = (group * self.n_kernels + k) * height + oy - self.oys.start;
                let y = &mut y[row * width..];
                let mut ox = self.oxs.start;
                while ox < self.oxs.end {
                    let y = &mut y[ox - self.oxs.start..];
                    if self.interior.contains(&ox) && ox + X <= self.interior.end {
                        self.block::<S, K, X>(s, x, (oy, ox), self.kxs.clone(), taps, y);
                        ox += X;
                    } else {
                        let kxs = self.window.taps(ox, &self.kxs, &self.columns);
                        self.block::<S, K, 1>(s, x, (oy, ox), kxs, taps, y);
                        ox += 1;
                    }
                }
            }
        }
    }

    /// `K` channels of `X` columns from `ox`, with columns of taps that lie inside the image.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        x: &[T::Lanes],
        (oy, ox): (usize, usize),
        kxs: Range<usize>,
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let y_plane = self.oys.len() * self.oxs.len();
        let mut sums = [[s.zero(); X]; K];
        if taps.add {
            for i in 0..K {
                for j in 0..X {
                    sums[i][j] = s.load(&y[i * y_plane + j]);
                }
            }
        }
        if let Some(bias) = &taps.bias {
            for i in 0..K {
                for j in 0..X {
                    sums[i][j] = s.add(sums[i][j], s.splat(bias[i]));
                }
            }
        }
        let Window { stride, pad } = self.window;
        let (height, width) = (self.rows.len(), self.columns.len());
        for (at, row) in taps.rows.clone().enumerate() {
            let (c, ky) = (row / self.kys.len(), self.kys.start + row % self.kys.len());
            let Some(iy) = self.window.input(oy, ky, &self.rows) else { continue };
            let x = &x[(c * height + iy - self.rows.start) * width..][..width];
            let weights = &taps.weights[at * self.kxs.len()..][..self.kxs.len()];
            for kx in kxs.clone() {
                let x = &x[ox * stride + kx - pad - self.columns.start..];
                let mut values = [s.zero(); X];
                if stride == 1 {
                    let x: &[T::Lanes; X] = x.first_chunk().expect("columns inside the image");
                    for j in 0..X {
                        values[j] = s.load(&x[j]);
                    }
                } else {
                    for j in 0..X {
                        values[j] = s.load(&x[j * stride]);
                    }
                }
                let weights = &weights[kx - self.kxs.start];
                for i in 0..K {
                    let weight = s.splat(weights[i]);
                    for j in 0..X {
                        sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
                    }
                }
            }
        }
        for i in 0..K {
            for j in 0..X {
                s.store(sums[i][j], &mut y[i * y_plane + j]);
            }
        }
    }
}
