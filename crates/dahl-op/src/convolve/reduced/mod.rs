//! Kernels of 3x3 or 5x5 taps that move by one, by fewer multiplications: Winograd's F(2x2, 3x3), and for five taps three and two.
//!
//! Along one axis, two outputs of three taps `g` over four pixels `d` need four products instead of six:
//!
//! ```text
//! m0 = (d0 - d2) g0                     y0 = m0 + m1 + m2
//! m1 = (d1 + d2) (g0 + g1 + g2) / 2     y1 = m1 - m2 - m3
//! m2 = (d2 - d1) (g0 - g1 + g2) / 2
//! m3 = (d1 - d3) g2
//! ```
//!
//! Along both, a tile of 2x2 outputs needs 16 instead of 36. Five taps need seven products instead of ten (`five.rs`), which end in the
//! same four sums, or 49 instead of 100 in 16. Pixels, weights and sums are transformed once each, and the products,
//! added up over input channels, are what takes the time: for each of 16 places a block of output channels by tiles in registers.
//! With 32 channels to 32, the transformations of pixels and sums are about a tenth of the operations.
//!
//! Each output is a sum of 9 chains of multiply-adds over the input channels, instead of one chain over channels and taps. It
//! depends on no pixel but those under its own taps. Rounding is relative to the largest of these and not to each product, but chains are shorter:
//! for values as in training the error is mostly below that of the plain convolution, to which a test holds it. Which pixels
//! make a tile is counted from the first output of a call. Infinities would become NaN where they are subtracted, and very large values overflow, so a
//! call with such is left to the plain convolution as a whole.

mod terms;

use super::block::unrolled;
use super::{Axis, Convolution, Finish, RESIDENT, STACK_TAPS, five};
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};
use crate::sums::are_moderate;
use std::ops::Range;
use terms::{
    ALL, Difference, One, PLACES, Sum, Term, firsts, n_products, numbers, of_pixels, of_taps, outputs,
    places, terms,
};

/// Most tiles and output channels of a block in registers.
const TILES: usize = 5;
const KERNELS: usize = 4;

/// Most columns of pixels under a block.
const COLUMNS: usize = 2 * TILES + 4;

/// Output channels of a block where there is only one input channel, whose sums for one tile are all in registers.
const SINGLE: usize = 3;

/// Most tiles of a row: then there is room for the transformed pixels of at least one channel.
const MOST_TILES: usize = 256;

/// Vectors of transformed weights at a time: 512 KiB.
const WEIGHTS: usize = 8192;

/// What becomes of the outputs of a tile.
pub(crate) trait Target<T: Real> {
    /// Takes those of one output channel. Where there is no second row or column, what is there means nothing.
    fn put<S: Simd<T>>(&mut self, s: S, tile: &Tile<'_>, values: [[S::V; 2]; 2]);
}

/// Whose outputs they are.
pub(crate) struct Tile<'a> {
    pub(crate) group: usize,
    pub(crate) output: usize,
    /// The first row and column, counted from those of the call.
    pub(crate) row: usize,
    pub(crate) column: usize,
    /// The input channels that were added up.
    channels: &'a Range<usize>,
}

/// `W` taps along each axis; `ONE` says that there is one input channel.
struct Reduced<'a, 'b, T: Real, Y, const W: usize, const ONE: bool> {
    convolution: &'a Convolution<'b, T>,
    target: Y,
    /// As much as `reduced_len`.
    scratch: &'a mut [T::Lanes],
}

impl<T: Real, Y: Target<T>, const W: usize, const ONE: bool> Kernel<T> for Reduced<'_, '_, T, Y, W, ONE> {
    /// Whether it was computed: not if something is infinite or very large.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(mut self, s: S) -> bool {
        let Convolution { x, w, n_samples, .. } = *self.convolution;
        let is_moderate = are_moderate(s, w, T::lanes(x), n_samples);
        if is_moderate {
            self.convolution.reduced::<S, Y, W, ONE>(s, &mut self.target, self.scratch);
        }
        is_moderate
    }
}

/// How a convolution is cut.
struct Cut {
    /// Input channels at a time.
    n_channels: usize,
    /// Output channels whose weights are transformed at a time.
    n_outputs: usize,
    /// Rows of tiles whose pixels are transformed at a time, and blocks of tiles in a row.
    n_rows: usize,
    n_blocks: usize,
    /// Most output channels of a block.
    n_kernels: usize,
    /// Products per tile, output and input channel.
    n_products: usize,
    /// Vectors of pixels of a block of tiles for each input channel.
    n_pixels: usize,
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
    fn block_len(&self) -> usize {
        KERNELS * self.n_products * self.n_channels
    }
}

/// Some channels and tiles of a convolution.
struct Pass<'a> {
    cut: &'a Cut,
    channels: Range<usize>,
    outputs: Range<usize>,
    group: usize,
    /// Rows of tiles.
    rows: Range<usize>,
}

impl Pass<'_> {
    /// Its blocks of tiles: the row of each, and which of so many across.
    #[inline(always)]
    fn blocks(&self, n_across: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.rows.clone().flat_map(move |row| block_sizes(n_across, TILES).map(move |block| (row, block)))
    }
}

impl<T: Real> Convolution<'_, T> {
    /// Whether its form allows for it. With few channels or tiles the transformations take longer than what they save. Only whole
    /// tiles count, because a pool leaves out the others and must have the same bits.
    pub(crate) fn is_reducible(&self) -> bool {
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

    /// Computes a convolution of `W` by `W` taps, unless something is infinite or very large. Says whether it did.
    pub(crate) fn reduce<Y: Target<T>, const W: usize>(&self, target: Y) -> bool {
        T::scratch(self.reduced_len(), |scratch| {
            // One function each, because the compiler makes less of both in one.
            if const { W == 5 } && self.n_inputs == 1 {
                return T::dispatch(Reduced::<_, _, W, true> { convolution: self, target, scratch });
            }
            T::dispatch(Reduced::<_, _, W, false> { convolution: self, target, scratch })
        })
    }

    /// Vectors that it needs: transformed pixels, then weights.
    fn reduced_len(&self) -> usize {
        let cut = self.reduced_cut();
        cut.pixels_len() + cut.weights_len::<T>()
    }

    fn reduced_cut(&self) -> Cut {
        let n_products = if self.columns.taps.len() == 3 { 4 } else { five::PRODUCTS };
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
    fn n_tiles_along(&self) -> (usize, usize) {
        (self.rows.outputs.len().div_ceil(2), self.columns.outputs.len().div_ceil(2))
    }

    /// All outputs.
    #[inline(always)]
    fn reduced<S: Simd<T>, Y: Target<T>, const W: usize, const ONE: bool>(
        &self,
        s: S,
        target: &mut Y,
        scratch: &mut [T::Lanes],
    ) {
        let cut = &self.reduced_cut();
        let (pixels, weights) = scratch.split_at_mut(cut.pixels_len());
        let weights = T::flat_mut(weights);
        let n_down = self.n_tiles_along().0;
        for first_channel in (0..self.n_inputs).step_by(cut.n_channels) {
            let channels = first_channel..(first_channel + cut.n_channels).min(self.n_inputs);
            for first_output in (0..self.n_outputs).step_by(cut.n_outputs) {
                let outputs = first_output..(first_output + cut.n_outputs).min(self.n_outputs);
                self.transform_weights::<S, W>(s, cut, &channels, &outputs, weights);
                for group in 0..self.n_groups() {
                    for first_row in (0..n_down).step_by(cut.n_rows) {
                        let rows = first_row..(first_row + cut.n_rows).min(n_down);
                        let (channels, outputs) = (channels.clone(), outputs.clone());
                        let pass = Pass { cut, channels, outputs, group, rows };
                        self.transform_pixels::<S, W>(s, &pass, pixels);
                        self.products::<S, Y, W, ONE>(s, &pass, pixels, weights, target);
                    }
                }
            }
        }
    }

    /// The weights of a block of output channels side by side, input channel by input channel, product by product, then those of the
    /// next block.
    #[inline(always)]
    fn transform_weights<S: Simd<T>, const W: usize>(
        &self,
        s: S,
        cut: &Cut,
        channels: &Range<usize>,
        outputs: &Range<usize>,
        to: &mut [T],
    ) {
        let numbers = const { numbers::<W>() };
        let steps = &self.steps;
        let per_vector = T::LANES / KERNELS;
        for (block, kernels) in block_sizes(outputs.len(), cut.n_kernels).enumerate() {
            let to = to[block * cut.block_len()..].as_chunks_mut::<KERNELS>().0;
            for vector in 0..channels.len().div_ceil(per_vector) {
                let n_there = per_vector.min(channels.len() - vector * per_vector);
                let mut taps = [[T::ZERO_LANES; W]; W];
                // As many taps at a time as there are lanes: those of each pair of channels side by side, then transposed.
                let at_a_time = T::LANES.min(W * W);
                for first in (0..W * W).step_by(at_a_time) {
                    let first = first.min(W * W - at_a_time);
                    let (mut pairs, mut transposed) = (T::ZERO_BLOCK, T::ZERO_BLOCK);
                    for (lane, pair) in pairs.as_mut().iter_mut().enumerate() {
                        let o = kernels.start + lane % KERNELS;
                        let i = vector * per_vector + lane / KERNELS;
                        if o < kernels.end && i < channels.len() {
                            let (o, i) = (outputs.start + o, channels.start + i);
                            let w = &self.w[steps.first + o * steps.output + i * steps.input + first..];
                            pair.as_mut()[..at_a_time].copy_from_slice(&w[..at_a_time]);
                        }
                    }
                    s.transpose(&pairs, &mut transposed);
                    taps.as_flattened_mut()[first..first + at_a_time]
                        .copy_from_slice(&transposed.as_ref()[..at_a_time]);
                }
                let mut rows = [[s.zero(); five::PRODUCTS]; W];
                for ky in 0..W {
                    let mut row = [s.zero(); 5];
                    for kx in 0..W {
                        row[kx] = s.load(&taps[ky][kx]);
                    }
                    rows[ky] = of_taps::<T, S, W>(s, row);
                }
                for column in 0..const { n_products::<W>() } {
                    let mut taps = [s.zero(); 5];
                    for ky in 0..W {
                        taps[ky] = rows[ky][column];
                    }
                    let products = of_taps::<T, S, W>(s, taps);
                    for row in 0..const { n_products::<W>() } {
                        let mut lanes = T::ZERO_LANES;
                        s.store(products[row], &mut lanes);
                        let step = numbers[row][column] * channels.len() + vector * per_vector;
                        let weights = lanes.as_ref().as_chunks().0;
                        for (to, weights) in to[step..step + n_there].iter_mut().zip(weights) {
                            *to = *weights;
                        }
                    }
                }
            }
        }
    }

    /// The pixels under a block of tiles, transformed down and not yet across: columns side by side, channel by channel, product by
    /// product, then those of the next block.
    #[inline(always)]
    fn transform_pixels<S: Simd<T>, const W: usize>(&self, s: S, pass: &Pass<'_>, to: &mut [T::Lanes]) {
        let (height, width) = (self.rows.inputs.len(), self.columns.inputs.len());
        let n_across = self.n_tiles_along().1;
        let n_channels = pass.channels.len();
        // Where the first pixel of the first tile lies; what is beyond the border has no place in its row or plane.
        let first = |axis: &Axis| axis.outputs.start.wrapping_sub(axis.window.pad + axis.inputs.start);
        let (top, left) = (first(&self.rows), first(&self.columns));
        let place =
            |at: usize, n: usize| if self.is_turned { n.wrapping_sub(at).wrapping_sub(1) } else { at };
        let plane = height * width;
        let none = [T::ZERO_LANES; COLUMNS];
        for ((down, tiles), to) in
            pass.blocks(n_across).zip(to.chunks_exact_mut(pass.cut.n_pixels * n_channels))
        {
            let to = to.as_chunks_mut::<COLUMNS>().0;
            // Which of its columns lie inside the image, and where the first of these is in memory.
            let n_columns = 2 * tiles.len() + W - 1;
            let base = left.wrapping_add(2 * tiles.start).cast_signed();
            let [start, end] = [-base, width.cast_signed() - base]
                .map(|column| column.clamp(0, n_columns.cast_signed()).cast_unsigned());
            let inside = start..end;
            let first_inside = base.wrapping_add_unsigned(start).cast_unsigned();
            let first_inside =
                if self.is_turned { width.wrapping_sub(first_inside + inside.len()) } else { first_inside };
            let first_inside = if inside.is_empty() { 0 } else { first_inside };
            for c in 0..n_channels {
                let channel = pass.group * self.n_inputs + pass.channels.start + c;
                let x = &T::lanes(self.x)[channel * plane..][..plane];
                let mut rows = [&none[..inside.len()]; five::PIXELS];
                for i in 0..=W {
                    let at = place(top.wrapping_add(2 * down + i), height);
                    if at < height {
                        rows[i] = &x[at * width + first_inside..][..inside.len()];
                    }
                }
                for column in 0..inside.len() {
                    let at = if self.is_turned { inside.len() - 1 - column } else { column };
                    let mut values = [s.zero(); five::PIXELS];
                    for i in 0..=W {
                        values[i] = s.load(&rows[i][at]);
                    }
                    let products = of_pixels::<T, S, W>(s, values);
                    for i in 0..const { n_products::<W>() } {
                        s.store(products[i], &mut to[i * n_channels + c][inside.start + column]);
                    }
                }
                for column in (0..inside.start).chain(inside.end..n_columns) {
                    for i in 0..const { n_products::<W>() } {
                        s.store(s.zero(), &mut to[i * n_channels + c][column]);
                    }
                }
            }
        }
    }

    /// Sums of products over the channels of a pass, and what becomes of them.
    #[inline(always)]
    fn products<S: Simd<T>, Y: Target<T>, const W: usize, const ONE: bool>(
        &self,
        s: S,
        pass: &Pass<'_>,
        pixels: &[T::Lanes],
        weights: &[T],
        target: &mut Y,
    ) {
        let n_channels = pass.channels.len();
        let (firsts, places) = const { (firsts::<W>(), places::<W>()) };
        let n_across = self.n_tiles_along().1;
        let mut sums = [[[T::ZERO_LANES; TILES]; KERNELS]; PLACES];
        for (block, kernels) in block_sizes(pass.outputs.len(), pass.cut.n_kernels).enumerate() {
            let weights = &weights[block * pass.cut.block_len()..][..places[PLACES] * n_channels * KERNELS];
            let weights = weights.as_chunks::<KERNELS>().0;
            let mut bias = [T::default(); KERNELS];
            if let Some(all) = self.bias.filter(|_| pass.channels.start == 0) {
                let first = pass.outputs.start + kernels.start;
                bias[..kernels.len()].copy_from_slice(&all[first..][..kernels.len()]);
            }
            for ((row, tiles), pixels) in
                pass.blocks(n_across).zip(pixels.chunks_exact(pass.cut.n_pixels * n_channels))
            {
                let pixels = pixels.as_chunks::<COLUMNS>().0;
                if ONE {
                    for t in 0..tiles.len() {
                        let values = single::<T, S, W>(s, &bias, weights, pixels, t);
                        for k in 0..kernels.len() {
                            let output = pass.outputs.start + kernels.start + k;
                            let (group, channels) = (pass.group, &pass.channels);
                            let (row, column) = (2 * row, 2 * (tiles.start + t));
                            target.put(s, &Tile { group, output, row, column, channels }, values[k]);
                        }
                    }
                    continue;
                }
                for place in 0..PLACES {
                    let chains = Chains {
                        first: if place == ALL { bias } else { [T::default(); KERNELS] },
                        terms: terms::<W>(place % 4),
                        n_channels,
                        weights: &weights[places[place] * n_channels..places[place + 1] * n_channels],
                        pixels: &pixels[firsts[place / 4] * n_channels..firsts[place / 4 + 1] * n_channels],
                    };
                    chains.run(s, (kernels.len(), tiles.len()), &mut sums[place]);
                }
                for k in 0..kernels.len() {
                    for t in 0..tiles.len() {
                        let mut columns = [[s.zero(); 2]; 4];
                        for column in 0..4 {
                            let mut places = [s.zero(); 4];
                            for row in 0..4 {
                                places[row] = s.load(&sums[row * 4 + column][k][t]);
                            }
                            columns[column] = outputs(s, places);
                        }
                        let mut values = [[s.zero(); 2]; 2];
                        for i in 0..2 {
                            values[i] =
                                outputs(s, [columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                        }
                        let tile = Tile {
                            group: pass.group,
                            output: pass.outputs.start + kernels.start + k,
                            row: 2 * row,
                            column: 2 * (tiles.start + t),
                            channels: &pass.channels,
                        };
                        target.put(s, &tile, values);
                    }
                }
            }
        }
    }
}

/// Outputs as they are.
pub(super) struct Planes<'a, 'b, T: Real> {
    pub(super) convolution: &'a Convolution<'b, T>,
    pub(super) y: &'a mut [T::Lanes],
}

impl<T: Real> Target<T> for Planes<'_, '_, T> {
    #[inline(always)]
    fn put<S: Simd<T>>(&mut self, s: S, tile: &Tile<'_>, values: [[S::V; 2]; 2]) {
        let Convolution { planes, n_inputs, n_outputs, accumulate, .. } = *self.convolution;
        let is_last = tile.channels.end == n_inputs;
        let add = accumulate || tile.channels.start > 0;
        let (n_rows, n_columns) =
            (self.convolution.rows.outputs.len(), self.convolution.columns.outputs.len());
        let first = (tile.group * n_outputs + tile.output) * planes.len + planes.first;
        for i in 0..2.min(n_rows - tile.row) {
            let row = first.wrapping_add_signed((tile.row + i).cast_signed() * planes.row);
            for j in 0..2.min(n_columns - tile.column) {
                let at = row.wrapping_add_signed((tile.column + j).cast_signed() * planes.column);
                let before = if add { s.load(&self.y[at]) } else { s.zero() };
                let sum = if add { s.add(before, values[i][j]) } else { values[i][j] };
                let result = match self.convolution.finish {
                    Finish::Rectified if is_last => s.max(s.zero(), sum),
                    Finish::Sum | Finish::Rectified => sum,
                    Finish::Where(rectified) => {
                        let is_positive = s.gt(s.load(&T::lanes(rectified)[at]), s.zero());
                        s.select(is_positive, sum, before)
                    }
                };
                s.store(result, &mut self.y[at]);
            }
        }
    }
}

/// One place of a block of output channels by tiles: chains over products down, products across and input channels.
struct Chains<'a, T: Real> {
    /// What they begin with.
    first: [T; KERNELS],
    terms: &'a [Term],
    n_channels: usize,
    weights: &'a [[T; KERNELS]],
    pixels: &'a [[T::Lanes; COLUMNS]],
}

impl<T: Real> Chains<'_, T> {
    #[inline(always)]
    fn run<S: Simd<T>>(
        &self,
        s: S,
        (n_kernels, n_tiles): (usize, usize),
        sums: &mut [[T::Lanes; TILES]; KERNELS],
    ) {
        if const { S::ACCUMULATORS >= KERNELS * TILES } {
            return match (n_kernels, n_tiles) {
                (4, 5) => self.block::<S, 4, 5>(s, 0, sums),
                (4, 4) => self.block::<S, 4, 4>(s, 0, sums),
                (4, _) => self.block::<S, 4, 3>(s, 0, sums),
                (_, 5) => self.block::<S, 3, 5>(s, 0, sums),
                (_, 4) => self.block::<S, 3, 4>(s, 0, sums),
                (_, _) => self.block::<S, 3, 3>(s, 0, sums),
            };
        }
        for first in 0..n_tiles {
            self.block::<S, KERNELS, 1>(s, first, sums);
        }
    }

    /// `K` output channels by the `X` tiles from `first`.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const X: usize>(
        &self,
        s: S,
        first: usize,
        sums: &mut [[T::Lanes; TILES]; KERNELS],
    ) {
        let mut chains = [[s.zero(); X]; K];
        for i in 0..K {
            chains[i] = [s.splat(self.first[i]); X];
        }
        let mut weights = self.weights.chunks_exact(self.n_channels);
        for pixels in self.pixels.chunks_exact(self.n_channels) {
            for (&term, weights) in self.terms.iter().zip(&mut weights) {
                match term {
                    Difference(a, b) => {
                        steps::<T, S, 0, K, X>(s, weights, pixels, [a, b], first, &mut chains)
                    }
                    Sum(a, b) => steps::<T, S, 1, K, X>(s, weights, pixels, [a, b], first, &mut chains),
                    One(a) => steps::<T, S, 2, K, X>(s, weights, pixels, [a, a], first, &mut chains),
                }
            }
        }
        for i in 0..K {
            for j in 0..X {
                s.store(chains[i][j], &mut sums[i][first + j]);
            }
        }
    }
}

/// Adds one product over all channels: of the difference of two columns, of their sum, or of the first of them, as `TERM` is 0, 1 or 2.
#[inline(always)]
fn steps<T: Real, S: Simd<T>, const TERM: usize, const K: usize, const X: usize>(
    s: S,
    weights: &[[T; KERNELS]],
    pixels: &[[T::Lanes; COLUMNS]],
    [a, b]: [usize; 2],
    first: usize,
    chains: &mut [[S::V; X]; K],
) {
    for (weights, pixels) in weights.iter().zip(pixels) {
        // The columns of all tiles.
        let under = |at: usize| pixels[at..].first_chunk::<{ 2 * TILES - 1 }>();
        let (Some(left), Some(right)) = (under(a), under(b)) else { return };
        for j in 0..X {
            let (left, right) = (s.load(&left[2 * (first + j)]), &right[2 * (first + j)]);
            let value = match TERM {
                0 => s.sub(left, s.load(right)),
                1 => s.add(left, s.load(right)),
                _ => left,
            };
            for i in 0..K {
                chains[i][j] = s.mul_add(s.splat(weights[i]), value, chains[i][j]);
            }
        }
    }
}

/// The outputs of one tile of a block, over one input channel.
#[inline(always)]
fn single<T: Real, S: Simd<T>, const W: usize>(
    s: S,
    bias: &[T; KERNELS],
    weights: &[[T; KERNELS]],
    pixels: &[[T::Lanes; COLUMNS]],
    tile: usize,
) -> [[[S::V; 2]; 2]; SINGLE] {
    let (firsts, numbers) = const { (firsts::<W>(), numbers::<W>()) };
    let mut results = [[[s.zero(); 2]; 2]; SINGLE];
    unrolled!(a < 4, {
        let mut sums = [[s.zero(); 4]; SINGLE];
        if a == ALL / 4 {
            for k in 0..SINGLE {
                sums[k][ALL % 4] = s.splat(bias[k]);
            }
        }
        for row in firsts[a]..firsts[a + 1] {
            let x: &[T::Lanes; five::PIXELS] = pixels[row][2 * tile..].first_chunk().expect("columns");
            let mut values = [s.zero(); five::PIXELS];
            for i in 0..=W {
                values[i] = s.load(&x[i]);
            }
            let values = of_pixels::<T, S, W>(s, values);
            for column in 0..const { n_products::<W>() } {
                let weights = &weights[numbers[row][column]];
                for k in 0..SINGLE {
                    let sum = &mut sums[k][if W == 5 { five::SUM_OF[column] } else { column }];
                    *sum = s.mul_add(s.splat(weights[k]), values[column], *sum);
                }
            }
        }
        for k in 0..SINGLE {
            let [left, right] = outputs(s, sums[k]);
            let [upper, lower] = results[k];
            results[k] = match a {
                0 => [[left, right], lower],
                1 => [[s.add(upper[0], left), s.add(upper[1], right)], [left, right]],
                2 => [
                    [s.add(upper[0], left), s.add(upper[1], right)],
                    [s.sub(lower[0], left), s.sub(lower[1], right)],
                ],
                _ => [upper, [s.sub(lower[0], left), s.sub(lower[1], right)]],
            };
        }
    });
    results
}

#[cfg(test)]
mod tests {
    use super::super::five::values;
    use super::super::{Plain, PlaneSteps, WeightSteps};
    use super::*;
    use crate::flat::Order;
    use crate::window::Window;

    /// Values of which half are zero, as behind a rectifier.
    fn rectified(n: usize, seed: u64) -> Vec<f32> {
        values(n, seed).into_iter().map(|value| value.max(0.0)).collect()
    }

    /// The error of the reduced and of the plain convolution, in root mean squares, for images of so many channels and pixels.
    fn errors(
        size: usize,
        n_channels: usize,
        pad: usize,
        image: [usize; 2],
        is_turned: bool,
        finish: usize,
    ) -> [f64; 2] {
        let (n_outputs, n_samples) = (10, 19);
        let axis = |n: usize| Axis {
            window: Window { stride: 1, pad },
            inputs: 0..n,
            taps: 0..size,
            outputs: 0..n + 2 * pad + 1 - size,
        };
        let [rows, columns] = image.map(axis);
        let [height, width] = image;
        let (n_down, n_across) = (rows.outputs.len(), columns.outputs.len());
        let x = rectified(n_channels * height * width * 32, 1);
        let w = values(n_outputs * n_channels * size * size, 2);
        let bias = values(n_outputs, 3);
        let rectified = rectified(n_outputs * n_down * n_across * 32, 4);
        let convolution = Convolution {
            order: Order::Lanes,
            x: &x,
            is_turned,
            w: &w,
            steps: WeightSteps::whole(n_channels, size, size),
            bias: Some(&bias),
            accumulate: true,
            finish: [Finish::Sum, Finish::Rectified, Finish::Where(&rectified)][finish],
            n_samples,
            n_inputs: n_channels,
            n_outputs,
            planes: PlaneSteps::whole(n_down, n_across),
            rows,
            columns,
            resident: RESIDENT,
        };
        assert!(convolution.is_reducible());
        let mut reduced = vec![1.0; n_outputs * n_down * n_across * 32];
        let mut plain = reduced.clone();
        assert!(convolution.run(&mut reduced));
        f32::scratch(convolution.copied_len(), |scratch| {
            let (convolution, y) = (&convolution, f32::lanes_mut(&mut plain));
            f32::dispatch(Plain::<f32, 0> { convolution, y, scratch });
        });
        assert!(reduced != plain, "other roundings");
        let mut squares = [0.0; 2];
        for (at, (&reduced, &plain)) in reduced.iter().zip(&plain).enumerate() {
            let (r, c, lane) = (at / 16 / n_across % n_down, at / 16 % n_across, at % 16);
            let (o, group) =
                (at / 16 / n_across / n_down % n_outputs, at / 16 / n_across / n_down / n_outputs);
            if group * 16 + lane >= n_samples {
                continue;
            }
            let mut sum = 1.0 + f64::from(bias[o]);
            for i in 0..n_channels {
                for ky in 0..size {
                    for kx in 0..size {
                        let (Some(iy), Some(ix)) = ((r + ky).checked_sub(pad), (c + kx).checked_sub(pad))
                        else {
                            continue;
                        };
                        if iy < height && ix < width {
                            let pixel = iy * width + ix;
                            let pixel = if is_turned { height * width - 1 - pixel } else { pixel };
                            let x = x[((group * n_channels + i) * height * width + pixel) * 16 + lane];
                            sum +=
                                f64::from(x) * f64::from(w[((o * n_channels + i) * size + ky) * size + kx]);
                        }
                    }
                }
            }
            let sum = match finish {
                1 => sum.max(0.0),
                2 if rectified[at] <= 0.0 => 1.0,
                _ => sum,
            };
            squares[0] += (f64::from(reduced) - sum).powi(2);
            squares[1] += (f64::from(plain) - sum).powi(2);
        }
        squares.map(|sum| (sum / plain.len() as f64).sqrt())
    }

    #[test]
    fn it_rounds_about_as_the_plain_convolution_does() {
        for is_turned in [false, true] {
            for (size, n_channels, pad, image) in [
                (3, 29, 1, [8, 8]),
                (3, 32, 0, [5, 9]),
                (3, 64, 2, [1, 7]),
                (3, 130, 1, [7, 6]),
                (3, 128, 1, [9, 6]),
                (5, 1, 2, [28, 28]),
                (5, 6, 0, [14, 14]),
                (5, 6, 4, [10, 10]),
                (5, 16, 2, [9, 6]),
                (5, 70, 3, [6, 7]),
            ] {
                for finish in 0..3 {
                    let [reduced, plain] = errors(size, n_channels, pad, image, is_turned, finish);
                    println!(
                        "{size}x{size}, {n_channels} channels, {image:?}: {reduced:.2e} and {plain:.2e}, {:.2}",
                        reduced / plain
                    );
                    assert!(reduced < 1.5 * plain, "{n_channels} channels: {reduced:e} and {plain:e}");
                }
            }
        }
    }
}
