//! The products of a rectangle of tiles: per tile, product down and input channel a register block of output
//! channels by the taps of a row.

use super::parts::{Part, Tiles};
use super::{BLOCK, FOLDED, Gradients, WIDTH};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::winograd::transform::{PIXELS, PRODUCTS, SUM_OF};
use std::marker::PhantomData;

pub(super) fn products<T: Real, G: Gradients<T>, const K: usize>(
    (part, tiles, n_valid): (&Part, &Tiles, usize),
    values: &[T::Lanes],
    columns_of: &[T::Bytes],
    pixels: &[T::Lanes],
    sums: &mut [T::Lanes],
) {
    T::dispatch(Products::<T, G, K> {
        n_channels: part.channels.len(),
        values,
        columns_of,
        places: &tiles.places[..tiles.len()],
        pixels,
        n_pixels: tiles.n_pixels(),
        n_valid,
        sums,
        gradients: PhantomData,
    });
}

/// The products of blocks of `K` output channels.
struct Products<'a, T: Real, G, const K: usize> {
    n_channels: usize,
    values: &'a [T::Lanes],
    columns_of: &'a [T::Bytes],
    /// Where the pixels of each tile begin.
    places: &'a [usize],
    pixels: &'a [T::Lanes],
    /// Pixels of an input channel in one product.
    n_pixels: usize,
    /// Samples from the first of the group on.
    n_valid: usize,
    /// What they are added to.
    sums: &'a mut [T::Lanes],
    gradients: PhantomData<G>,
}

impl<T: Real, G: Gradients<T>, const K: usize> Kernel<T> for Products<'_, T, G, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(mut self, s: S) {
        let sums = std::mem::take(&mut self.sums);
        let n_tiles = self.places.len();
        let per_block = self.n_channels * PRODUCTS * FOLDED;
        let (per_value, n_blocks) = (self.values.len() / 4, sums.len() / per_block);
        for (i, pixels) in
            self.pixels.chunks_exact(self.n_pixels).take(self.n_channels * PRODUCTS).enumerate()
        {
            let values = &self.values[SUM_OF[i / self.n_channels] * per_value..][..per_value];
            for block in 0..n_blocks {
                let values = &values[block * K * G::COLUMNS * n_tiles..][..K * G::COLUMNS * n_tiles];
                let columns_of = &self.columns_of[block * K * n_tiles..][..K * n_tiles];
                let sums = &mut sums[block * per_block..].as_chunks_mut().0[i];
                self.multiply(s, values, columns_of, pixels, sums);
            }
        }
    }
}

impl<T: Real, G: Gradients<T>, const K: usize> Products<'_, T, G, K> {
    /// Those of one block, input channel and product.
    #[inline(always)]
    fn multiply<S: Simd<T>>(
        &self,
        s: S,
        values: &[T::Lanes],
        columns_of: &[T::Bytes],
        pixels: &[T::Lanes],
        sums: &mut [T::Lanes; FOLDED],
    ) {
        let n_tiles = self.places.len();
        let mut all = [s.zero(); FOLDED * 8];
        if const { S::ACCUMULATORS >= BLOCK * WIDTH } {
            let chains = self.chains::<S, K>(s, values, columns_of, pixels);
            for i in 0..K {
                for j in 0..WIDTH {
                    all[i * WIDTH + j] = chains[i][j];
                }
            }
        } else {
            for i in 0..K {
                let values = &values[i * G::COLUMNS * n_tiles..][..G::COLUMNS * n_tiles];
                let chains = self.chains::<S, 1>(s, values, &columns_of[i * n_tiles..][..n_tiles], pixels);
                for j in 0..WIDTH {
                    all[i * WIDTH + j] = chains[0][j];
                }
            }
        }
        if self.n_valid < T::LANES {
            // The lanes of samples that do not exist hold anything.
            let valid = s.first(self.n_valid);
            for i in 0..K * WIDTH {
                all[i] = s.select(valid, all[i], s.zero());
            }
        }
        for i in 0..const { (K * WIDTH).div_ceil(8) } {
            let mut eight = [s.zero(); 8];
            for j in 0..8 {
                eight[j] = all[i * 8 + j];
            }
            s.store(s.add(s.load(&sums[i]), s.fold(eight)), &mut sums[i]);
        }
    }

    /// The sums of `N` output channels by lanes.
    #[inline(always)]
    fn chains<S: Simd<T>, const N: usize>(
        &self,
        s: S,
        values: &[T::Lanes],
        columns_of: &[T::Bytes],
        pixels: &[T::Lanes],
    ) -> [[S::V; WIDTH]; N] {
        let n_tiles = self.places.len();
        let mut chains = [[s.zero(); WIDTH]; N];
        let right = s.splat_bytes(1);
        let mut of_kernels = [(&values[..0], &columns_of[..0]); N];
        for i in 0..N {
            let values = &values[i * G::COLUMNS * n_tiles..][..G::COLUMNS * n_tiles];
            of_kernels[i] = (values, &columns_of[i * n_tiles..][..n_tiles]);
        }
        for (t, &place) in self.places.iter().enumerate() {
            let pixels: &[T::Lanes; PIXELS] = pixels[place..].first_chunk().expect("pixels of all tiles");
            for i in 0..N {
                let (values, columns_of) = of_kernels[i];
                if const { G::COLUMNS == 1 } {
                    let value = s.load(&values[t]);
                    let is_right = s.eq_bytes(s.load_bytes(&columns_of[t]), right);
                    for j in 0..WIDTH {
                        let pixel = s.select(is_right, s.load(&pixels[j + 1]), s.load(&pixels[j]));
                        chains[i][j] = s.mul_add(value, pixel, chains[i][j]);
                    }
                } else {
                    let (left, right) = (s.load(&values[2 * t]), s.load(&values[2 * t + 1]));
                    for j in 0..WIDTH {
                        chains[i][j] = s.mul_add(left, s.load(&pixels[j]), chains[i][j]);
                    }
                    for j in 0..WIDTH {
                        chains[i][j] = s.mul_add(right, s.load(&pixels[j + 1]), chains[i][j]);
                    }
                }
            }
        }
        chains
    }
}
