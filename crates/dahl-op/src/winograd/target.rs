//! What becomes of the outputs of a tile: they are written, or pooled, without a plane of sums in between.

use crate::convolve::{Convolution, Finish};
use crate::real::Real;
use crate::simd::Simd;
use std::ops::Range;

/// What becomes of the outputs of a tile.
pub(crate) trait Target<T: Real> {
    /// Itself.
    type Local<'a>: Target<T>
    where
        Self: 'a;

    /// Itself as a value of its own, which the compiler keeps in registers where it would look up what is
    /// behind a reference for every tile.
    fn local(&mut self) -> Self::Local<'_>;

    /// Takes those of one output channel. Where there is no second row or column, what is there means
    /// nothing.
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
    pub(super) channels: &'a Range<usize>,
}

/// Outputs as they are.
pub(crate) struct Planes<'a, 'b, T: Real> {
    pub(crate) convolution: &'a Convolution<'b, T>,
    pub(crate) y: &'a mut [T::Lanes],
}

impl<'b, T: Real> Target<T> for Planes<'_, 'b, T> {
    type Local<'a>
        = Planes<'a, 'b, T>
    where
        Self: 'a;

    #[inline(always)]
    fn local(&mut self) -> Planes<'_, 'b, T> {
        Planes { convolution: self.convolution, y: &mut *self.y }
    }

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
