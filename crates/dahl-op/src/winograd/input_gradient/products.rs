//! The products of a row of tiles: a register block of the 7 products of a row for up to three tiles.

use super::{InputGradient, SHARED, TILES, TileRow};
use crate::convolve::block::unrolled;
use crate::real::Real;
use crate::simd::{Simd, block_sizes};
use crate::winograd::transform::{PRODUCTS, SUM_OF, of_gradients, to_pixels};

impl<T: Real> InputGradient<'_, T> {
    /// The products of a row of tiles for one channel, their columns already made into those of pixels.
    #[inline(always)]
    pub(super) fn products<S: Simd<T>>(
        &self,
        s: S,
        tiles: &TileRow<'_, T>,
        weights: &[T::Lanes],
        sums: &mut [[T::Lanes; PRODUCTS]],
    ) {
        let most = if const { S::ACCUMULATORS >= TILES * PRODUCTS } { TILES } else { 1 };
        for block in block_sizes(self.n_tiles_along().1, most) {
            let (upper, lower) = (tiles.upper + 2 * block.start, tiles.lower + 2 * block.start);
            let dy = &TileRow { upper, lower, planes: tiles.planes.clone() };
            let (sums, is_first) = (&mut sums[2 * block.start..], block.start == 0);
            if const { S::ACCUMULATORS < TILES * PRODUCTS } {
                rows::<T, S, 1>(s, dy, weights, is_first, sums);
            } else {
                match block.len() {
                    1 => rows::<T, S, 1>(s, dy, weights, is_first, sums),
                    2 => rows::<T, S, 2>(s, dy, weights, is_first, sums),
                    _ => rows::<T, S, 3>(s, dy, weights, is_first, sums),
                }
            }
        }
    }
}

/// All rows of products of a block of `X` tiles for one channel.
#[inline(always)]
fn rows<T: Real, S: Simd<T>, const X: usize>(
    s: S,
    tiles: &TileRow<'_, T>,
    weights: &[T::Lanes],
    is_first: bool,
    sums: &mut [[T::Lanes; PRODUCTS]],
) {
    let (weights, _) = weights.as_chunks::<PRODUCTS>();
    let n_vectors = weights.len() / PRODUCTS;
    let sums = &mut sums[..2 * X + SHARED];
    for row in 0..PRODUCTS {
        let weights = &weights[row * n_vectors..][..n_vectors];
        let products = match SUM_OF[row] {
            0 => chains::<T, S, X, 0>(s, tiles, weights),
            1 => chains::<T, S, X, 1>(s, tiles, weights),
            2 => chains::<T, S, X, 2>(s, tiles, weights),
            _ => chains::<T, S, X, 3>(s, tiles, weights),
        };
        // Each tile is added to those on its left.
        let mut shared = [s.zero(); SHARED];
        if !is_first {
            for i in 0..SHARED {
                shared[i] = s.load(&sums[i][row]);
            }
        }
        unrolled!(x < X, {
            let pixels = to_pixels(s, products[x]);
            s.store(s.add(shared[0], pixels[0]), &mut sums[2 * x][row]);
            s.store(s.add(shared[1], pixels[1]), &mut sums[2 * x + 1][row]);
            shared = [s.add(shared[2], pixels[2]), s.add(shared[3], pixels[3]), pixels[4], pixels[5]];
        });
        for i in 0..SHARED {
            s.store(shared[i], &mut sums[2 * X + i][row]);
        }
    }
}

/// One row of products of `X` tiles: the sums over output channels. The row's gradients are the `A`-th of
/// `of_gradients`.
#[inline(always)]
fn chains<T: Real, S: Simd<T>, const X: usize, const A: usize>(
    s: S,
    tiles: &TileRow<'_, T>,
    weights: &[[T::Lanes; PRODUCTS]],
) -> [[S::V; PRODUCTS]; X] {
    let mut sums = [[s.zero(); PRODUCTS]; X];
    let mut planes = tiles.planes.clone();
    for weights in weights {
        for k in 0..planes.len().min(T::LANES) {
            let Some(plane) = planes.next() else { break };
            let (upper, lower) = (pairs::<T, X>(plane, tiles.upper), pairs::<T, X>(plane, tiles.lower));
            let mut w = [s.zero(); PRODUCTS];
            for column in 0..PRODUCTS {
                w[column] = s.splat(weights[column].as_ref()[k]);
            }
            unrolled!(x < X, {
                let left = of_pair::<T, S, A>(s, &upper[x][0], &lower[x][0]);
                let right = of_pair::<T, S, A>(s, &upper[x][1], &lower[x][1]);
                let gradients = of_gradients(s, [left, right]);
                for column in 0..PRODUCTS {
                    sums[x][column] = s.mul_add(w[column], gradients[SUM_OF[column]], sums[x][column]);
                }
            });
        }
    }
    sums
}

/// The pairs from a place on.
#[inline(always)]
fn pairs<T: Real, const X: usize>(plane: &[T::Lanes], first: usize) -> &[[T::Lanes; 2]; X] {
    plane[first..].as_chunks::<2>().0.first_chunk().expect("as many pairs as tiles")
}

/// The `A`-th of what `of_gradients` gives.
#[inline(always)]
fn of_pair<T: Real, S: Simd<T>, const A: usize>(s: S, upper: &T::Lanes, lower: &T::Lanes) -> S::V {
    match A {
        0 => s.load(upper),
        1 => s.add(s.load(upper), s.load(lower)),
        2 => s.sub(s.load(upper), s.load(lower)),
        _ => s.load(lower),
    }
}
