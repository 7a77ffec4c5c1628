//! The products of a convolution: for each of 16 places of a tile, a register block of output channels by
//! tiles, whose chains of multiply-adds run over products down, products across and input channels.
//!
//! Per channel and product, a block of 4 output channels by 5 tiles takes 20 multiply-adds, 5 or 10 loads of
//! pixels and up to 5 additions. Five tiles leave registers for what is multiplied; six would not. The sums
//! of all places are stored, and made into outputs at the end. Where there is only one input channel that
//! would be most of the work, so all sums of a tile are in registers there ([`single`]).

use super::forward::{COLUMNS, KERNELS, Pass, SINGLE, TILES};
use super::target::{Target, Tile};
use super::terms::{ALL, Difference, One, PLACES, Sum, Term, firsts, numbers, places, terms};
use super::transform::{PIXELS, SUM_OF, n_products, of_pixels, outputs};
use crate::convolve::Convolution;
use crate::convolve::block::unrolled;
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};

/// The sums of products over the channels of a pass, and what becomes of them. `ONE` says that there is one
/// input channel.
pub(super) struct Products<'a, 'b, T: Real, Y, const W: usize, const ONE: bool> {
    pub(super) convolution: &'a Convolution<'b, T>,
    pub(super) pass: &'a Pass<'a>,
    pub(super) pixels: &'a [T::Lanes],
    pub(super) weights: &'a [T],
    pub(super) target: &'a mut Y,
}

impl<T: Real, Y: Target<T>, const W: usize, const ONE: bool> Kernel<T> for Products<'_, '_, T, Y, W, ONE> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Products { convolution, pass, pixels, weights, target } = self;
        let mut target = target.local();
        let n_channels = pass.channels.len();
        let n_products = const { n_products::<W>() * n_products::<W>() };
        let n_across = convolution.n_tiles_along().1;
        let mut sums = [[[T::ZERO_LANES; TILES]; KERNELS]; PLACES];
        for (block, kernels) in block_sizes(pass.outputs.len(), pass.cut.n_kernels).enumerate() {
            let weights = &weights[block * pass.cut.block_len()..][..n_products * n_channels * KERNELS];
            let weights = weights.as_chunks::<KERNELS>().0;
            let mut bias = [T::default(); KERNELS];
            if let Some(all) = convolution.bias.filter(|_| pass.channels.start == 0) {
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
                let size = (kernels.len(), tiles.len());
                T::dispatch(Places::<T, W> { bias, n_channels, weights, pixels, size, sums: &mut sums });
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

/// All places of a block of output channels by tiles. It is a function of its own, which all convolutions of
/// `W` taps share, whatever becomes of their outputs. How many products a place has must be known when it is
/// compiled: a loop over them would move all sums to other registers in between.
struct Places<'a, T: Real, const W: usize> {
    /// What the chains of one place begin with; the others with zero.
    bias: [T; KERNELS],
    n_channels: usize,
    weights: &'a [[T; KERNELS]],
    pixels: &'a [[T::Lanes; COLUMNS]],
    /// Output channels and tiles.
    size: (usize, usize),
    sums: &'a mut [[[T::Lanes; TILES]; KERNELS]; PLACES],
}

impl<T: Real, const W: usize> Kernel<T> for Places<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Places { bias, n_channels, weights, pixels, size, sums } = self;
        let (firsts, places) = const { (firsts::<W>(), places::<W>()) };
        for place in 0..PLACES {
            let chains = Chains {
                first: if place == ALL { bias } else { [T::default(); KERNELS] },
                terms: terms::<W>(place % 4),
                n_channels,
                weights: &weights[places[place] * n_channels..places[place + 1] * n_channels],
                pixels: &pixels[firsts[place / 4] * n_channels..firsts[place / 4 + 1] * n_channels],
            };
            chains.run(s, size, &mut sums[place]);
        }
    }
}

/// One place of a block of output channels by tiles: chains over products down, products across and input
/// channels.
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

/// Adds one product over all channels: of the difference of two columns, of their sum, or of the first of
/// them, as `TERM` is 0, 1 or 2.
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
            let x: &[T::Lanes; PIXELS] = pixels[row][2 * tile..].first_chunk().expect("columns");
            let mut values = [s.zero(); PIXELS];
            for i in 0..=W {
                values[i] = s.load(&x[i]);
            }
            let values = of_pixels::<T, S, W>(s, values);
            for column in 0..const { n_products::<W>() } {
                let weights = &weights[numbers[row][column]];
                for k in 0..SINGLE {
                    let sum = &mut sums[k][if W == 5 { SUM_OF[column] } else { column }];
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
