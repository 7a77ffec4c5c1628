//! The order in which a convolution is computed: bands of rows, then blocks of output channels, then as many
//! input channels as have their weights on the stack.

use super::block::{Band, Block, Taps};
use super::{Convolution, Finish, STACK_TAPS};
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{IsWide, Kernel, Simd};
use std::ops::Range;

/// Rows of output that a band has at least, where channels can be split instead: rows of `x` at the edge of a
/// band are copied twice.
const LEAST_ROWS: usize = 4;

/// How a convolution is cut.
struct Cut {
    /// Rows of output per band.
    n_rows: usize,
    /// Input channels that are copied at a time.
    n_channels: usize,
    /// Whether bands are copied before they are used.
    is_copied: bool,
}

impl<T: Real> Convolution<'_, T> {
    /// Vectors of `x` that are copied at a time: the scratch of the direct algorithm.
    pub(super) fn copied_len(&self) -> usize {
        let cut = self.cut();
        if cut.is_copied {
            cut.n_channels * self.n_rows_under(cut.n_rows) * self.columns.inputs.len()
        } else {
            0
        }
    }

    /// Rows of input under so many rows of output, at most.
    fn n_rows_under(&self, n_rows: usize) -> usize {
        let under = n_rows.saturating_sub(1) * self.rows.window.stride + self.rows.taps.len();
        under.min(self.rows.inputs.len())
    }

    fn cut(&self) -> Cut {
        let (n_rows, width) = (self.rows.outputs.len(), self.columns.inputs.len());
        let len = self.n_inputs * self.rows.inputs.len() * width;
        if len <= self.resident {
            return Cut { n_rows, n_channels: self.n_inputs, is_copied: self.is_turned };
        }
        // As many rows as fit with all channels; if those are very few, a part of the channels.
        let room = self.resident / (self.n_inputs * width);
        let n_fit = (room.saturating_sub(self.rows.taps.len()) / self.rows.window.stride + 1).min(n_rows);
        if room >= self.rows.taps.len() && n_fit >= LEAST_ROWS.min(n_rows) {
            // Bands of nearly the same size.
            let n_bands = n_rows.div_ceil(n_fit);
            return Cut { n_rows: n_rows.div_ceil(n_bands), n_channels: self.n_inputs, is_copied: true };
        }
        let n_rows = LEAST_ROWS.min(n_rows);
        let n_channels = (self.resident / (self.n_rows_under(n_rows) * width).max(1)).clamp(1, self.n_inputs);
        Cut { n_rows, n_channels, is_copied: true }
    }

    /// All outputs, by the definition.
    pub(crate) fn direct(&self, y: &mut [T::Lanes], scratch: &mut [T::Lanes]) {
        let copied = first(scratch, self.copied_len());
        let is_wide = T::dispatch(IsWide);
        let cut = self.cut();
        let x_plane = self.rows.inputs.len() * self.columns.inputs.len();
        let mut weights = [T::default(); STACK_TAPS * 8];
        for group in 0..self.n_groups() {
            let x = &T::lanes(self.x)[group * self.n_inputs * x_plane..][..self.n_inputs * x_plane];
            for first_row in self.rows.outputs.clone().step_by(cut.n_rows.max(1)) {
                let outputs = first_row..(first_row + cut.n_rows).min(self.rows.outputs.end);
                let under = self.rows.inputs_of(&outputs);
                let mut first = 0;
                // Once even without any channel: the bias is due all the same.
                while first < self.n_inputs.max(1) {
                    let channels = first..(first + cut.n_channels).min(self.n_inputs);
                    first += cut.n_channels.max(1);
                    let mut rows = self.rows.clone();
                    rows.outputs = outputs.clone();
                    let x = &x[channels.start * x_plane..channels.end * x_plane];
                    let x = if cut.is_copied {
                        T::dispatch(Copy { convolution: self, x, rows: &under, to: &mut *copied });
                        rows.inputs = under.clone();
                        &*copied
                    } else {
                        x
                    };
                    let planes = super::PlaneSteps {
                        first: self.planes.first.wrapping_add_signed(
                            (first_row - self.rows.outputs.start).cast_signed() * self.planes.row,
                        ),
                        ..self.planes
                    };
                    let band = Band { x, rows, columns: &self.columns, planes };
                    self.outputs(is_wide, &band, channels, group, &mut weights, y);
                }
            }
        }
    }

    /// Adds some input channels to a band of all output channels: blocks of as many accumulators as the
    /// registers hold, channels times columns.
    fn outputs(
        &self,
        is_wide: bool,
        band: &Band<'_, T>,
        channels: Range<usize>,
        group: usize,
        weights: &mut [T],
        y: &mut [T::Lanes],
    ) {
        // Kernels of three columns have blocks of their own; five are computed by Winograd's algorithm,
        // unless there are very few.
        let is_three = self.columns.taps.len() == 3;
        let mut o = 0;
        while o < self.n_outputs {
            let left = self.n_outputs - o;
            let channels = channels.clone();
            let at = (group * self.n_outputs + o, o);
            o += match (is_wide, left) {
                (true, 8..) if is_three => self.block_of_outputs::<8, 3, 3>(band, channels, at, weights, y),
                (true, 8..) => self.block_of_outputs::<8, 3, 0>(band, channels, at, weights, y),
                (true, 6..) if is_three => self.block_of_outputs::<6, 4, 3>(band, channels, at, weights, y),
                (true, 6..) => self.block_of_outputs::<6, 4, 0>(band, channels, at, weights, y),
                (true, 4..) => self.block_of_outputs::<4, 6, 0>(band, channels, at, weights, y),
                (true, 3) => self.block_of_outputs::<3, 6, 0>(band, channels, at, weights, y),
                (true, 2..) => self.block_of_outputs::<2, 8, 0>(band, channels, at, weights, y),
                (true, _) => self.block_of_outputs::<1, 8, 0>(band, channels, at, weights, y),
                // One column, so that its vector and a weight fit beside six sums of two registers each.
                (false, 6..) if is_three => self.block_of_outputs::<6, 1, 3>(band, channels, at, weights, y),
                (false, 6..) => self.block_of_outputs::<6, 1, 0>(band, channels, at, weights, y),
                (false, 2..) if is_three => self.block_of_outputs::<2, 3, 3>(band, channels, at, weights, y),
                (false, 2..) => self.block_of_outputs::<2, 3, 0>(band, channels, at, weights, y),
                (false, _) => self.block_of_outputs::<1, 4, 0>(band, channels, at, weights, y),
            };
        }
    }

    /// Adds some input channels to a band of `K` output channels from `o`, whose first plane is `plane`.
    /// Returns `K`.
    fn block_of_outputs<const K: usize, const X: usize, const W: usize>(
        &self,
        band: &Band<'_, T>,
        channels: Range<usize>,
        (plane, o): (usize, usize),
        weights: &mut [T],
        y: &mut [T::Lanes],
    ) -> usize {
        let per_channel = self.rows.taps.len() * self.columns.taps.len();
        let most = (STACK_TAPS / per_channel.max(1)).max(1);
        let planes = plane * self.planes.len..(plane + K) * self.planes.len;
        // Batches of nearly the same size.
        let n_batches = channels.len().div_ceil(most).max(1);
        let per_batch = channels.len().div_ceil(n_batches);
        for batch in 0..n_batches {
            let first = channels.start + batch * per_batch;
            let some = first..(first + per_batch).min(channels.end);
            let packed = &mut weights.as_chunks_mut::<K>().0[..some.len() * per_channel];
            self.pack(o, some.clone(), packed);
            let bias = match self.bias {
                Some(bias) if first == 0 => bias[o..].first_chunk::<K>().copied(),
                _ => None,
            };
            let finish = match self.finish {
                Finish::Rectified if some.end < self.n_inputs => Finish::Sum,
                Finish::Where(y) => Finish::Where(T::flat(&T::lanes(y)[planes.clone()])),
                finish => finish,
            };
            let taps = Taps {
                weights: packed,
                channels: some.start - channels.start..some.end - channels.start,
                bias,
                add: self.accumulate || first > 0,
                finish,
            };
            T::dispatch(Block::<T, K, X, W> { band, taps: &taps, y: &mut y[planes.clone()] });
        }
        K
    }

    /// Puts the weights of some input channels for `K` output channels from `o` side by side.
    pub(crate) fn pack<const K: usize>(&self, o: usize, channels: Range<usize>, to: &mut [[T; K]]) {
        let steps = &self.steps;
        let (height, width) = (self.rows.taps.len(), self.columns.taps.len());
        if height * width == 0 {
            return;
        }
        let span = (height - 1) * steps.row + (width - 1) * steps.column + 1;
        for (i, to) in channels.zip(to.chunks_exact_mut(height * width)) {
            let mut from = [&self.w[..0]; K];
            for j in 0..K {
                from[j] = &self.w[steps.first + (o + j) * steps.output + i * steps.input..][..span];
            }
            if (steps.row, steps.column) == (width, 1) {
                for (tap, to) in to.iter_mut().enumerate() {
                    for j in 0..K {
                        to[j] = from[j][tap];
                    }
                }
                continue;
            }
            for (ky, to) in to.chunks_exact_mut(width).enumerate() {
                for (kx, to) in to.iter_mut().enumerate() {
                    for j in 0..K {
                        to[j] = from[j][ky * steps.row + kx * steps.column];
                    }
                }
            }
        }
    }
}

/// Copies some rows of all planes of `x` side by side, turned round if they must be.
struct Copy<'a, 'b, T: Real> {
    convolution: &'a Convolution<'b, T>,
    x: &'a [T::Lanes],
    rows: &'a Range<usize>,
    to: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for Copy<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Copy { convolution, x, rows, to } = self;
        let (height, width) = (convolution.rows.inputs.len(), convolution.columns.inputs.len());
        let first = rows.start - convolution.rows.inputs.start;
        let len = rows.len() * width;
        if len == 0 {
            return;
        }
        for (from, to) in x.chunks_exact(height * width).zip(to.chunks_exact_mut(len)) {
            if convolution.is_turned {
                let from = &from[(height - first) * width - len..][..len];
                for (from, to) in from.iter().rev().zip(to) {
                    s.store(s.load(from), to);
                }
            } else {
                let from = &from[first * width..][..len];
                for (from, to) in from.iter().zip(to) {
                    s.store(s.load(from), to);
                }
            }
        }
    }
}
