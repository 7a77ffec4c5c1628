//! Convolutions: how they are cut into passes, whose pixels and weights are transformed before they are
//! multiplied.
//!
//! `y[o] = b[o] + Σ_i Aᵀ[(G w[o,i] Gᵀ) · (Bᵀ x[i] B)]A` per tile of 2x2 outputs, with `x` of 4x4 or 6x6
//! pixels and 16 or 49 products in 16 sums. A pass has the transformed pixels of some rows of tiles and input
//! channels, up to 512 KiB, which stay in the second cache while all output channels pass by; as many bytes
//! of weights are transformed at a time. With 32 channels to 32, the transforms of pixels and sums are about
//! a tenth of the operations.

use super::products::Products;
use super::target::Target;
use super::transform::n_products;
use super::under::Under;
use super::weights::Weights;
use crate::convolve::{Axis, Convolution, RESIDENT, STACK_TAPS};
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::sums::are_moderate;
use std::ops::Range;

/// Most tiles and output channels of a block in registers.
pub(super) const TILES: usize = 5;
pub(super) const KERNELS: usize = 4;

/// Most columns of pixels under a block.
pub(super) const COLUMNS: usize = 2 * TILES + 4;

/// Output channels of a block where there is only one input channel, whose sums for one tile are all in
/// registers.
pub(super) const SINGLE: usize = 3;

/// Most tiles of a row: then there is room for the transformed pixels of at least one channel.
const MOST_TILES: usize = 256;

/// Vectors of transformed weights at a time: 512 KiB.
const WEIGHTS: usize = 8192;

/// How a convolution is cut.
pub(super) struct Cut {
    /// Input channels at a time.
    pub(super) n_channels: usize,
    /// Output channels whose weights are transformed at a time.
    pub(super) n_outputs: usize,
    /// Rows of tiles whose pixels are transformed at a time, and blocks of tiles in a row.
    pub(super) n_rows: usize,
    pub(super) n_blocks: usize,
    /// Most output channels of a block.
    pub(super) n_kernels: usize,
    /// Products per tile, output and input channel.
    pub(super) n_products: usize,
    /// Vectors of pixels of a block of tiles for each input channel.
    pub(super) n_pixels: usize,
}

impl Cut {
    /// Vectors of transformed pixels, and of weights.
    fn pixels_len(&self) -> usize {
        self.n_rows * self.n_blocks * self.n_pixels * self.n_channels
    }

    fn weights_len<T: Real>(&self) -> usize {
        (self.n_outputs.div_ceil(self.n_kernels) * self.block_len()).div_ceil(T::LANES)
    }

    /// Transformed weights of a block of output channels.
    pub(super) fn block_len(&self) -> usize {
        KERNELS * self.n_products * self.n_channels
    }
}

/// Some channels and tiles of a convolution.
pub(super) struct Pass<'a> {
    pub(super) cut: &'a Cut,
    pub(super) channels: Range<usize>,
    pub(super) outputs: Range<usize>,
    pub(super) group: usize,
    /// Rows of tiles.
    pub(super) rows: Range<usize>,
}

impl Pass<'_> {
    /// Its blocks of tiles: the row of each, and which of so many across.
    #[inline(always)]
    pub(super) fn blocks(&self, n_across: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.rows.clone().flat_map(move |row| block_sizes(n_across, TILES).map(move |block| (row, block)))
    }
}

impl<T: Real> Convolution<'_, T> {
    /// Whether its form allows for it. With few channels or tiles the transformations take longer than what
    /// they save. Only whole tiles count, because a pool leaves out the others and must have the same bits.
    pub(crate) fn suits_winograd(&self) -> bool {
        let width = self.columns.taps.len();
        let is_usual = |axis: &Axis| axis.window.stride == 1 && axis.taps == (0..width);
        let is_side_by_side = (self.steps.row, self.steps.column) == (width, 1);
        let [n_down, n_across] = [&self.rows, &self.columns].map(|axis| axis.outputs.len() / 2);
        let has_tiles = n_down > 0 && (3..=MOST_TILES).contains(&n_across);
        let has_channels = match width {
            3 => self.n_inputs * 9 > STACK_TAPS && self.n_outputs >= 2 * KERNELS,
            // Few samples may be computed one at a time, depending on what a pool leaves out.
            5 => self.n_inputs > 0 && self.n_outputs > 1 && self.n_samples * 2 > T::LANES,
            _ => false,
        };
        is_usual(&self.rows) && is_usual(&self.columns) && is_side_by_side && has_tiles && has_channels
    }

    /// Computes a convolution of `W` by `W` taps, unless something is infinite or very large. Says whether it
    /// did.
    pub(crate) fn winograd<Y: Target<T>, const W: usize>(
        &self,
        mut target: Y,
        scratch: &mut [T::Lanes],
    ) -> bool {
        T::dispatch(IsModerate(self)) && {
            self.passes::<_, W>(&mut target, first(scratch, self.winograd_len()));
            true
        }
    }

    /// Vectors of scratch that it needs: transformed pixels, then weights.
    pub(crate) fn winograd_len(&self) -> usize {
        let cut = self.winograd_cut();
        cut.pixels_len() + cut.weights_len::<T>()
    }

    fn winograd_cut(&self) -> Cut {
        let n_products = if self.columns.taps.len() == 3 { n_products::<3>() } else { n_products::<5>() };
        let n_pixels = n_products * COLUMNS;
        let (n_down, n_across) = self.n_tiles_along();
        let n_blocks = n_across.div_ceil(TILES);
        // Passes of nearly the same size, with room for the transformed pixels of a row of tiles.
        let most_channels = (RESIDENT / (n_blocks * n_pixels)).max(1);
        let n_channels = self.n_inputs.div_ceil(self.n_inputs.div_ceil(most_channels));
        let n_products = n_products * n_products;
        let n_kernels = if self.n_inputs == 1 { SINGLE } else { KERNELS };
        let most_outputs = (WEIGHTS * T::LANES / (n_products * n_channels * KERNELS)).max(1) * n_kernels;
        let most_rows = (RESIDENT / (n_blocks * n_pixels * n_channels)).max(1);
        let (n_outputs, n_rows) = (most_outputs.min(self.n_outputs), most_rows.min(n_down));
        Cut { n_channels, n_outputs, n_rows, n_blocks, n_kernels, n_products, n_pixels }
    }

    /// Tiles along rows and columns.
    pub(super) fn n_tiles_along(&self) -> (usize, usize) {
        (self.rows.outputs.len().div_ceil(2), self.columns.outputs.len().div_ceil(2))
    }

    /// All outputs.
    fn passes<Y: Target<T>, const W: usize>(&self, target: &mut Y, scratch: &mut [T::Lanes]) {
        let cut = &self.winograd_cut();
        let (pixels, weights) = scratch.split_at_mut(cut.pixels_len());
        let weights = T::flat_mut(weights);
        let n_down = self.n_tiles_along().0;
        for first_channel in (0..self.n_inputs).step_by(cut.n_channels) {
            let channels = first_channel..(first_channel + cut.n_channels).min(self.n_inputs);
            for first_output in (0..self.n_outputs).step_by(cut.n_outputs) {
                let outputs = first_output..(first_output + cut.n_outputs).min(self.n_outputs);
                let (channels, outputs) = (&channels, &outputs);
                T::dispatch(Weights::<T, W> { convolution: self, cut, channels, outputs, to: &mut *weights });
                for group in 0..self.n_groups() {
                    for first_row in (0..n_down).step_by(cut.n_rows) {
                        let rows = first_row..(first_row + cut.n_rows).min(n_down);
                        let (channels, outputs) = (channels.clone(), outputs.clone());
                        let pass = Pass { cut, channels, outputs, group, rows };
                        T::dispatch(Pixels::<T, W> { convolution: self, pass: &pass, to: &mut *pixels });
                        let (convolution, pass, pixels, weights) = (self, &pass, &*pixels, &*weights);
                        // One function each, because the compiler makes less of both in one.
                        if const { W == 5 } && self.n_inputs == 1 {
                            let target = &mut *target;
                            T::dispatch(Products::<T, Y, W, true> {
                                convolution,
                                pass,
                                pixels,
                                weights,
                                target,
                            });
                        } else {
                            let target = &mut *target;
                            T::dispatch(Products::<T, Y, W, false> {
                                convolution,
                                pass,
                                pixels,
                                weights,
                                target,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// Whether no value is infinite or very large.
struct IsModerate<'a, 'b, T: Real>(&'a Convolution<'b, T>);

impl<T: Real> Kernel<T> for IsModerate<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        let Convolution { x, w, n_samples, .. } = *self.0;
        are_moderate(s, w, T::lanes(x), n_samples)
    }
}

/// The transform of the pixels of a pass.
struct Pixels<'a, 'b, T: Real, const W: usize> {
    convolution: &'a Convolution<'b, T>,
    pass: &'a Pass<'a>,
    to: &'a mut [T::Lanes],
}

impl<T: Real, const W: usize> Kernel<T> for Pixels<'_, '_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        self.convolution.transform_pixels::<S, W>(s, self.pass, self.to);
    }
}

impl<T: Real> Convolution<'_, T> {
    /// The pixels under a block of tiles: columns side by side, channel by channel, product by product, then
    /// those of the next block.
    #[inline(always)]
    fn transform_pixels<S: Simd<T>, const W: usize>(&self, s: S, pass: &Pass<'_>, to: &mut [T::Lanes]) {
        let plane = self.rows.inputs.len() * self.columns.inputs.len();
        let n_channels = pass.channels.len();
        let none = [T::ZERO_LANES; COLUMNS];
        let blocks = pass.blocks(self.n_tiles_along().1);
        for ((down, tiles), to) in blocks.zip(to.chunks_exact_mut(pass.cut.n_pixels * n_channels)) {
            let n_columns = 2 * tiles.len() + W - 1;
            let axes = [&self.rows, &self.columns];
            let under = Under::new(axes, self.is_turned, [down, tiles.start], n_columns);
            for c in 0..n_channels {
                let channel = pass.group * self.n_inputs + pass.channels.start + c;
                let x = &T::lanes(self.x)[channel * plane..][..plane];
                let to = (&mut to[c * COLUMNS..], n_channels * COLUMNS);
                under.transform::<T, S, W>(s, x, 0, &none, to);
            }
        }
    }
}
