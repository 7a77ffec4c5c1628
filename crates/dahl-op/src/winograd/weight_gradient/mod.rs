//! The gradient of the weights of 5x5 taps: what a tile of 2x2 outputs adds to the gradients of 25 taps takes
//! 70 products instead of 100, and behind a max pool 35.
//!
//! Down the columns, the gradients of two outputs become four values, the six pixels under them seven, and
//! each of the seven times one of the four is added to a sum of its own. What five taps get is made of these
//! sums at the very end:
//!
//! ```text
//! e = [dy0, dy0 + dy1, dy0 - dy1, dy1]     N[q] += v[q] e[SUM_OF[q]]     dw = to_taps(N)
//! ```
//!
//! Along rows there are five sums for five taps, to which each of the two columns of a tile adds. Where the
//! gradient comes from a pool of 2x2 ([`Pooled`]), its windows are the tiles, and only one column has a
//! gradient, so that a selection of pixels takes the place of the second product, and cores select beside
//! their multiply-adds. The other column would have added zeros: the bits are those of the full gradient
//! ([`Full`]). Fewer products along both axes, 49 of them whether behind a pool or not, took longer behind
//! one, as more has to be transformed, had larger errors, and took as long without.
//!
//! A register block of output channels by the taps of a row runs over the tiles of a rectangle (`products`);
//! its sums are added up across lanes, then over rectangles and groups, and become taps (`taps`). Rectangles
//! and the tiles in them are counted from the first output, so neither the channels that a call has nor the
//! blocks show in the bits.
//!
//! What overflows shows in the sums, so these are looked at; pixels and gradients are only looked at where
//! there are several parts.

mod gradients;
mod parts;
mod products;
mod taps;
#[cfg(test)]
mod tests;

pub(crate) use gradients::{Full, Gradients, Pooled};

use crate::convolve::Axis;
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::sums::are_moderate;
use parts::{Down, Part, Pixels, Tiles, blocks};
use products::products;
use taps::Taps;

/// Output channels whose gradients are made ready at a time, and those of a block in registers.
const KERNELS: usize = 8;
const BLOCK: usize = 4;

/// Vectors that the sums of a block fill, once there is an eighth of the lanes left of each.
const FOLDED: usize = (BLOCK * WIDTH).div_ceil(8);

/// Output and input channels at a time, for which sums and pixels have room in the second cache.
const MOST_KERNELS: usize = 64;
const MOST_CHANNELS: usize = 6;

/// Tiles of a rectangle along an axis.
const SIDE: usize = 8;

/// Rows and columns of taps.
const WIDTH: usize = 5;

/// The gradients of weights by fewer multiplications.
pub(crate) struct WeightGradient<'a, T: Real> {
    /// `x[c,iy,ix]` per group, in lanes.
    x: &'a [T::Lanes],
    n_samples: usize,
    n_kernels: usize,
    n_channels: usize,
    /// Rows and columns.
    axes: [&'a Axis; 2],
}

impl<'a, T: Real> WeightGradient<'a, T> {
    /// For some samples of `x`, and of output and input channels; none if that would not be quicker. That
    /// goes by the extents of the whole array of weights, so that it does not depend on how the work is cut.
    pub(crate) fn new(
        weights: &[usize],
        (x, n_samples): (&'a [T::Lanes], usize),
        [n_kernels, n_channels]: [usize; 2],
        axes: [&'a Axis; 2],
    ) -> Option<Self> {
        let is_usual = axes.iter().all(|axis| axis.window.stride == 1 && axis.taps == (0..WIDTH));
        let n_tiles: usize = axes.iter().map(|axis| axis.outputs.len().div_ceil(2)).product();
        // With few channels, or few tiles for a sum across lanes, it takes longer than what it saves.
        let pays = weights[0] >= BLOCK - 1 && n_tiles >= 16;
        let is_there = n_samples * n_kernels * n_channels > 0;
        let gradient = WeightGradient { x, n_samples, n_kernels, n_channels, axes };
        (is_usual && pays && is_there).then_some(gradient)
    }

    /// Adds everything to `dw`, unless something is infinite or very large. Returns whether it did.
    pub(crate) fn add<G: Gradients<T>>(&self, gradients: &G, dw: &mut [T], scratch: &mut [T::Lanes]) -> bool {
        // What overflows shows in the sums, but where there are several parts, the first are added before the
        // last are known.
        let is_one = self.n_kernels <= MOST_KERNELS && self.n_channels <= MOST_CHANNELS;
        let mut is_moderate = is_one || T::dispatch(Moderate { gradient: self, gradients });
        for part in self.parts() {
            if !is_moderate {
                return false;
            }
            let lens @ [n_sums, n_pixels, _] = self.lens::<G>(&part);
            let (sums, scratch) = first(scratch, lens.iter().sum()).split_at_mut(n_sums);
            let (pixels, values) = scratch.split_at_mut(n_pixels);
            sums.fill(T::ZERO_LANES);
            self.part(&part, gradients, [&mut *sums, pixels, values]);
            is_moderate = T::dispatch(Taps { part: &part, n_channels: self.n_channels, sums, dw: &mut *dw });
        }
        is_moderate
    }

    /// Vectors of scratch that it needs with these gradients: those of its largest part.
    pub(crate) fn scratch_len<G: Gradients<T>>(&self) -> usize {
        self.parts().map(|part| self.lens::<G>(&part).iter().sum()).max().unwrap_or(0)
    }

    /// What is computed at a time.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let n_channels = self.n_channels;
        block_sizes(self.n_kernels, MOST_KERNELS).flat_map(move |kernels| {
            block_sizes(n_channels, MOST_CHANNELS)
                .map(move |channels| Part { kernels: kernels.clone(), channels })
        })
    }

    /// Vectors of sums, pixels and values of gradients of a part.
    fn lens<G: Gradients<T>>(&self, part: &Part) -> [usize; 3] {
        part.lens::<T, G>(self.axes.map(|axis| axis.outputs.len().div_ceil(2).min(SIDE)))
    }

    /// The sums of products of some channels.
    fn part<G: Gradients<T>>(
        &self,
        part: &Part,
        gradients: &G,
        [sums, pixels, values]: [&mut [T::Lanes]; 3],
    ) {
        let [n_down, n_across] = self.axes.map(|axis| axis.outputs.len().div_ceil(2));
        let mut columns_of = [T::ZERO_BYTES; KERNELS * SIDE * SIDE];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            for rows in block_sizes(n_down, SIDE) {
                for columns in block_sizes(n_across, SIDE) {
                    let tiles = &Tiles::new(group, rows.clone(), columns);
                    T::dispatch(Pixels { gradient: self, part, tiles, to: &mut *pixels });
                    let mut sums = &mut *sums;
                    for kernels in block_sizes(part.kernels.len(), KERNELS) {
                        let (n_blocks, size) = blocks(kernels.len());
                        let mut planes = [0; KERNELS];
                        for (i, plane) in planes.iter_mut().enumerate() {
                            // Those beyond the last are computed like it, and left out in the end.
                            let kernel = part.kernels.start + (kernels.start + i).min(kernels.end - 1);
                            *plane = group * self.n_kernels + kernel;
                        }
                        let planes = &planes[..n_blocks * size];
                        let values = &mut values[..4 * planes.len() * G::COLUMNS * tiles.len()];
                        let columns_of = &mut columns_of[..planes.len() * tiles.len()];
                        T::dispatch(Down {
                            gradients,
                            planes,
                            tiles,
                            to: &mut *values,
                            columns_of: &mut *columns_of,
                        });
                        let here;
                        (here, sums) = sums.split_at_mut(n_blocks * part.n_sums());
                        let rectangle = (part, tiles, self.n_samples - group * T::LANES);
                        // One function each, because the compiler makes less of all in one.
                        match size {
                            1 => products::<T, G, 1>(rectangle, values, columns_of, pixels, here),
                            2 => products::<T, G, 2>(rectangle, values, columns_of, pixels, here),
                            3 => products::<T, G, 3>(rectangle, values, columns_of, pixels, here),
                            _ => products::<T, G, BLOCK>(rectangle, values, columns_of, pixels, here),
                        }
                    }
                }
            }
        }
    }
}

struct Moderate<'a, 'b, T: Real, G> {
    gradient: &'a WeightGradient<'b, T>,
    gradients: &'a G,
}

impl<T: Real, G: Gradients<T>> Kernel<T> for Moderate<'_, '_, T, G> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let WeightGradient { x, n_samples, .. } = *self.gradient;
        are_moderate(s, &[], x, n_samples) && self.gradients.are_moderate(s, n_samples)
    }
}
