//! A block of input channels by pixels in registers, lanes over samples: per tap one vector of `dy` per pixel and one
//! broadcast weight per channel. The pixels of a block are a stride apart, so that the same taps lie on all of them and
//! their outputs are neighbours; every phase of the stride has its own taps. At the border, where taps are missing, pixels
//! are computed one by one, with as many chains of additions as the block has channels. The weights of a block of input
//! channels are first copied side by side onto the stack, for as many output channels at a time as fit; between such batches
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

/// Where a block of pixels lies: the taps of its row and its columns, and its first pixel, counted in strides.
struct Place<'a> {
    row: &'a Cover,
    column: &'a Cover,
    first: usize,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let (kys, kxs) = (w.region().range(2), w.region().range(3));
    if kys.len() * kxs.len() > STACK_TAPS {
        // No network has kernels of more than 16x16.
        return super::reference::<T>(call);
    }
    let mut dx = call.output::<T>(0);
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
    job.all::<S>(s, dx);
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// All pixels: blocks of as many accumulators as the registers hold, channels times pixels.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, dx: &mut [T::Lanes]) {
        let mut c = 0;
        while c < self.n_channels {
            let left = self.n_channels - c;
            c += if const { S::ACCUMULATORS >= 24 } {
                match left {
                    8.. => self.channels::<S, 8, 3>(s, c, dx),
                    6.. => self.channels::<S, 6, 4>(s, c, dx),
                    4.. => self.channels::<S, 4, 6>(s, c, dx),
                    2.. => self.channels::<S, 2, 8>(s, c, dx),
                    _ => self.channels::<S, 1, 8>(s, c, dx),
                }
            } else {
                match left {
                    2.. => self.channels::<S, 2, 3>(s, c, dx),
                    _ => self.channels::<S, 1, 4>(s, c, dx),
                }
            };
        }
    }

    /// All pixels of `C` input channels from `c`. Returns `C`.
    #[inline(always)]
    fn channels<S: Simd<T>, const C: usize, const X: usize>(
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
            self.planes::<S, C, X>(s, c, &taps, dx);
            first += per_batch;
        }
        C
    }

    /// Adds some output channels to all pixels of `C` input channels, in blocks of `X` pixels where no tap is missing.
    /// The usual numbers of taps have loops of constant length.
    #[inline(always)]
    fn planes<S: Simd<T>, const C: usize, const X: usize>(
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
                        let place = Place { row: &row, column: &column, first };
                        if interior.contains(&first) && first + X <= interior.end {
                            match column.n_taps {
                                1 => self.block::<S, C, X, 1>(s, dy, place, taps, dx),
                                2 => self.block::<S, C, X, 2>(s, dy, place, taps, dx),
                                3 => self.block::<S, C, X, 3>(s, dy, place, taps, dx),
                                5 => self.block::<S, C, X, 5>(s, dy, place, taps, dx),
                                _ => self.block::<S, C, X, 0>(s, dy, place, taps, dx),
                            }
                            first += X;
                        } else {
                            self.pixel(s, dy, place, taps, dx);
                            first += 1;
                        }
                    }
                }
            }
        }
    }

    /// `C` channels of `X` pixels on which all taps of the row lie: `W`, or any number if `W` is 0.
    #[inline(always)]
    fn block<S: Simd<T>, const C: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        dy: &[T::Lanes],
        place: Place<'_>,
        taps: &Taps<'_, T, C>,
        dx: &mut [T::Lanes],
    ) {
        let mut sums = self.start::<S, C, X>(s, taps, dx);
        // The outputs of the last tap lie furthest to the left: `dy` is read from there.
        let n_taps = if W > 0 { W } else { place.column.n_taps };
        if n_taps == 0 {
            return self.finish(s, &sums, dx);
        }
        let left = (place.column.output + place.first as isize) as usize - (n_taps - 1);
        let (stride, first_tap) = (self.window.stride, place.column.tap - self.kxs.start);
        self.rows(
            &place,
            dy,
            taps,
            #[inline(always)]
            |dy, weights| {
                let (dy, weights) =
                    (&dy[left..][..X + n_taps - 1], &weights[first_tap..][..(n_taps - 1) * stride + 1]);
                for m in 0..n_taps {
                    let mut values = [s.zero(); X];
                    for j in 0..X {
                        values[j] = s.load(&dy[n_taps - 1 - m + j]);
                    }
                    let weights = &weights[m * stride];
                    for i in 0..C {
                        let weight = s.splat(weights[i]);
                        for j in 0..X {
                            sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
                        }
                    }
                }
            },
        );
        self.finish(s, &sums, dx);
    }

    /// `C` channels of one pixel, with the taps that lie on it.
    #[inline(always)]
    fn pixel<S: Simd<T>, const C: usize>(
        &self,
        s: S,
        dy: &[T::Lanes],
        place: Place<'_>,
        taps: &Taps<'_, T, C>,
        dx: &mut [T::Lanes],
    ) {
        let mut sums = self.start::<S, C, 1>(s, taps, dx);
        let ms = place.column.taps(place.first);
        let output = place.column.output + place.first as isize;
        let (stride, first_tap) = (self.window.stride, place.column.tap - self.kxs.start);
        self.rows(
            &place,
            dy,
            taps,
            #[inline(always)]
            |dy, weights| {
                for m in ms.clone() {
                    let value = s.load(&dy[(output - m as isize) as usize]);
                    let weights = &weights[first_tap + m * stride];
                    for i in 0..C {
                        sums[i][0] = s.mul_add(s.splat(weights[i]), value, sums[i][0]);
                    }
                }
            },
        );
        self.finish(s, &sums, dx);
    }

    /// Calls `f` with each row of `dy` that lies on a row of pixels, and the weights of its taps.
    #[inline(always)]
    fn rows<const C: usize>(
        &self,
        place: &Place<'_>,
        dy: &[T::Lanes],
        taps: &Taps<'_, T, C>,
        mut f: impl FnMut(&[T::Lanes], &[[T; C]]),
    ) {
        let (height, width) = (self.kys.len(), self.kxs.len());
        let (out_height, out_width) = (self.oys.len(), self.oxs.len());
        let ms = place.row.taps(0);
        if ms.is_empty() || width == 0 {
            return;
        }
        for (k, weights) in taps.kernels.clone().zip(taps.weights.chunks_exact(height * width)) {
            for m in ms.clone() {
                let oy = (place.row.output - m as isize) as usize;
                let ky = place.row.tap - self.kys.start + m * self.window.stride;
                f(&dy[(k * out_height + oy) * out_width..][..out_width], &weights[ky * width..][..width]);
            }
        }
    }

    /// What the sums of a block start with.
    #[inline(always)]
    fn start<S: Simd<T>, const C: usize, const X: usize>(
        &self,
        s: S,
        taps: &Taps<'_, T, C>,
        dx: &[T::Lanes],
    ) -> [[S::V; X]; C] {
        let plane = self.rows.len() * self.columns.len();
        let mut sums = [[s.zero(); X]; C];
        if taps.add {
            for i in 0..C {
                for j in 0..X {
                    sums[i][j] = s.load(&dx[i * plane + j * self.window.stride]);
                }
            }
        }
        sums
    }

    /// Writes a block.
    #[inline(always)]
    fn finish<S: Simd<T>, const C: usize, const X: usize>(
        &self,
        s: S,
        sums: &[[S::V; X]; C],
        dx: &mut [T::Lanes],
    ) {
        let plane = self.rows.len() * self.columns.len();
        for i in 0..C {
            for j in 0..X {
                s.store(sums[i][j], &mut dx[i * plane + j * self.window.stride]);
            }
        }
    }
}
