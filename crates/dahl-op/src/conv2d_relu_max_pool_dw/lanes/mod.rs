//! Rows of taps in registers, lanes over samples, as the gradient of a convolution's weights by itself; but
//! the gradients of a row of the convolution's output come from `dy`, lane by lane where `arg` names that place, and are zero
//! elsewhere. Kernels three wide have all their rows in one block, so that a gradient is selected once for nine
//! multiply-adds. Sums run lane by lane over the pixels of a group, then over groups, and across lanes once at the end; the
//! padding lanes of a ragged group are not added. The usual pools have a quicker way, [`pairs`], and 5x5 taps one with
//! fewer multiplications (`conv2d_dw/reduced`).

mod pairs;

use super::flat as windows;
use crate::conv2d_dw::few::{Few, has_whole};
use crate::conv2d_dw::reduced::{Pooled, Reduced};
use crate::conv2d_relu_max_pool::checked_size;
use crate::convolve::Axis;
use crate::flat::{Flat, Order};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::sums::all_finite;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::array::Shape;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d_relu_max_pool_dw, body);

/// The arguments of a call, in lanes.
#[derive(Clone)]
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
    /// Rows and columns of the convolution's output.
    out_height: usize,
    out_width: usize,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (kys, kxs) = (dw.region().range(2), dw.region().range(3));
    let n_outputs = |dim: usize| {
        let covered = x.extent()[dim] + 2 * window.pad;
        covered.saturating_sub(dw.extent()[dim]) / window.stride + 1
    };
    let (out_height, out_width) = (n_outputs(2), n_outputs(3));
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
        out_height,
        out_width,
    };
    let weights = *dw.extent();
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    let (dw, db) = (dw.contiguous(), db.contiguous());
    if !call.accumulate() {
        dw.fill(T::default());
        db.fill(T::default());
    }
    let db = if has_bias { db } else { &mut [] };
    let is_whole = has_whole(call, [1, 3]);
    for samples in Order::Lanes.parts::<T>(job.n_samples) {
        job.part(samples).add(s, (&kys, &kxs), (&weights, is_whole), dw);
    }
    for (k, sum) in db.iter_mut().enumerate() {
        let is_covered = job.size == 2 && job.stride == 2 && job.out_width == 2 * job.pxs.len();
        *sum += if is_covered { job.bias::<S, true>(s, k) } else { job.bias::<S, false>(s, k) };
    }
    Ok(())
}

/// Which taps a block covers: from `ky` and `kx` on, of input channel `c` for output channel `k`.
#[derive(Clone, Copy)]
struct Place {
    k: usize,
    c: usize,
    ky: usize,
    kx: usize,
}

impl<T: Real> Job<'_, T> {
    /// Some samples of it.
    fn part(&self, samples: Range<usize>) -> Self {
        let groups = |len: usize| {
            let range = Order::Lanes.range::<T>(&samples, len);
            range.start / T::LANES..range.end / T::LANES
        };
        let windows = groups(self.n_kernels * self.pys.len() * self.pxs.len());
        Job {
            x: &self.x[groups(self.n_channels * self.rows.len() * self.columns.len())],
            dy: &self.dy[windows.clone()],
            arg: &self.arg[windows],
            n_samples: samples.len(),
            ..self.clone()
        }
    }

    /// Adds the gradients of weights, by the quickest way that there is.
    #[inline(always)]
    fn add<S: Simd<T>>(
        &self,
        s: S,
        (kys, kxs): (&Range<usize>, &Range<usize>),
        (weights, is_whole): (&Shape, bool),
        dw: &mut [T],
    ) {
        let axes = self.axes((kys, kxs));
        let (axes, channels) = (axes.each_ref(), [self.n_kernels, self.n_channels]);
        let few = Few::new(Order::Lanes, (T::flat(self.x), self.n_samples), channels, axes);
        let windows = windows::Pooled {
            dy: T::flat(self.dy),
            arg: T::flat_bytes(self.arg),
            n_kernels: self.n_kernels,
            height: self.pys.len(),
            width: self.pxs.len(),
            stride: self.stride,
            size: self.size,
        };
        let gradients = |flat: &Flat, sample, to: &mut [_]| windows.spread(flat, Order::Lanes, sample, to);
        if few.filter(|_| is_whole).is_some_and(|few| few.add(gradients, |_, _| {}, dw)) {
            return;
        }
        let is_usual = self.size == 2 && self.stride == 2;
        let pooled = Pooled { dy: self.dy, arg: self.arg, height: self.pys.len(), width: self.pxs.len() };
        let reduced = Reduced::new(weights, (self.x, self.n_samples), channels, axes);
        if reduced.filter(|_| is_whole && is_usual).is_some_and(|reduced| reduced.add(&pooled, dw)) {
            return;
        }
        let is_pair = is_usual && self.window.stride == 1;
        // The full gradient has zeros between its values, and so has padding: infinite values times zero are NaN.
        let is_finite = is_pair && all_finite(s, self.x) && (self.window.pad == 0 || all_finite(s, self.dy));
        if !(is_finite && self.pairs((kys, kxs), dw)) {
            self.all(s, (kys.clone(), kxs.clone()), dw);
        }
    }

    /// The axes of the convolution by itself, with all of its output.
    fn axes(&self, (kys, kxs): (&Range<usize>, &Range<usize>)) -> [Axis; 2] {
        let axis = |inputs: &Range<usize>, taps: &Range<usize>, n_outputs: usize| {
            let (inputs, taps) = (inputs.clone(), taps.clone());
            Axis { window: self.window, inputs, taps, outputs: 0..n_outputs }
        };
        [axis(&self.rows, kys, self.out_height), axis(&self.columns, kxs, self.out_width)]
    }

    /// All gradients of weights, a channel at a time, whose share of `dy` then stays in the first cache. Few blocks, as each is
    /// code of its own, and pools of this kind are seldom used.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, (kys, kxs): (Range<usize>, Range<usize>), dw: &mut [T]) {
        for k in 0..self.n_kernels {
            for c in 0..self.n_channels {
                let mut ky = kys.start;
                while ky < kys.end {
                    // As many rows of taps as registers hold: the more, the less often a gradient is selected.
                    let n_rows = if kxs.len() == 3 && kys.end - ky >= 3 { 3 } else { 1 };
                    let mut kx = kxs.start;
                    while kx < kxs.end {
                        let n_taps = match kxs.end - kx {
                            1 => 1,
                            2 | 4 => 2,
                            _ => 3,
                        };
                        let place = Place { k, c, ky, kx };
                        let first = ((k * self.n_channels + c) * kys.len() + ky - kys.start) * kxs.len();
                        let dw = &mut dw[first + kx - kxs.start..];
                        match (n_rows, n_taps) {
                            (3, _) => self.block::<S, 3, 3>(s, place, dw, kxs.len()),
                            (_, 3) => self.block::<S, 1, 3>(s, place, dw, kxs.len()),
                            (_, 2) => self.block::<S, 1, 2>(s, place, dw, kxs.len()),
                            _ => self.block::<S, 1, 1>(s, place, dw, kxs.len()),
                        }
                        kx += n_taps;
                    }
                    ky += n_rows;
                }
            }
        }
    }

    /// The gradients of `Y` rows of `X` taps, of rows of `row_len`.
    #[inline(always)]
    fn block<S: Simd<T>, const Y: usize, const X: usize>(
        &self,
        s: S,
        Place { k, c, ky, kx }: Place,
        dw: &mut [T],
        row_len: usize,
    ) {
        let (height, width) = (self.rows.len(), self.columns.len());
        let (plane, n_windows) = (self.pys.len() * self.pxs.len(), self.pxs.len());
        let windows = self.whole_windows(kx, X);
        let mut totals = [[T::ZERO_LANES; X]; Y];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut sums = [[s.zero(); X]; Y];
            let x = &self.x[(group * self.n_channels + c) * height * width..][..height * width];
            for py in self.pys.clone() {
                let first = (group * self.n_kernels + k) * plane + (py - self.pys.start) * n_windows;
                let (dy, arg) = (&self.dy[first..][..n_windows], &self.arg[first..][..n_windows]);
                for qy in 0..self.size {
                    let oy = py * self.stride + qy;
                    // The row of `x` under each row of taps, where there is one.
                    let mut under: [Option<&[T::Lanes]>; Y] = [None; Y];
                    for r in 0..Y {
                        let iy = self.window.input(oy, ky + r, &self.rows);
                        under[r] = iy.map(|iy| &x[(iy - self.rows.start) * width..][..width]);
                    }
                    let is_inside = under.iter().all(Option::is_some);
                    let interior = if is_inside { windows.clone() } else { self.pxs.start..self.pxs.start };
                    for px in self.pxs.start..interior.start {
                        self.border(s, &mut sums, under, (dy, arg), (px, qy, kx));
                    }
                    for px in interior.clone() {
                        let Window { stride, pad } = self.window;
                        let left = px * self.stride * stride + kx - pad - self.columns.start;
                        let t = px - self.pxs.start;
                        let (dy, arg) = (s.load(&dy[t]), s.load_bytes(&arg[t]));
                        for qx in 0..self.size {
                            let here = s.splat_bytes((qy * self.size + qx) as u8);
                            let selected = s.select(s.eq_bytes(arg, here), dy, s.zero());
                            for r in 0..Y {
                                let row = under[r].unwrap_or_default();
                                let row: &[T::Lanes; X] =
                                    row[left + qx * stride..].first_chunk().expect("taps inside the image");
                                for j in 0..X {
                                    sums[r][j] = s.mul_add(selected, s.load(&row[j]), sums[r][j]);
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
            for r in 0..Y {
                for j in 0..X {
                    let total = s.load(&totals[r][j]);
                    let sum = s.select(valid, s.add(total, sums[r][j]), total);
                    s.store(sum, &mut totals[r][j]);
                }
            }
        }
        for r in 0..Y {
            for j in 0..X {
                dw[r * row_len + j] += s.sum(s.load(&totals[r][j]));
            }
        }
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
    fn border<S: Simd<T>, const Y: usize, const X: usize>(
        &self,
        s: S,
        sums: &mut [[S::V; X]; Y],
        under: [Option<&[T::Lanes]>; Y],
        (dy, arg): (&[T::Lanes], &[T::Bytes]),
        (px, qy, kx): (usize, usize, usize),
    ) {
        let at = px - self.pxs.start;
        for qx in 0..self.size {
            let ox = px * self.stride + qx;
            let here = s.splat_bytes((qy * self.size + qx) as u8);
            let is_here = s.eq_bytes(s.load_bytes(&arg[at]), here);
            let gradient = s.select(is_here, s.load(&dy[at]), s.zero());
            for r in 0..Y {
                let Some(row) = under[r] else { continue };
                for j in 0..X {
                    let Some(ix) = self.window.input(ox, kx + j, &self.columns) else { continue };
                    sums[r][j] = s.mul_add(gradient, s.load(&row[ix - self.columns.start]), sums[r][j]);
                }
            }
        }
    }

    /// The gradient of the bias of channel `k`. Four chains of additions, one for every fourth pixel of the convolution's
    /// output: the order in which the sums of a channel run, without the zeros. `COVERED` says that windows of two by two cover all columns.
    #[inline(always)]
    fn bias<S: Simd<T>, const COVERED: bool>(&self, s: S, k: usize) -> T {
        let (plane, n_windows) = (self.pys.len() * self.pxs.len(), self.pxs.len());
        let mut total = s.zero();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut chains = [s.zero(); CHAINS];
            for py in self.pys.clone() {
                let first = (group * self.n_kernels + k) * plane + (py - self.pys.start) * n_windows;
                let (dy, arg) = (&self.dy[first..][..n_windows], &self.arg[first..][..n_windows]);
                if COVERED {
                    // Pixels follow each other from row to row, so the next window always has the other two chains.
                    for qy in 0..2 {
                        let (left, right) = (s.splat_bytes(2 * qy), s.splat_bytes(2 * qy + 1));
                        for window in dy.iter().zip(arg) {
                            let [a, b, c, d] = chains;
                            chains = [c, d, add_here(s, a, left, window), add_here(s, b, right, window)];
                        }
                    }
                    continue;
                }
                for qy in 0..self.size {
                    let pixel = (py * self.stride + qy) * self.out_width + self.pxs.start * self.stride;
                    for (i, window) in dy.iter().zip(arg).enumerate() {
                        for qx in 0..self.size {
                            let chain = &mut chains[(pixel + i * self.stride + qx) % CHAINS];
                            let here = s.splat_bytes((qy * self.size + qx) as u8);
                            *chain = add_here(s, *chain, here, window);
                        }
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

/// Chains of additions of a channel's sum.
const CHAINS: usize = 4;

/// Adds the gradients of those lanes whose maximum is `here` to a chain.
#[inline(always)]
fn add_here<T: Real, S: Simd<T>>(s: S, chain: S::V, here: S::B, (dy, arg): (&T::Lanes, &T::Bytes)) -> S::V {
    s.select(s.eq_bytes(s.load_bytes(arg), here), s.add(chain, s.load(dy)), chain)
}
