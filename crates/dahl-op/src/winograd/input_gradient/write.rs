//! What rows of tiles add up to, and where pixels are written.

use super::{InputGradient, SHARED};
use crate::convolve::Finish;
use crate::real::Real;
use crate::simd::Simd;
use crate::winograd::transform::{PIXELS, PRODUCTS, to_pixels};
use std::ops::Range;

impl<T: Real> InputGradient<'_, T> {
    /// Adds a row of tiles to the six rows of pixels under it. The first two of them, or all if it is the
    /// `LAST`, are written.
    #[inline(always)]
    pub(super) fn add<S: Simd<T>, const LAST: bool>(
        &self,
        s: S,
        (plane, down): (usize, usize),
        sums: &[[T::Lanes; PRODUCTS]],
        band: &mut [[T::Lanes; SHARED]],
        dx: &mut [T::Lanes],
    ) {
        let (n_rows, n_columns) = (self.rows.len(), self.columns.len());
        // Where the first pixel under the tiles lies; before the image, that is beyond its end.
        let top = (self.oys.start + 2 * down).wrapping_sub(self.pad + self.rows.start);
        let left = self.oxs.start.wrapping_sub(self.pad + self.columns.start);
        let mut lines = [None; PIXELS];
        for i in 0..PIXELS {
            let row = top.wrapping_add(i);
            if row < n_rows {
                lines[i] = Some((plane * n_rows + row) * n_columns);
            }
        }
        for (column, (sums, band)) in sums.iter().zip(band).enumerate() {
            let at = left.wrapping_add(column);
            if at >= n_columns {
                continue;
            }
            let mut products = [s.zero(); PRODUCTS];
            for row in 0..PRODUCTS {
                products[row] = s.load(&sums[row]);
            }
            let mut pixels = to_pixels(s, products);
            if down > 0 {
                for i in 0..SHARED {
                    pixels[i] = s.add(s.load(&band[i]), pixels[i]);
                }
            }
            if !LAST {
                for i in 0..SHARED {
                    s.store(pixels[i + 2], &mut band[i]);
                }
            }
            for i in 0..if LAST { PIXELS } else { 2 } {
                if let Some(line) = lines[i] {
                    self.write(s, pixels[i], line + at, dx);
                }
            }
        }
    }

    /// Writes one pixel.
    #[inline(always)]
    fn write<S: Simd<T>>(&self, s: S, sum: S::V, at: usize, dx: &mut [T::Lanes]) {
        let to = &mut dx[at];
        let (before, sum) = if self.accumulate {
            let before = s.load(to);
            (before, s.add(before, sum))
        } else {
            (s.zero(), sum)
        };
        let sum = match self.finish {
            Finish::Where(y) => s.select(s.gt(s.load(&T::lanes(y)[at]), s.zero()), sum, before),
            _ => sum,
        };
        s.store(sum, to);
    }

    /// Pixels that no tile reaches are zero.
    #[inline(always)]
    pub(super) fn clear<S: Simd<T>>(&self, s: S, dx: &mut [T::Lanes]) {
        let reached = |n_tiles: usize, start: usize, pixels: &Range<usize>| {
            let first = (start.max(self.pad) - self.pad).max(pixels.start);
            let end = (start + 2 * n_tiles + SHARED).saturating_sub(self.pad).min(pixels.end);
            first - pixels.start..end.max(first) - pixels.start
        };
        let (n_down, n_across) = self.n_tiles_along();
        let rows = reached(n_down, self.oys.start, &self.rows);
        let columns = reached(n_across, self.oxs.start, &self.columns);
        let n_rows = self.rows.len();
        if rows == (0..n_rows) && columns == (0..self.columns.len()) {
            return;
        }
        for (line, dx) in dx.chunks_exact_mut(self.columns.len()).enumerate() {
            for (column, to) in dx.iter_mut().enumerate() {
                if !(rows.contains(&(line % n_rows)) && columns.contains(&column)) {
                    s.store(s.zero(), to);
                }
            }
        }
    }
}
