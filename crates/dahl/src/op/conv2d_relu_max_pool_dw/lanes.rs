//! A block of output channels by taps in registers, lanes over samples, as the gradient of a convolution's weights by
//! itself; but the gradients of a row of the convolution's output come from `dy`, lane by lane where `arg` names that
//! place, and zero elsewhere. Where kernels are three wide, all their rows are in one block, so that a gradient is
//! selected once for nine multiply-adds. Sums run lane by lane over the pixels of a group, then over groups, and across lanes
//! once at the end; the padding lanes of a ragged group are not added.
//!
//! Per window, row of it, and channel of a block of 2 channels by 3x3 taps: 18 multiply-adds, 11 loads and 4 selections, of
//! which a core does one, one and two per cycle.

use crate::op::conv2d_relu_max_pool::checked_size;
use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d_relu_max_pool_dw, body);

/// The arguments of a call, in lanes.
struct Job<'a, T: Real> {
    /// `x[c,iy,ix]` per group.
    x: &'a [T::Lanes],
    /// `dy[k,py,px]` and `arg[k,py,px]` per group.
    dy: &'a [T::Lanes],
    arg: &'a [T::Bytes],
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    window: Window,
    /// Which rows and columns `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// Stride and size of the pool.
    stride: usize,
    size: usize,
    /// Which rows and columns `dy` holds.
    pys: Range<usize>,
    pxs: Range<usize>,
    /// Columns of the convolution's output.
    out_width: usize,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (kys, kxs) = (dw.region().range(2), dw.region().range(3));
    let covered = x.extent()[3] + 2 * window.pad;
    let job = Job::<T> {
        x: T::lanes(x.contiguous()),
        dy: T::lanes(dy.contiguous()),
        arg: T::bytes(arg.contiguous()),
        n_samples: dy.region().shape()[0],
        n_channels: dw.region().shape()[1],
        n_kernels: db.region().shape()[0],
        window,
        rows: x.region().range(2),
        columns: x.region().range(3),
        stride: call.int(2),
        size: checked_size(call.int(3))?,
        pys: dy.region().range(2),
        pxs: dy.region().range(3),
        out_width: covered.saturating_sub(dw.extent()[3]) / window.stride + 1,
    };
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    let (dw, db) = (dw.contiguous(), db.contiguous());
    if !call.accumulate() {
        dw.fill(T::default());
        db.fill(T::default());
    }
    if job.size == 2 && job.stride == 2 {
        job.all::<S, 2>(s, kys, kxs, dw);
    } else {
        job.all::<S, 0>(s, kys, kxs, dw);
    }
    if has_bias {
        for (k, sum) in db.iter_mut().enumerate() {
            *sum += job.bias(s, k);
        }
    }
    Ok(())
}

/// Which taps a block covers: from `ky` and `kx` on, for input channel `c` and output channels from `k`.
#[derive(Clone, Copy)]
struct Place {
    k: usize,
    c: usize,
    ky: usize,
    kx: usize,
}

/// Where a block of results goes: taps of a row side by side, rows `row` and output channels `kernel` apart.
struct Target<'a, T> {
    dw: &'a mut [T],
    row: usize,
    kernel: usize,
}

impl<T: Real> Job<'_, T> {
    /// All gradients of weights. Pools are `Q` wide and as far apart, or of any size if `Q` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const Q: usize>(&self, s: S, kys: Range<usize>, kxs: Range<usize>, dw: &mut [T]) {
        let mut k = 0;
        while k < self.n_kernels {
            let left = self.n_kernels - k;
            // The gradients of these channels stay in the first cache.
            let block = if S::ACCUMULATORS < 24 || left < 4 { left.min(2) } else { 4 };
            for c in 0..self.n_channels {
                let mut ky = kys.start;
                while ky < kys.end {
                    let n_rows = if kxs.len() == 3 && kys.end - ky >= 3 { 3 } else { 1 };
                    let mut kx = kxs.start;
                    while kx < kxs.end {
                        let n_taps = match kxs.end - kx {
                            5 if S::ACCUMULATORS >= 24 => 5,
                            1 => 1,
                            2 | 4 => 2,
                            _ => 3,
                        };
                        let mut done = 0;
                        while done < block {
                            let place = Place { k: k + done, c, ky, kx };
                            let first =
                                ((place.k * self.n_channels + c) * kys.len() + ky - kys.start) * kxs.len();
                            let target = Target {
                                dw: &mut dw[first + kx - kxs.start..],
                                row: kxs.len(),
                                kernel: self.n_channels * kys.len() * kxs.len(),
                            };
                            // Few blocks for pools that are seldom used: each is a function of its own.
                            let is_wide = Q > 0 && S::ACCUMULATORS >= 24;
                            done += match (n_rows, n_taps, block - done) {
                                (3, 3, 2..) if is_wide => self.block::<S, 2, 3, 3, Q>(s, place, target),
                                (3, 3, _) => self.block::<S, 1, 3, 3, Q>(s, place, target),
                                (_, 5, 4..) if is_wide => self.block::<S, 4, 1, 5, Q>(s, place, target),
                                (_, 5, _) => self.block::<S, 1, 1, 5, Q>(s, place, target),
                                (_, 3, 4..) if is_wide => self.block::<S, 4, 1, 3, Q>(s, place, target),
                                (_, 3, _) => self.block::<S, 1, 1, 3, Q>(s, place, target),
                                (_, 2, _) => self.block::<S, 1, 1, 2, Q>(s, place, target),
                                _ => self.block::<S, 1, 1, 1, Q>(s, place, target),
                            };
                        }
                        kx += n_taps;
                    }
                    ky += n_rows;
                }
            }
            k += block;
        }
    }

    /// The gradients of `K` output channels, and `Y` rows of `X` taps. Returns `K`.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const Y: usize, const X: usize, const Q: usize>(
        &self,
        s: S,
        place: Place,
        target: Target<'_, T>,
    ) -> usize {
        let Place { k, c, ky, kx } = place;
        let (height, width) = (self.rows.len(), self.columns.len());
        let size = if Q > 0 { Q } else { self.size };
        let plane = self.pys.len() * self.pxs.len();
        let windows = self.whole_windows(kx, X);
        let mut totals = [[[T::ZERO_LANES; X]; Y]; K];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut sums = [[[s.zero(); X]; Y]; K];
            let x = &self.x[(group * self.n_channels + c) * height * width..][..height * width];
            for py in self.pys.clone() {
                let first = (group * self.n_kernels + k) * plane + (py - self.pys.start) * self.pxs.len();
                let (dy, arg) = (&self.dy[first..], &self.arg[first..]);
                for qy in 0..size {
                    let oy = py * self.stride + qy;
                    // The row of `x` under each row of taps, where there is one.
                    let mut under: [Option<&[T::Lanes]>; Y] = [None; Y];
                    for r in 0..Y {
                        under[r] = self
                            .window
                            .input(oy, ky + r, &self.rows)
                            .map(|iy| &x[(iy - self.rows.start) * width..][..width]);
                    }
                    let mut inside = [&x[..0]; Y];
                    let mut is_inside = !windows.is_empty();
                    for r in 0..Y {
                        match under[r] {
                            Some(row) => inside[r] = row,
                            None => is_inside = false,
                        }
                    }
                    let interior = if is_inside { windows.clone() } else { self.pxs.start..self.pxs.start };
                    for px in self.pxs.start..interior.start {
                        self.border(s, &mut sums, under, (dy, arg), (px, qy, kx));
                    }
                    if !interior.is_empty() {
                        let Window { stride, pad } = self.window;
                        let (from, n) = (interior.start - self.pxs.start, interior.len());
                        let left = interior.start * self.stride * stride + kx - pad - self.columns.start;
                        let step = if Q > 0 { Q * stride } else { self.stride * stride };
                        let span = (size - 1) * stride + X;
                        for r in 0..Y {
                            inside[r] = &inside[r][left..][..(n - 1) * step + span];
                        }
                        let mut gradients = [(&dy[..0], &arg[..0]); K];
                        for i in 0..K {
                            gradients[i] = (&dy[i * plane + from..][..n], &arg[i * plane + from..][..n]);
                        }
                        for t in 0..n {
                            for qx in 0..size {
                                let mut values = [[s.zero(); X]; Y];
                                for r in 0..Y {
                                    let row: &[T::Lanes; X] = inside[r][t * step + qx * stride..]
                                        .first_chunk()
                                        .expect("taps inside the image");
                                    for j in 0..X {
                                        values[r][j] = s.load(&row[j]);
                                    }
                                }
                                let here = s.splat_bytes((qy * size + qx) as u8);
                                for i in 0..K {
                                    let (dy, arg) = gradients[i];
                                    let is_here = s.eq_bytes(s.load_bytes(&arg[t]), here);
                                    let gradient = s.select(is_here, s.load(&dy[t]), s.zero());
                                    for r in 0..Y {
                                        for j in 0..X {
                                            sums[i][r][j] = s.mul_add(gradient, values[r][j], sums[i][r][j]);
                                        }
                                    }
                                }
                            }
                        }
                    }
                    for px in interior.end..self.pxs.end {
                        self.border(s, &mut sums, under, (dy, arg), (px, qy, kx));
                    }
                }
            }
            let valid = s.first(self.n_samples - group * T::LANES);
            for i in 0..K {
                for r in 0..Y {
                    for j in 0..X {
                        let total = s.load(&totals[i][r][j]);
                        let sum = s.select(valid, s.add(total, sums[i][r][j]), total);
                        s.store(sum, &mut totals[i][r][j]);
                    }
                }
            }
        }
        for i in 0..K {
            for r in 0..Y {
                for j in 0..X {
                    target.dw[i * target.kernel + r * target.row + j] += s.sum(s.load(&totals[i][r][j]));
                }
            }
        }
        K
    }

    /// Which windows of the pool have all of `n_taps` taps from `kx` inside the image, at each of their columns.
    #[inline(always)]
    fn whole_windows(&self, kx: usize, n_taps: usize) -> Range<usize> {
        let all = self.pxs.start * self.stride..self.pxs.end.saturating_sub(1) * self.stride + self.size;
        let whole = self.window.interior(&all, &(kx..kx + n_taps), &self.columns);
        let lo = whole.start.div_ceil(self.stride).clamp(self.pxs.start, self.pxs.end);
        let hi = match whole.end.checked_sub(self.size) {
            Some(last) if !whole.is_empty() => (last / self.stride + 1).clamp(lo, self.pxs.end),
            _ => lo,
        };
        lo..hi
    }

    /// One row of one window that reaches over the border: only the taps inside the image count.
    #[inline(always)]
    fn border<S: Simd<T>, const K: usize, const Y: usize, const X: usize>(
        &self,
        s: S,
        sums: &mut [[[S::V; X]; Y]; K],
        under: [Option<&[T::Lanes]>; Y],
        (dy, arg): (&[T::Lanes], &[T::Bytes]),
        (px, qy, kx): (usize, usize, usize),
    ) {
        let plane = self.pys.len() * self.pxs.len();
        let at = px - self.pxs.start;
        for qx in 0..self.size {
            let ox = px * self.stride + qx;
            let here = s.splat_bytes((qy * self.size + qx) as u8);
            for i in 0..K {
                let is_here = s.eq_bytes(s.load_bytes(&arg[i * plane + at]), here);
                let gradient = s.select(is_here, s.load(&dy[i * plane + at]), s.zero());
                for r in 0..Y {
                    let Some(row) = under[r] else { continue };
                    for j in 0..X {
                        let Some(ix) = self.window.input(ox, kx + j, &self.columns) else { continue };
                        let value = s.load(&row[ix - self.columns.start]);
                        sums[i][r][j] = s.mul_add(gradient, value, sums[i][r][j]);
                    }
                }
            }
        }
    }

    /// The gradient of the bias of channel `k`. Four chains of additions, one for every fourth pixel of the convolution's
    /// output: the order in which the sums of a channel run, without the zeros.
    #[inline(always)]
    fn bias<S: Simd<T>>(&self, s: S, k: usize) -> T {
        const CHAINS: usize = 4;
        let plane = self.pys.len() * self.pxs.len();
        let mut total = s.zero();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut chains = [s.zero(); CHAINS];
            for py in self.pys.clone() {
                let first = (group * self.n_kernels + k) * plane + (py - self.pys.start) * self.pxs.len();
                let (dy, arg) = (&self.dy[first..][..self.pxs.len()], &self.arg[first..][..self.pxs.len()]);
                for qy in 0..self.size {
                    let mut pixel = (py * self.stride + qy) * self.out_width + self.pxs.start * self.stride;
                    for (dy, arg) in dy.iter().zip(arg) {
                        let (gradient, place) = (s.load(dy), s.load_bytes(arg));
                        for qx in 0..self.size {
                            let is_here = s.eq_bytes(place, s.splat_bytes((qy * self.size + qx) as u8));
                            let chain = &mut chains[(pixel + qx) % CHAINS];
                            *chain = s.select(is_here, s.add(*chain, gradient), *chain);
                        }
                        pixel += self.stride;
                    }
                }
            }
            let sum = s.add(s.add(chains[0], chains[1]), s.add(chains[2], chains[3]));
            let valid = s.first(self.n_samples - group * T::LANES);
            total = s.select(valid, s.add(total, sum), total);
        }
        s.sum(total)
    }
}
