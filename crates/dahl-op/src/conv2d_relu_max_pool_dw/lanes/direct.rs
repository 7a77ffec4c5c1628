//! By the definition: rows of taps in registers, as the gradient of a convolution's weights by itself; but
//! the gradients of a row of the convolution's output come from `dy`, lane by lane where `arg` names that
//! place, and are zero elsewhere.
//!
//! Kernels three wide have all their rows in one block, so that a gradient is selected once for nine
//! multiply-adds. Sums run lane by lane over the pixels of a group, then over groups, and across lanes once
//! at the end; the padding lanes of a ragged group are not added.

use super::Job;
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::window::Window;
use std::ops::Range;

/// All gradients of weights.
pub(super) struct Direct<'a, 'b, T: Real> {
    pub(super) job: &'a Job<'b, T>,
    /// Rows and columns of taps.
    pub(super) taps: (&'a Range<usize>, &'a Range<usize>),
    pub(super) dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for Direct<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        self.job.all(s, self.taps, self.dw);
    }
}

/// Which taps a block covers: from `ky` and `kx` on, of input channel `c` for output channel `k`.
#[derive(Clone, Copy)]
struct TapBlock {
    k: usize,
    c: usize,
    ky: usize,
    kx: usize,
}

impl<T: Real> Job<'_, T> {
    /// All gradients of weights, a channel at a time, whose share of `dy` then stays in the first cache. Few
    /// blocks, as each is code of its own, and pools of this kind are seldom used.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, (kys, kxs): (&Range<usize>, &Range<usize>), dw: &mut [T]) {
        for k in 0..self.n_kernels {
            for c in 0..self.n_channels {
                let mut ky = kys.start;
                while ky < kys.end {
                    // As many rows of taps as registers hold: the more, the less often a gradient is
                    // selected.
                    let n_rows = if kxs.len() == 3 && kys.end - ky >= 3 { 3 } else { 1 };
                    let mut kx = kxs.start;
                    while kx < kxs.end {
                        let n_taps = match kxs.end - kx {
                            1 => 1,
                            2 | 4 => 2,
                            _ => 3,
                        };
                        let place = TapBlock { k, c, ky, kx };
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
        TapBlock { k, c, ky, kx }: TapBlock,
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

    /// Which windows of the pool have all of `n_taps` taps from `kx` inside the image, at each of their
    /// columns.
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
}
