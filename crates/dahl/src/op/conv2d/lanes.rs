//! A block of output channels by neighbouring columns in registers, lanes over samples: per tap one vector of
//! `x` per column and one broadcast weight per channel. Each output is one chain of multiply-adds in the order
//! (channel, row, column) of its taps, clipped at the border, so that the blocking, which differs between
//! instruction sets, cannot show in the bits.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d, body);

/// One row of outputs: the slices of one group of samples and where the row lies.
struct Row<'a, T: Real> {
    /// `x[c,iy,ix]`.
    x: &'a [T::Lanes],
    /// `w[k,c,ky,kx]`.
    w: &'a [T],
    /// `b[k]`, where this call adds it.
    bias: Option<&'a [T]>,
    accumulate: bool,
    window: Window,
    n_channels: usize,
    /// Which rows and columns of the image `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// The taps of `w`.
    kys: Range<usize>,
    kxs: Range<usize>,
    /// Which columns the row of outputs holds, and those whose windows lie inside `columns`.
    oxs: Range<usize>,
    interior: Range<usize>,
    /// Elements from one channel of outputs to the next.
    y_plane: usize,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    let (x_shape, y_shape) = (x.region().shape(), y.region().shape());
    let (n_kernels, height, width) = (y_shape[1], y_shape[2], y_shape[3]);
    let x_group: usize = x_shape[1..].iter().product();
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (columns, kxs) = (x.region().range(3), w.region().range(3));
    let (oys, oxs) = (y.region().range(2), y.region().range(3));
    let interior = window.interior(&oxs, &kxs, &columns);
    let bias = if x.region().lo()[1] == 0 { Some(b.contiguous()) } else { None };
    let mut row = Row::<T> {
        x: &[],
        w: w.contiguous(),
        bias,
        accumulate: call.accumulate(),
        window,
        n_channels: x_shape[1],
        rows: x.region().range(2),
        columns,
        kys: w.region().range(2),
        kxs,
        oxs,
        interior,
        y_plane: height * width,
    };
    let (x, y) = (T::lanes(x.contiguous()), T::lanes_mut(y.contiguous()));
    for group in 0..y_shape[0].div_ceil(T::LANES) {
        row.x = &x[group * x_group..][..x_group];
        let y = &mut y[group * n_kernels * height * width..][..n_kernels * height * width];
        for oy in oys.clone() {
            let mut k = 0;
            while k < n_kernels {
                let y = &mut y[k * row.y_plane + (oy - oys.start) * width..];
                // As many accumulators as the registers hold: channels times columns.
                k += match n_kernels - k {
                    8.. if S::ACCUMULATORS >= 24 => row.compute::<S, 8, 3>(s, k, oy, y),
                    4.. if S::ACCUMULATORS >= 24 => row.compute::<S, 4, 6>(s, k, oy, y),
                    2.. if S::ACCUMULATORS >= 24 => row.compute::<S, 2, 8>(s, k, oy, y),
                    1 if S::ACCUMULATORS >= 24 => row.compute::<S, 1, 8>(s, k, oy, y),
                    2.. => row.compute::<S, 2, 3>(s, k, oy, y),
                    _ => row.compute::<S, 1, 4>(s, k, oy, y),
                };
            }
        }
    }
    Ok(())
}

impl<T: Real> Row<'_, T> {
    /// The row `oy` of `K` output channels from `k`, in blocks of `X` columns where no tap needs clipping.
    /// Returns `K`.
    #[inline(always)]
    fn compute<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        k: usize,
        oy: usize,
        y: &mut [T::Lanes],
    ) -> usize {
        let kys = self.window.taps(oy, &self.kys, &self.rows);
        let mut ox = self.oxs.start;
        while ox < self.oxs.end {
            let y = &mut y[ox - self.oxs.start..];
            if self.interior.contains(&ox) && ox + X <= self.interior.end {
                self.block::<S, K, X>(s, k, oy, ox, kys.clone(), self.kxs.clone(), y);
                ox += X;
            } else {
                let kxs = self.window.taps(ox, &self.kxs, &self.columns);
                self.block::<S, K, 1>(s, k, oy, ox, kys.clone(), kxs, y);
                ox += 1;
            }
        }
        K
    }

    /// `K` channels of `X` columns from `ox`, with taps that all lie inside the image.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the coordinates of a block")]
    fn block<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        k: usize,
        oy: usize,
        ox: usize,
        kys: Range<usize>,
        kxs: Range<usize>,
        y: &mut [T::Lanes],
    ) {
        let mut sums = [[s.zero(); X]; K];
        for i in 0..K {
            for j in 0..X {
                if self.accumulate {
                    sums[i][j] = s.load(&y[i * self.y_plane + j]);
                }
                if let Some(bias) = self.bias {
                    sums[i][j] = s.add(sums[i][j], s.splat(bias[k + i]));
                }
            }
        }
        let (stride, pad) = (self.window.stride, self.window.pad);
        let (height, width) = (self.rows.len(), self.columns.len());
        let n_taps = self.n_channels * self.kys.len() * self.kxs.len();
        let mut weights = [self.w; K];
        for i in 0..K {
            weights[i] = &self.w[(k + i) * n_taps..][..n_taps];
        }
        for c in 0..self.n_channels {
            for ky in kys.clone() {
                let iy = oy * stride + ky - pad - self.rows.start;
                let x = &self.x[(c * height + iy) * width..][..width];
                let first_tap = (c * self.kys.len() + (ky - self.kys.start)) * self.kxs.len();
                for kx in kxs.clone() {
                    let ix = ox * stride + kx - pad - self.columns.start;
                    let tap = first_tap + (kx - self.kxs.start);
                    let mut values = [s.zero(); X];
                    for j in 0..X {
                        values[j] = s.load(&x[ix + j * stride]);
                    }
                    for i in 0..K {
                        let weight = s.splat(weights[i][tap]);
                        for j in 0..X {
                            sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
                        }
                    }
                }
            }
        }
        for i in 0..K {
            for j in 0..X {
                s.store(sums[i][j], &mut y[i * self.y_plane + j]);
            }
        }
    }
}
