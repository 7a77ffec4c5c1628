//! Pools of two by two pixels, behind a convolution that moves by one: the usual ones.
//!
//! Of the two columns of a window at most one has a gradient. So not the gradient is selected for each of
//! them, but the pixels under the taps, of two neighbours the one that belongs to the gradient's column: one
//! multiply-add and one selection per tap and row of a window where the full gradient takes two
//! multiply-adds. That pays where selections and multiply-adds do not wait for each other, and is no loss
//! elsewhere. Sums run in the order of the full gradient, without its zeros.
//!
//! With lanes over samples every lane has its maximum at another place, so that only the selected positions
//! carry a gradient is no way to skip work; but of two neighbouring columns at most one has a gradient, and
//! cores do the selection at the same time as a multiply-add. Rows are not paired as well: the sums would run
//! in another order, and the bits of the separate tasks would be lost. Selecting gradients instead, and
//! multiplying the zeros, costs a fifth of the multiply-adds per input channel; that is left for unusual
//! pools (`direct`).
//!
//! Per row of a window, one channel and 5x5 taps: 25 multiply-adds, 25 selections, 30 loads of pixels.

use super::Job;
use crate::convolve::RESIDENT;
use crate::padded::{Span, copy_inside};
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{Kernel, Simd};
use crate::sums::across;
use std::ops::Range;

/// One input channel of one group of samples.
struct Plane<'a, T: Real> {
    job: &'a Job<'a, T>,
    group: usize,
    /// The pixels under all windows, beginning with the first tap of the first one.
    pixels: &'a [T::Lanes],
    /// Pixels from one row to the next.
    width: usize,
    /// Rows and columns of taps.
    taps: (usize, usize),
}

/// Where a block lies: output channels from `k`, taps from `ky` and `kx` on, counted from the first.
#[derive(Clone, Copy)]
struct TapBlock {
    k: usize,
    ky: usize,
    kx: usize,
}

impl<T: Real> Job<'_, T> {
    /// Whether there is little enough to hold.
    pub(super) fn has_room(&self, taps: (&Range<usize>, &Range<usize>)) -> bool {
        self.pairs_len(taps) <= RESIDENT
    }

    /// Vectors of scratch that it needs: pixels of a channel with padding around, and its sums.
    pub(super) fn pairs_len(&self, taps: (&Range<usize>, &Range<usize>)) -> usize {
        let n_taps = taps.0.len() * taps.1.len();
        if n_taps * self.pys.len() * self.pxs.len() == 0 {
            return 0;
        }
        let (rows, columns) = self.spans(taps);
        n_copied(&rows, &columns) + self.n_kernels * n_taps
    }

    /// Adds to the gradients of all weights.
    pub(super) fn pairs(
        &self,
        ranges: (&Range<usize>, &Range<usize>),
        dw: &mut [T],
        scratch: &mut [T::Lanes],
    ) {
        let taps = (ranges.0.len(), ranges.1.len());
        if taps.0 * taps.1 * self.pys.len() * self.pxs.len() == 0 {
            return;
        }
        let (rows, columns) = self.spans(ranges);
        let scratch = first(scratch, self.pairs_len(ranges));
        let (copied, totals) = scratch.split_at_mut(n_copied(&rows, &columns));
        T::dispatch(PairsKernel { job: self, rows, columns, taps, copied, totals, dw });
    }

    /// The rows and columns of pixels under all windows.
    fn spans(&self, (kys, kxs): (&Range<usize>, &Range<usize>)) -> (Span, Span) {
        let span = |windows: &Range<usize>, taps, pixels| {
            Span::new(self.window, &(2 * windows.start..2 * windows.end), taps, pixels)
        };
        (span(&self.pys, kys, &self.rows), span(&self.pxs, kxs, &self.columns))
    }
}

/// Pixels of a channel that are copied with padding around; none if they need none.
fn n_copied(rows: &Span, columns: &Span) -> usize {
    if rows.is_inside() && columns.is_inside() { 0 } else { rows.len * columns.len }
}

struct PairsKernel<'a, T: Real> {
    job: &'a Job<'a, T>,
    rows: Span,
    columns: Span,
    /// Rows and columns of taps.
    taps: (usize, usize),
    /// Room for the pixels of a channel with padding around; none if they need none.
    copied: &'a mut [T::Lanes],
    /// Room for the sums of a channel.
    totals: &'a mut [T::Lanes],
    dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for PairsKernel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let PairsKernel { job, rows, columns, taps, copied, totals, dw } = self;
        let n_taps = taps.0 * taps.1;
        let (height, width) = (job.rows.len(), job.columns.len());
        for c in 0..job.n_channels {
            totals.fill(T::ZERO_LANES);
            for group in 0..job.n_samples.div_ceil(T::LANES) {
                let x = &job.x[(group * job.n_channels + c) * height * width..][..height * width];
                let (pixels, width) = if copied.is_empty() {
                    (&x[rows.skipped() * width + columns.skipped()..], width)
                } else {
                    copy_inside(s, (&rows, &columns), x, copied);
                    (&*copied, columns.len)
                };
                Plane { job, group, pixels, width, taps }.all(s, totals);
            }
            // Weights of neighbouring output channels lie apart, their sums do not.
            for (i, totals) in totals.chunks(T::LANES).enumerate() {
                let mut sums = T::ZERO_LANES;
                across(s, totals, &mut sums.as_mut()[..totals.len()]);
                for (at, &sum) in (i * T::LANES..job.n_kernels * n_taps).zip(sums.as_ref()) {
                    let (k, tap) = (at / n_taps, at % n_taps);
                    dw[(k * job.n_channels + c) * n_taps + tap] += sum;
                }
            }
        }
    }
}

impl<T: Real> Plane<'_, T> {
    /// Adds what it gives to all output channels, in blocks of as many sums as the registers hold.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, totals: &mut [T::Lanes]) {
        let job = self.job;
        let (height, width) = self.taps;
        let is_wide = const { S::ACCUMULATORS >= 24 };
        let mut k = 0;
        while k < job.n_kernels {
            // Pairs of channels share the pixels; more of them, or more rows, and the compiler keeps sums in
            // memory.
            let n_kernels = if is_wide && job.n_kernels - k >= 2 { 2 } else { 1 };
            let mut ky = 0;
            while ky < height {
                let n_rows = match (width, height - ky) {
                    (5, 2..) if is_wide => 2,
                    (3, 3..) if is_wide => 3,
                    _ => 1,
                };
                let mut kx = 0;
                while kx < width {
                    let n_taps = match width - kx {
                        5 if is_wide => 5,
                        1 => 1,
                        2 | 4 => 2,
                        _ => 3,
                    };
                    let place = TapBlock { k, ky, kx };
                    match (n_kernels, n_rows, n_taps) {
                        (2, 2, _) if is_wide => self.block::<S, 2, 2, 5, 6>(s, place, totals),
                        (2, 3, _) if is_wide => self.block::<S, 2, 3, 3, 4>(s, place, totals),
                        (2, _, 5) if is_wide => self.block::<S, 2, 1, 5, 6>(s, place, totals),
                        (2, _, 3) if is_wide => self.block::<S, 2, 1, 3, 4>(s, place, totals),
                        (2, _, 2) if is_wide => self.block::<S, 2, 1, 2, 3>(s, place, totals),
                        (2, _, _) if is_wide => self.block::<S, 2, 1, 1, 2>(s, place, totals),
                        (_, 2, _) if is_wide => self.block::<S, 1, 2, 5, 6>(s, place, totals),
                        (_, 3, _) if is_wide => self.block::<S, 1, 3, 3, 4>(s, place, totals),
                        (_, _, 5) if is_wide => self.block::<S, 1, 1, 5, 6>(s, place, totals),
                        (_, _, 3) => self.block::<S, 1, 1, 3, 4>(s, place, totals),
                        (_, _, 2) => self.block::<S, 1, 1, 2, 3>(s, place, totals),
                        _ => self.block::<S, 1, 1, 1, 2>(s, place, totals),
                    }
                    kx += n_taps;
                }
                ky += n_rows;
            }
            k += n_kernels;
        }
    }

    /// `K` output channels and `Y` rows of `X` taps, over which windows are `P = X + 1` wide.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const Y: usize, const X: usize, const P: usize>(
        &self,
        s: S,
        TapBlock { k, ky, kx }: TapBlock,
        totals: &mut [T::Lanes],
    ) {
        let Plane { job, group, .. } = *self;
        let (height, width) = self.taps;
        let (n_rows, n_windows) = (job.pys.len(), job.pxs.len());
        let first = (group * job.n_kernels + k) * n_rows * n_windows;
        let mut sums = [[[s.zero(); X]; Y]; K];
        // Rows of windows come twice, not one loop for each row in them: the second would move all sums to
        // other registers.
        for row in 0..2 * n_rows {
            let (py, qy) = (row / 2, (row % 2) as u8);
            let (left, right) = (s.splat_bytes(2 * qy), s.splat_bytes(2 * qy + 1));
            let mut gradients = [(&job.dy[..0], &job.arg[..0]); K];
            for i in 0..K {
                let at = first + (i * n_rows + py) * n_windows;
                gradients[i] = (&job.dy[at..][..n_windows], &job.arg[at..][..n_windows]);
            }
            let mut under = [&self.pixels[..0]; Y];
            for r in 0..Y {
                under[r] = &self.pixels[(row + ky + r) * self.width + kx..][..2 * n_windows + X - 1];
            }
            for px in 0..n_windows {
                let (mut gradient, mut is_right) = ([s.zero(); K], [s.first(0); K]);
                for i in 0..K {
                    let (dy, arg) = (s.load(&gradients[i].0[px]), s.load_bytes(&gradients[i].1[px]));
                    is_right[i] = s.eq_bytes(arg, right);
                    let of_left = s.select(s.eq_bytes(arg, left), dy, s.zero());
                    gradient[i] = s.select(is_right[i], dy, of_left);
                }
                for r in 0..Y {
                    let pixels: &[T::Lanes; P] =
                        under[r][2 * px..].first_chunk().expect("pixels under all windows");
                    let mut before = s.load(&pixels[0]);
                    for j in 0..X {
                        let next = s.load(&pixels[j + 1]);
                        for i in 0..K {
                            let value = s.select(is_right[i], next, before);
                            sums[i][r][j] = s.mul_add(gradient[i], value, sums[i][r][j]);
                        }
                        before = next;
                    }
                }
            }
        }
        let n_valid = job.n_samples - group * T::LANES;
        let valid = s.first(n_valid);
        for i in 0..K {
            for r in 0..Y {
                for j in 0..X {
                    let total = &mut totals[((k + i) * height + ky + r) * width + kx + j];
                    let sum = s.select(valid, sums[i][r][j], s.zero());
                    s.store(s.add(s.load(total), sum), total);
                }
            }
        }
    }
}
