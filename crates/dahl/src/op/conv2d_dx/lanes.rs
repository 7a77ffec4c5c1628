//! A block of input channels by pixels in registers, lanes over samples: per tap one vector of `dy` per pixel and one
//! broadcast weight per channel. The pixels of a block are a stride apart, so that the same taps lie on all of them and
//! their outputs are neighbours; every phase of the stride has its own taps. The weights of a block of input channels
//! are first copied side by side onto the stack, for as many output channels at a time as fit; between such batches
//! the sums rest in `dx`. Each pixel is one chain of multiply-adds in the order (output channel, row, column) of its
//! taps, so that the blocking, which differs between instruction sets, cannot show in the bits.
//!
//! Per multiply-add of a full block of 8 channels by 3 pixels, 11/24 of a vector is read, all of it from the first
//! cache: the arithmetic is what takes the time.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::{Cover, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d_dx, body);

/// Taps whose weights are on the stack at a time: 8 KiB of `f32` for 8 channels.
const STACK_TAPS: usize = 256;

/// What all blocks of a call share; `dy` and `dx` in lanes.
struct Job<'a, T: Real> {
    dy: &'a [T::Lanes],
    w: &'a [T],
    accumulate: bool,
    window: Window,
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    /// Which rows and columns of the image `dx` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// The taps of `w`.
    kys: Range<usize>,
    kxs: Range<usize>,
    /// Which rows and columns `dy` holds.
    oys: Range<usize>,
    oxs: Range<usize>,
}

/// The weights of some output channels for a block of input channels.
struct Taps<'a, T, const C: usize> {
    /// `weights[(k * height + ky) * width + kx][c]`, `k` from the first of `kernels`.
    weights: &'a [[T; C]],
    /// Which output channels.
    kernels: Range<usize>,
    /// Whether to add to what is in `dx`.
    add: bool,
}

/// Which taps lie on the pixels of a block: `m` of the covers of its row and its columns, and the block's place among
/// the pixels of its phase.
struct Place<'a> {
    row: &'a Cover,
    ms: Range<usize>,
    column: &'a Cover,
    /// The first pixel, counted in strides.
    first: usize,
    column_ms: Range<usize>,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let (kys, kxs) = (w.region().range(2), w.region().range(3));
    if kys.len() * kxs.len() > STACK_TAPS {
        // No network has kernels of more than 16x16.
        return super::reference::<T>(call);
    }
    let job = Job::<T> {
        dy: T::lanes(dy.contiguous()),
        w: w.contiguous(),
        accumulate: call.accumulate(),
        window: Window { stride: call.int(0), pad: call.int(1) },
        n_samples: dx.region().shape()[0],
        n_channels: dx.region().shape()[1],
        n_kernels: dy.region().shape()[1],
        rows: dx.region().range(2),
        columns: dx.region().range(3),
        kys,
        kxs,
        oys: dy.region().range(2),
        oxs: dy.region().range(3),
    };
    let dx = T::lanes_mut(dx.contiguous());
    match (job.window.stride, job.kxs.len()) {
        (1, 3) => job.all::<S, 3>(s, dx),
        (1, 5) => job.all::<S, 5>(s, dx),
        _ => job.all::<S, 0>(s, dx),
    }
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// All pixels; kernels are `W` wide and the stride is 1, or either is anything if `W` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const W: usize>(&self, s: S, dx: &mut [T::Lanes]) {
        let mut c = 0;
        while c < self.n_channels {
            // As many accumulators as the registers hold: channels times pixels.
            c += match self.n_channels - c {
                8.. if S::ACCUMULATORS >= 24 => self.channels::<S, 8, 3, W>(s, c, dx),
                4.. if S::ACCUMULATORS >= 24 => self.channels::<S, 4, 6, W>(s, c, dx),
                2.. if S::ACCUMULATORS >= 24 => self.channels::<S, 2, 8, 0>(s, c, dx),
                1 if S::ACCUMULATORS >= 24 => self.channels::<S, 1, 8, 0>(s, c, dx),
                2.. => self.channels::<S, 2, 3, W>(s, c, dx),
                _ => self.channels::<S, 1, 4, 0>(s, c, dx),
            };
        }
    }

    /// All pixels of `C` input channels from `c`. Returns `C`.
    #[inline(always)]
    fn channels<S: Simd<T>, const C: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        c: usize,
        dx: &mut [T::Lanes],
    ) -> usize {
        let per_kernel = self.kys.len() * self.kxs.len();
        let mut stack = [[T::default(); C]; STACK_TAPS];
        let per_batch = STACK_TAPS / per_kernel.max(1);
        let mut first = 0;
        // Once even without any output channel: the sums start at zero all the same.
        while first < self.n_kernels.max(1) {
            let kernels = first..(first + per_batch).min(self.n_kernels);
            let weights = &mut stack[..kernels.len() * per_kernel];
            if per_kernel > 0 {
                for (k, to) in kernels.clone().zip(weights.chunks_exact_mut(per_kernel)) {
                    let from = &self.w[(k * self.n_channels + c) * per_kernel..][..C * per_kernel];
                    for (i, to) in to.iter_mut().enumerate() {
                        for j in 0..C {
                            to[j] = from[j * per_kernel + i];
                        }
                    }
                }
            }
            let taps = Taps { weights, kernels, add: self.accumulate || first > 0 };
            self.planes::<S, C, X, W>(s, c, &taps, dx);
            first += per_batch;
        }
        C
    }

    /// Adds some output channels to all pixels of `C` input channels, in blocks of `X` pixels where no tap is missing.
    #[inline(always)]
    fn planes<S: Simd<T>, const C: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        c: usize,
        taps: &Taps<'_, T, C>,
        dx: &mut [T::Lanes],
    ) {
        let (height, width) = (self.rows.len(), self.columns.len());
        let stride = self.window.stride;
        let dy_len = self.n_kernels * self.oys.len() * self.oxs.len();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let dy = &self.dy[group * dy_len..][..dy_len];
            for iy in 0..height {
                let row = self.window.cover(self.rows.start + iy, &self.kys, &self.oys);
                let dx = &mut dx[((group * self.n_channels + c) * height + iy) * width..];
                for phase in 0..stride.min(width) {
                    let column = self.window.cover(self.columns.start + phase, &self.kxs, &self.oxs);
                    let n_pixels = (width - phase).div_ceil(stride);
                    let interior = column.interior(n_pixels);
                    let mut first = 0;
                    while first < n_pixels {
                        let dx = &mut dx[phase + first * stride..];
                        let place = |column_ms| Place {
                            row: &row,
                            ms: row.taps(0),
                            column: &column,
                            first,
                            column_ms,
                        };
                        if interior.contains(&first) && first + X <= interior.end {
                            self.block::<S, C, X, W>(s, dy, place(0..column.n_taps), taps, dx);
                            first += X;
                        } else {
                            self.block::<S, C, 1, 0>(s, dy, place(column.taps(first)), taps, dx);
                            first += 1;
                        }
                    }
                }
            }
        }
    }

    /// `C` channels of `X` pixels, with taps of outputs that are there.
    #[inline(always)]
    fn block<S: Simd<T>, const C: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        dy: &[T::Lanes],
        place: Place<'_>,
        taps: &Taps<'_, T, C>,
        dx: &mut [T::Lanes],
    ) {
        let stride = self.window.stride;
        let plane = self.rows.len() * self.columns.len();
        let mut sums = [[s.zero(); X]; C];
        if taps.add {
            for i in 0..C {
                for j in 0..X {
                    sums[i][j] = s.load(&dx[i * plane + j * stride]);
                }
            }
        }
        let (kernel_height, kernel_width) = (self.kys.len(), self.kxs.len());
        let (out_height, out_width) = (self.oys.len(), self.oxs.len());
        if !place.column_ms.is_empty() {
            // The outputs of the last tap lie furthest to the left: `dy` is read from there.
            let last = place.column_ms.end - 1;
            let left = (place.column.output + (place.first as isize)) as usize - last;
            let first_tap = place.column.tap - self.kxs.start + place.column_ms.start * stride;
            for (k, weights) in
                taps.kernels.clone().zip(taps.weights.chunks_exact(kernel_height * kernel_width))
            {
                for m in place.ms.clone() {
                    let oy = (place.row.output - m as isize) as usize;
                    let ky = place.row.tap - self.kys.start + m * stride;
                    let dy = &dy[(k * out_height + oy) * out_width..][left..out_width];
                    let weights = &weights[ky * kernel_width..][first_tap..kernel_width];
                    if W > 0 {
                        let weights: &[[T; C]; W] = weights.first_chunk().expect("kernels of this width");
                        for kx in 0..W {
                            tap(s, &mut sums, &dy[W - 1 - kx..], &weights[kx]);
                        }
                    } else {
                        for m in 0..place.column_ms.len() {
                            tap(s, &mut sums, &dy[place.column_ms.len() - 1 - m..], &weights[m * stride]);
                        }
                    }
                }
            }
        }
        for i in 0..C {
            for j in 0..X {
                s.store(sums[i][j], &mut dx[i * plane + j * stride]);
            }
        }
    }
}

/// Adds one tap to a block: pixel `j` reads `dy[j]`.
#[inline(always)]
fn tap<T: Real, S: Simd<T>, const C: usize, const X: usize>(
    s: S,
    sums: &mut [[S::V; X]; C],
    dy: &[T::Lanes],
    weights: &[T; C],
) {
    let dy: &[T::Lanes; X] = dy.first_chunk().expect("outputs that are there");
    let mut values = [s.zero(); X];
    for j in 0..X {
        values[j] = s.load(&dy[j]);
    }
    for i in 0..C {
        let weight = s.splat(weights[i]);
        for j in 0..X {
            sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
        }
    }
}
