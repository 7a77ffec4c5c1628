//! The gradient of the input of 5x5 taps: each tile of 2x2 outputs adds to the 6x6 pixels under it.
//!
//! `dx[c] = Σ_k B[(G w[k,c] Gᵀ) · (A dy[k] Aᵀ)]Bᵀ` per tile, added up where tiles overlap. That is 49
//! products for 100, each of them a chain of multiply-adds over the output channels. `products` has 7 of
//! them, those of a row, for up to three tiles side by side in registers. What the gradients are in the
//! products is not kept but made anew for each row and channel: that is two or four additions per seven
//! multiply-adds, which run beside them, and nothing but `dy` itself, two rows of it at a time, has to be
//! near.
//!
//! Where tiles overlap they are added from left to right, then from top to bottom; rows of pixels that are
//! not yet whole wait in a band (`write`). 41 µs were measured for 16 samples of `lenet5`'s second
//! convolution, where the multiply-adds alone need 32 and the direct convolution takes 75. Bytes: `dy` read
//! once per pass over the input channels, whose weights have 256 KiB, `dx` written once.
//!
//! For values as in training and 16 output channels the error is 0.5 to 0.8 of that of one chain per pixel.

mod products;
#[cfg(test)]
mod tests;
mod write;

use super::transform::{PIXELS, PRODUCTS, of_taps_both};
use crate::convolve::Finish;
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{Kernel, Simd};
use crate::sums::are_moderate;
use crate::window::Window;
use std::ops::Range;
use std::slice::ChunksExact;

/// Rows and columns of taps.
const TAPS: usize = 5;

/// Rows and columns of pixels that a tile shares with the next one.
pub(super) const SHARED: usize = PIXELS - 2;

/// Tiles side by side in registers, where there are many.
pub(super) const TILES: usize = 3;

/// Vectors of transformed weights at a time: 256 KiB.
const WEIGHTS: usize = 4096;

/// Vectors of a row of tiles, at most: 256 KiB.
const ROW: usize = 4096;

/// Planes of a multiple of so many vectors lie on few lines of the first cache.
const CROWDED: usize = 32;

/// A gradient of an input by a convolution that moves by one.
pub(crate) struct InputGradient<'a, T: Real> {
    /// `dy[k,oy,ox]` per group.
    pub(crate) dy: &'a [T::Lanes],
    /// `w[k,c,ky,kx]`, all taps.
    pub(crate) w: &'a [T],
    pub(crate) n_samples: usize,
    pub(crate) n_kernels: usize,
    pub(crate) n_channels: usize,
    pub(crate) pad: usize,
    /// Which rows and columns `dy` and `dx` hold.
    pub(crate) oys: Range<usize>,
    pub(crate) oxs: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// Whether to add to what is there.
    pub(crate) accumulate: bool,
    pub(crate) finish: Finish<'a, T>,
}

/// The same, where its result goes to, and `scratch_len` vectors.
struct InputGradientKernel<'a, 'b, T: Real> {
    gradient: &'a InputGradient<'b, T>,
    dx: &'a mut [T::Lanes],
    scratch: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for InputGradientKernel<'_, '_, T> {
    /// Whether it was computed: not if something is infinite or very large.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let InputGradient { dy, w, n_samples, .. } = *self.gradient;
        let is_moderate = are_moderate(s, w, dy, n_samples);
        if is_moderate {
            self.gradient.all(s, self.dx, self.scratch);
        }
        is_moderate
    }
}

/// The gradients of a row of tiles: a plane per output channel, and where its two rows begin.
#[derive(Clone)]
struct TileRow<'a, T: Real> {
    planes: ChunksExact<'a, T::Lanes>,
    upper: usize,
    lower: usize,
}

impl<T: Real> InputGradient<'_, T> {
    /// Computes it, unless something is infinite or very large: says whether it did.
    pub(crate) fn run(&self, dx: &mut [T::Lanes], scratch: &mut [T::Lanes]) -> bool {
        let scratch = first(scratch, self.scratch_len());
        T::dispatch(InputGradientKernel { gradient: self, dx, scratch })
    }

    /// Whether these taps are 5x5 and it pays: not with few output channels, where the sums at the end take
    /// longer than what is saved, nor where the direct convolution multiplies little more, because most taps
    /// are beyond a border or tiles have outputs that do not exist. That does not depend on its data.
    pub(crate) fn suits(&self, taps: [&Range<usize>; 2]) -> bool {
        let window = Window { stride: 1, pad: self.pad };
        let n_inside = |outputs: &Range<usize>, pixels: &Range<usize>| -> usize {
            outputs.clone().map(|output| window.taps(output, &(0..TAPS), pixels).len()).sum()
        };
        let n_direct = n_inside(&self.oys, &self.rows) * n_inside(&self.oxs, &self.columns);
        let (n_down, n_across) = self.n_tiles_along();
        let n_products = n_down * n_across * PRODUCTS * PRODUCTS;
        let is_row_small = n_across * 4 * self.n_kernels <= ROW;
        let has_channels = self.n_channels > 0 && self.n_kernels >= 4;
        taps == [&(0..TAPS); 2] && has_channels && n_products * 5 <= n_direct * 4 && is_row_small
    }

    /// Tiles along rows and columns.
    pub(super) fn n_tiles_along(&self) -> (usize, usize) {
        (self.oys.len().div_ceil(2), self.oxs.len().div_ceil(2))
    }

    /// Columns under a row of tiles.
    fn n_under(&self) -> usize {
        2 * self.n_tiles_along().1 + SHARED
    }

    /// Input channels whose weights are transformed at a time, and vectors of weights of one.
    fn cut(&self) -> (usize, usize) {
        let per_channel = PRODUCTS * PRODUCTS * self.n_kernels.div_ceil(T::LANES);
        ((WEIGHTS / per_channel).clamp(1, self.n_channels), per_channel)
    }

    /// Vectors of scratch that it needs: weights and a band for each channel, a row of tiles of `dy`, and the
    /// products of a channel of it.
    pub(crate) fn scratch_len(&self) -> usize {
        let (n_channels, per_channel) = self.cut();
        let row = 4 * self.n_tiles_along().1 * self.n_kernels;
        n_channels * (per_channel + SHARED * self.n_under()) + row + PRODUCTS * self.n_under()
    }

    /// All pixels.
    #[inline(always)]
    fn all<S: Simd<T>>(&self, s: S, dx: &mut [T::Lanes], scratch: &mut [T::Lanes]) {
        let (n_together, per_channel) = self.cut();
        let (n_down, n_across) = self.n_tiles_along();
        let n_under = self.n_under();
        let (weights, scratch) = scratch.split_at_mut(n_together * per_channel);
        let (bands, scratch) = scratch.split_at_mut(n_together * SHARED * n_under);
        let (bands, _) = bands.as_chunks_mut::<SHARED>();
        let (copy, sums) = scratch.split_at_mut(4 * n_across * self.n_kernels);
        let (sums, _) = sums.as_chunks_mut::<PRODUCTS>();
        for first in (0..self.n_channels).step_by(n_together) {
            let channels = first..(first + n_together).min(self.n_channels);
            for (channel, weights) in channels.clone().zip(weights.chunks_exact_mut(per_channel)) {
                self.transform_weights(s, channel, weights);
            }
            for group in 0..self.n_samples.div_ceil(T::LANES) {
                for down in 0..n_down {
                    let tiles = self.tile_row(s, group, down, copy);
                    let weights = weights.chunks_exact(per_channel);
                    let bands = bands.chunks_exact_mut(n_under);
                    for ((channel, weights), band) in channels.clone().zip(weights).zip(bands) {
                        self.products(s, &tiles, weights, sums);
                        let plane = group * self.n_channels + channel;
                        if down + 1 < n_down {
                            self.add::<S, false>(s, (plane, down), sums, band, dx);
                        } else {
                            self.add::<S, true>(s, (plane, down), sums, band, dx);
                        }
                    }
                }
            }
        }
        if !self.accumulate {
            self.clear(s, dx);
        }
    }

    /// The weights of one input channel: for each row of products, then for as many output channels as fill a
    /// vector, its columns.
    #[inline(always)]
    fn transform_weights<S: Simd<T>>(&self, s: S, channel: usize, to: &mut [T::Lanes]) {
        const N: usize = TAPS * TAPS;
        let (to, _) = to.as_chunks_mut::<PRODUCTS>();
        let n_vectors = self.n_kernels.div_ceil(T::LANES);
        for vector in 0..n_vectors {
            let mut taps = [T::ZERO_LANES; N];
            for lane in 0..T::LANES.min(self.n_kernels - vector * T::LANES) {
                let k = vector * T::LANES + lane;
                let w = &self.w[(k * self.n_channels + channel) * N..];
                let w: &[T; N] = w.first_chunk().expect("taps side by side");
                for tap in 0..N {
                    taps[tap].as_mut()[lane] = w[tap];
                }
            }
            let mut columns = [[s.zero(); TAPS]; TAPS];
            for kx in 0..TAPS {
                for ky in 0..TAPS {
                    columns[kx][ky] = s.load(&taps[ky * TAPS + kx]);
                }
            }
            of_taps_both::<T, S, TAPS>(
                s,
                columns,
                #[inline(always)]
                |row, products| {
                    for column in 0..PRODUCTS {
                        s.store(products[column], &mut to[row * n_vectors + vector][column]);
                    }
                },
            );
        }
    }

    /// The gradients of a row of tiles: `dy` itself, or a copy with zeros beyond its end, which is also taken
    /// where planes would push each other out of the cache.
    #[inline(always)]
    fn tile_row<'a, S: Simd<T>>(
        &'a self,
        s: S,
        group: usize,
        down: usize,
        copy: &'a mut [T::Lanes],
    ) -> TileRow<'a, T> {
        let (height, width) = (self.oys.len(), self.oxs.len());
        let n_rows = 2.min(height - 2 * down);
        let plane = height * width;
        let dy = &self.dy[group * self.n_kernels * plane..][..self.n_kernels * plane];
        if n_rows == 2 && width.is_multiple_of(2) && !plane.is_multiple_of(CROWDED) {
            return TileRow {
                planes: dy.chunks_exact(plane),
                upper: 2 * down * width,
                lower: (2 * down + 1) * width,
            };
        }
        let row = width.next_multiple_of(2);
        for (dy, copy) in dy.chunks_exact(plane).zip(copy.chunks_exact_mut(2 * row)) {
            for (i, copy) in copy.chunks_exact_mut(row).enumerate() {
                let dy = if i < n_rows { &dy[(2 * down + i) * width..][..width] } else { &[] };
                for (at, to) in copy.iter_mut().enumerate() {
                    s.store(
                        dy.get(at).map_or(
                            s.zero(),
                            #[inline(always)]
                            |dy| s.load(dy),
                        ),
                        to,
                    );
                }
            }
        }
        TileRow { planes: copy.chunks_exact(2 * row), upper: 0, lower: row }
    }
}
