//! Gradients that come from a pool: of two neighbouring columns at most one has a value, lane by lane.
//!
//! So not both are multiplied by a weight each, but their sum by one of two neighbouring weights: in a row of five taps, six
//! multiply-adds and four selections for a pair of columns instead of ten multiply-adds. With three taps, which would be four and two instead
//! of six, nothing was gained. Every pixel is the chain of multiply-adds of the convolution, without zeros that it adds.
//!
//! A row of pairs adds to all the pixels under its taps, which are sums in registers: no tap is ever beyond a border. So rows must be short.
//! Rows of `dy` stay in the first cache while all input channels pass by. 55 µs were measured for 16 samples of `lenet5`'s second convolution,
//! where the multiply-adds of all columns alone need 65 and the convolution takes 75.

use crate::op::convolve::Finish;
use crate::op::convolve::block::unrolled;
use crate::op::real::Real;
use crate::op::simd::{Kernel, Simd};
use crate::op::sums::are_finite;
use std::ops::Range;

/// Taps of a row.
const TAPS: usize = 5;

/// Vectors of `dy` that are read again for every input channel: 20 KiB of the first cache.
const RESIDENT: usize = 320;

/// A gradient of an input by a convolution that moves by one.
pub(super) struct Paired<'a, T: Real> {
    /// `dy[k,oy,ox]` per group; its first column is an even one.
    pub(super) dy: &'a [T::Lanes],
    /// `w[k,c,ky,kx]`, all taps.
    pub(super) w: &'a [T],
    pub(super) dx: &'a mut [T::Lanes],
    pub(super) n_groups: usize,
    pub(super) n_kernels: usize,
    pub(super) n_channels: usize,
    /// Rows and columns of taps.
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) pad: usize,
    /// Which rows and columns `dy` and `dx` hold.
    pub(super) oys: Range<usize>,
    pub(super) oxs: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// Whether to add to what is there.
    pub(super) accumulate: bool,
    pub(super) finish: Finish<'a, T>,
}

impl<T: Real> Kernel<T> for Paired<'_, T> {
    /// Whether it was computed: only if columns come in such pairs, and registers are many.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(mut self, s: S) -> bool {
        if const { S::ACCUMULATORS < 24 } || self.width != TAPS || !matches!(self.oxs.len(), 8 | 10 | 12 | 14)
        {
            return false;
        }
        // A weight that is not finite would make NaN of a zero.
        if !self.is_paired(s) || !are_finite(self.w) {
            return false;
        }
        match self.oxs.len() {
            8 => self.all::<S, 4, 12>(s),
            10 => self.all::<S, 5, 14>(s),
            12 => self.all::<S, 6, 16>(s),
            _ => self.all::<S, 7, 18>(s),
        }
        true
    }
}

impl<T: Real> Paired<'_, T> {
    /// Whether no lane has values in both columns of a pair. Full gradients are told by their first row.
    #[inline(always)]
    fn is_paired<S: Simd<T>>(&self, s: S) -> bool {
        let (zero, one) = (s.zero(), s.splat(T::from_f64(1.0)));
        for row in self.dy.chunks_exact(self.oxs.len().max(1)) {
            let mut both = zero;
            for [left, right] in row.as_chunks::<2>().0 {
                let right = s.select(s.eq(s.load(left), zero), zero, s.load(right));
                both = s.select(s.eq(right, zero), both, one);
            }
            let mut lanes = T::ZERO_LANES;
            s.store(both, &mut lanes);
            if lanes.as_ref().iter().any(|&lane| lane > T::default()) {
                return false;
            }
        }
        true
    }

    /// Everything, by rows of `N` pairs, which cover `U = 2 N + 4` pixels.
    #[inline(always)]
    fn all<S: Simd<T>, const N: usize, const U: usize>(&mut self, s: S) {
        let n_together = (RESIDENT / (self.height * 2 * N).max(1)).max(1);
        for group in 0..self.n_groups {
            let mut k = 0;
            while k < self.n_kernels.max(1) {
                let kernels = k..(k + n_together).min(self.n_kernels);
                for row in self.rows.clone() {
                    for c in 0..self.n_channels {
                        self.row::<S, N, U>(s, (group, c, row), &kernels);
                    }
                }
                k += n_together;
            }
        }
    }

    /// Adds some output channels to a row of pixels.
    #[inline(always)]
    fn row<S: Simd<T>, const N: usize, const U: usize>(
        &mut self,
        s: S,
        (group, c, row): (usize, usize, usize),
        kernels: &Range<usize>,
    ) {
        let (n_rows, n_columns) = (self.rows.len(), self.columns.len());
        let plane = group * self.n_channels + c;
        let line = plane * n_rows + row - self.rows.start;
        let line = line * n_columns..(line + 1) * n_columns;
        let is_first = kernels.start == 0 && !self.accumulate;
        // The column under the first tap of the first pair; before the image, that is beyond its end.
        let first = self.oxs.start.wrapping_sub(self.pad + self.columns.start);
        let mut sums = [s.zero(); U];
        if !is_first {
            let dx = &self.dx[line.clone()];
            for i in 0..U {
                if let Some(before) = dx.get(first.wrapping_add(i)) {
                    sums[i] = s.load(before);
                }
            }
        }
        // The taps whose row of `dy` is there.
        let (height, last) = (self.height, row + self.pad + 1);
        let kys = last.saturating_sub(self.oys.end)..last.saturating_sub(self.oys.start).min(height);
        for k in kernels.clone() {
            let dy =
                &self.dy[(group * self.n_kernels + k) * self.oys.len() * 2 * N..][..self.oys.len() * 2 * N];
            let w = &self.w[(k * self.n_channels + c) * height * TAPS..][..height * TAPS];
            for ky in kys.clone() {
                let pairs: &[[T::Lanes; 2]; N] = dy[(last - 1 - ky - self.oys.start) * 2 * N..]
                    .as_chunks()
                    .0
                    .first_chunk()
                    .expect("a row of pairs");
                let taps: &[T; TAPS] = w[ky * TAPS..].first_chunk().expect("a row of taps");
                let mut w = [s.zero(); TAPS];
                for j in 0..TAPS {
                    w[j] = s.splat(taps[j]);
                }
                // From the last pair to the first, which is the order of the taps.
                unrolled!(i < N, {
                    let i = N - 1 - i;
                    let (left, right) = (s.load(&pairs[i][0]), s.load(&pairs[i][1]));
                    let is_left = s.eq(right, s.zero());
                    let both = s.add(left, right);
                    sums[2 * i] = s.mul_add(left, w[0], sums[2 * i]);
                    unrolled!(j < TAPS - 1, {
                        let weight = s.select(is_left, w[j + 1], w[j]);
                        sums[2 * i + j + 1] = s.mul_add(both, weight, sums[2 * i + j + 1]);
                    });
                    sums[2 * i + TAPS] = s.mul_add(right, w[TAPS - 1], sums[2 * i + TAPS]);
                });
            }
        }
        let y = match self.finish {
            Finish::Where(y) => Some(&y[line.clone()]),
            _ => None,
        };
        let dx = &mut self.dx[line];
        for i in 0..U {
            let at = first.wrapping_add(i);
            let Some(to) = dx.get_mut(at) else { continue };
            let sum = match y {
                Some(y) => {
                    let before = if is_first { s.zero() } else { s.load(to) };
                    s.select(s.gt(s.load(&y[at]), s.zero()), sums[i], before)
                }
                None => sums[i],
            };
            s.store(sum, to);
        }
        // Pixels that no pair reaches.
        if is_first {
            for (at, to) in dx.iter_mut().enumerate() {
                if at.wrapping_sub(first) >= U {
                    s.store(s.zero(), to);
                }
            }
        }
    }
}
