//! The pixels under tiles, transformed down their columns: what convolutions and gradients of weights both
//! multiply.
//!
//! They are not transformed across as well. That takes two or four additions per seven products where these
//! are multiplied, which run beside multiply-adds; storing the result of both, 16 or 49 vectors for what are
//! 7 or 14 here, would not.

use super::transform::{PIXELS, n_products, of_pixels};
use crate::convolve::Axis;
use crate::real::Real;
use crate::simd::Simd;
use std::ops::Range;

/// Where the pixels under a rectangle of tiles lie in the planes of an image.
pub(super) struct Under {
    height: usize,
    width: usize,
    /// The row of the first pixel; above the image, that is beyond any row.
    top: usize,
    /// Which columns under the tiles lie inside of the image, and where the first of these is in a row.
    inside: Range<usize>,
    first_inside: usize,
    /// Columns under the tiles.
    n_columns: usize,
    /// Whether the planes are turned round.
    is_turned: bool,
}

impl Under {
    /// Under so many columns from those of this tile on, by rows and columns of tiles.
    #[inline(always)]
    pub(super) fn new(
        [rows, columns]: [&Axis; 2],
        is_turned: bool,
        [down, across]: [usize; 2],
        n_columns: usize,
    ) -> Self {
        let first = |axis: &Axis, tile: usize| {
            (axis.outputs.start + 2 * tile).wrapping_sub(axis.window.pad + axis.inputs.start)
        };
        let (height, width) = (rows.inputs.len(), columns.inputs.len());
        let left = first(columns, across).cast_signed();
        let [start, end] = [-left, width.cast_signed() - left]
            .map(|column| column.clamp(0, n_columns.cast_signed()).cast_unsigned());
        let inside = start..end;
        let first_inside = left.wrapping_add_unsigned(start).cast_unsigned();
        let first_inside =
            if is_turned { width.wrapping_sub(first_inside + inside.len()) } else { first_inside };
        let first_inside = if inside.is_empty() { 0 } else { first_inside };
        Under { height, width, top: first(rows, down), inside, first_inside, n_columns, is_turned }
    }

    /// The columns of a plane in all products of `W` taps, under the tiles that lie so many rows of tiles
    /// below the first; zero beyond the border. `none` is as many zeros as there are columns. The columns of
    /// each product begin `step` after those of the one before.
    #[inline(always)]
    pub(super) fn transform<T: Real, S: Simd<T>, const W: usize>(
        &self,
        s: S,
        x: &[T::Lanes],
        down: usize,
        none: &[T::Lanes],
        (to, step): (&mut [T::Lanes], usize),
    ) {
        let n_inside = self.inside.len();
        let mut rows = [&none[..n_inside]; PIXELS];
        for i in 0..=W {
            let at = self.top.wrapping_add(2 * down + i);
            let at = if self.is_turned { self.height.wrapping_sub(at).wrapping_sub(1) } else { at };
            if at < self.height {
                rows[i] = &x[at * self.width + self.first_inside..][..n_inside];
            }
        }
        // Plain indices into one slice: an array of slices would be in memory, and be looked up for every
        // store.
        for column in 0..n_inside {
            let at = if self.is_turned { n_inside - 1 - column } else { column };
            let mut values = [s.zero(); PIXELS];
            for i in 0..=W {
                values[i] = s.load(&rows[i][at]);
            }
            let products = of_pixels::<T, S, W>(s, values);
            for i in 0..const { n_products::<W>() } {
                s.store(products[i], &mut to[i * step + self.inside.start + column]);
            }
        }
        for column in (0..self.inside.start).chain(self.inside.end..self.n_columns) {
            for i in 0..const { n_products::<W>() } {
                s.store(s.zero(), &mut to[i * step + column]);
            }
        }
    }
}

/// The same line of `N` arrays that lie behind each other, each so long.
#[inline(always)]
pub(super) fn lines<V, const N: usize>(arrays: &mut [V], len: usize, line: Range<usize>) -> [&mut [V]; N] {
    let mut arrays = arrays.chunks_exact_mut(len);
    std::array::from_fn(|_| &mut arrays.next().expect("as many arrays")[line.clone()])
}
