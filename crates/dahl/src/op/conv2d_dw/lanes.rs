//! A block of output channels by taps of one kernel row in registers, lanes over samples: per output pixel one
//! vector of `dy` per channel and one of `x` per tap. Sums run lane by lane over the pixels of a group, then over
//! groups, and across lanes once at the end; the padding lanes of a ragged group are not added.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d_dw, body);

/// The arguments of a call, in lanes.
struct Job<'a, T: Real> {
    /// `x[c,iy,ix]` per group.
    x: &'a [T::Lanes],
    /// `dy[k,oy,ox]` per group.
    dy: &'a [T::Lanes],
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    window: Window,
    /// Which rows and columns `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// Which rows and columns `dy` holds.
    oys: Range<usize>,
    oxs: Range<usize>,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let (kys, kxs) = (dw.region().range(2), dw.region().range(3));
    let job = Job::<T> {
        x: T::lanes(x.contiguous()),
        dy: T::lanes(dy.contiguous()),
        n_samples: dy.region().shape()[0],
        n_channels: x.region().shape()[1],
        n_kernels: dy.region().shape()[1],
        window: Window { stride: call.int(0), pad: call.int(1) },
        rows: x.region().range(2),
        columns: x.region().range(3),
        oys: dy.region().range(2),
        oxs: dy.region().range(3),
    };
    let dw = dw.contiguous();
    if !call.accumulate() {
        dw.fill(T::default());
    }
    for c in 0..job.n_channels {
        for ky in kys.clone() {
            let mut kx = kxs.start;
            while kx < kxs.end {
                let taps = match kxs.end - kx {
                    5 if S::ACCUMULATORS >= 24 => 5,
                    1 => 1,
                    2 | 4 => 2,
                    _ => 3,
                };
                let mut k = 0;
                while k < job.n_kernels {
                    let place =
                        ((k * job.n_channels + c) * kys.len() + ky - kys.start) * kxs.len() + kx - kxs.start;
                    let dw = Target { dw: &mut dw[place..], step: job.n_channels * kys.len() * kxs.len() };
                    let left = job.n_kernels - k;
                    // As many accumulators as the registers hold: channels times taps.
                    k += match taps {
                        5 if left >= 4 => job.block::<S, 4, 5>(s, k, c, ky, kx, dw),
                        5 => job.block::<S, 1, 5>(s, k, c, ky, kx, dw),
                        3 if left >= 8 && S::ACCUMULATORS >= 24 => job.block::<S, 8, 3>(s, k, c, ky, kx, dw),
                        3 if left >= 4 && S::ACCUMULATORS >= 24 => job.block::<S, 4, 3>(s, k, c, ky, kx, dw),
                        3 if left >= 2 => job.block::<S, 2, 3>(s, k, c, ky, kx, dw),
                        3 => job.block::<S, 1, 3>(s, k, c, ky, kx, dw),
                        2 if left >= 8 && S::ACCUMULATORS >= 24 => job.block::<S, 8, 2>(s, k, c, ky, kx, dw),
                        2 if left >= 3 => job.block::<S, 3, 2>(s, k, c, ky, kx, dw),
                        2 => job.block::<S, 1, 2>(s, k, c, ky, kx, dw),
                        _ if left >= 8 && S::ACCUMULATORS >= 24 => job.block::<S, 8, 1>(s, k, c, ky, kx, dw),
                        _ if left >= 4 => job.block::<S, 4, 1>(s, k, c, ky, kx, dw),
                        _ => job.block::<S, 1, 1>(s, k, c, ky, kx, dw),
                    };
                }
                kx += taps;
            }
        }
    }
    Ok(())
}

/// Where a block of results goes: taps side by side, channels `step` apart.
struct Target<'a, T> {
    dw: &'a mut [T],
    step: usize,
}

impl<T: Real> Job<'_, T> {
    /// The gradients of `K` output channels from `k` and `X` taps from `kx`, for one input channel and kernel
    /// row. Returns `K`.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        k: usize,
        c: usize,
        ky: usize,
        kx: usize,
        target: Target<'_, T>,
    ) -> usize {
        let Window { stride, pad } = self.window;
        let (height, width) = (self.rows.len(), self.columns.len());
        let (out_height, out_width) = (self.oys.len(), self.oxs.len());
        let interior = self.window.interior(&self.oxs, &(kx..kx + X), &self.columns);
        let mut totals = [[T::ZERO_LANES; X]; K];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut sums = [[s.zero(); X]; K];
            for oy in self.oys.clone() {
                let Some(iy) = self.window.input(oy, ky, &self.rows) else { continue };
                let x_row = (group * self.n_channels + c) * height + iy - self.rows.start;
                let x = &self.x[x_row * width..][..width];
                let dy_row = (group * self.n_kernels + k) * out_height + oy - self.oys.start;
                let dy = &self.dy[dy_row * out_width..];
                for ox in self.oxs.start..interior.start {
                    self.border(s, &mut sums, x, dy, (ox, kx));
                }
                if !interior.is_empty() {
                    let x = &x[interior.start * stride + kx - pad - self.columns.start..];
                    let mut rows = [&dy[..0]; K];
                    for i in 0..K {
                        let first = i * out_height * out_width + interior.start - self.oxs.start;
                        rows[i] = &dy[first..][..interior.len()];
                    }
                    for t in 0..interior.len() {
                        let x: &[T::Lanes; X] = x[t * stride..].first_chunk().expect("taps inside the image");
                        let mut values = [s.zero(); X];
                        for j in 0..X {
                            values[j] = s.load(&x[j]);
                        }
                        for i in 0..K {
                            let gradient = s.load(&rows[i][t]);
                            for j in 0..X {
                                sums[i][j] = s.mul_add(gradient, values[j], sums[i][j]);
                            }
                        }
                    }
                }
                for ox in interior.end..self.oxs.end {
                    self.border(s, &mut sums, x, dy, (ox, kx));
                }
            }
            let valid = s.first(self.n_samples - group * T::LANES);
            for i in 0..K {
                for j in 0..X {
                    let total = s.load(&totals[i][j]);
                    s.store(s.select(valid, s.add(total, sums[i][j]), total), &mut totals[i][j]);
                }
            }
        }
        for i in 0..K {
            for j in 0..X {
                target.dw[i * target.step + j] += s.sum(s.load(&totals[i][j]));
            }
        }
        K
    }

    /// One output pixel whose window reaches over the border: only the taps inside the image count.
    #[inline(always)]
    fn border<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        sums: &mut [[S::V; X]; K],
        x: &[T::Lanes],
        dy: &[T::Lanes],
        (ox, kx): (usize, usize),
    ) {
        for j in 0..X {
            let Some(ix) = self.window.input(ox, kx + j, &self.columns) else { continue };
            let value = s.load(&x[ix - self.columns.start]);
            for i in 0..K {
                let gradient = s.load(&dy[i * self.oys.len() * self.oxs.len() + ox - self.oxs.start]);
                sums[i][j] = s.mul_add(gradient, value, sums[i][j]);
            }
        }
    }
}
