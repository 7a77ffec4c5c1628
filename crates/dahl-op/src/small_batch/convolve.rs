//! Convolutions: a register block of output channels by vectors of neighbouring outputs.
//!
//! Each output is the chain of multiply-adds of the direct convolution, with zeros beyond the border, and is
//! added to what is there as a whole. Lanes without a sample become zero. Per tap a block of 8 channels takes
//! 16 multiply-adds and 10 loads, of which 8 are single weights.

use super::flat::VECTORS;
use super::{Flat, SampleElements, SampleOrder};
use crate::convolve::{Convolution, Finish, PlaneSteps, STACK_TAPS};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::are_finite;
use std::ops::Range;

/// A convolution of few samples.
pub(crate) struct SmallBatch<'a, 'b, T: Real> {
    pub(crate) convolution: &'a Convolution<'b, T>,
    pub(crate) flat: Flat,
    pub(crate) y: &'a mut [T],
    /// As much as `flat_len`.
    pub(crate) scratch: &'a mut [T::Lanes],
}

impl<T: Real> Kernel<T> for SmallBatch<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        self.convolution.one_by_one(s, &self.flat, self.y, self.scratch);
    }
}

impl<T: Real> Convolution<'_, T> {
    /// How its pixels lie side by side, if they should. That does not depend on its data.
    pub(crate) fn flat(&self) -> Option<Flat> {
        let axes = [&self.rows, &self.columns];
        let flat = Flat::new::<T>((self.order, self.n_samples), (self.n_inputs, self.n_outputs), axes)?;
        Some(if self.is_turned { flat.turned() } else { flat })
    }

    /// Whether zeros around its image change nothing: an infinite weight times the zero of padding would be
    /// NaN.
    pub(crate) fn is_padding_safe(&self, flat: &Flat) -> bool {
        !flat.has_padding() || are_finite(self.w)
    }

    /// Vectors of scratch that it needs: pixels, then outputs.
    pub(crate) fn flat_len(&self, flat: &Flat) -> usize {
        flat.pixels_len::<T>(self.n_inputs) + self.n_outputs * flat.n_vectors
    }

    /// All outputs.
    #[inline(always)]
    fn one_by_one<S: Simd<T>>(&self, s: S, flat: &Flat, y: &mut [T], scratch: &mut [T::Lanes]) {
        let [height, width] = flat.outputs;
        // Pixels are not turned round here, but taps, so that outputs are not turned round either.
        let PlaneSteps { mut first, mut row, mut column, .. } = self.planes;
        if self.is_turned {
            let last = (height - 1).cast_signed() * row + (width - 1).cast_signed() * column;
            (first, row, column) = (first.wrapping_add_signed(last), -row, -column);
        }
        for sample in 0..self.n_samples {
            let sums = T::flat(self.flat_outputs(s, flat, sample, scratch));
            let place = self.order.place::<T>(sample, self.n_outputs * self.planes.len);
            let planes = sums.chunks_exact(flat.n_vectors * T::LANES).take(self.n_outputs);
            for (o, sums) in planes.enumerate() {
                let first = o * self.planes.len + first;
                for (r, sums) in sums.chunks(flat.pitch).take(height).enumerate() {
                    let row = first.wrapping_add_signed(r.cast_signed() * row);
                    let sums = &sums[..width];
                    match self.finish {
                        Finish::Sum if self.order == SampleOrder::Rows && column == 1 && !self.accumulate => {
                            y[place.at(row)..][..width].copy_from_slice(sums);
                        }
                        _ => self.write_row(sums, (row, column), (sample, place), y),
                    }
                }
            }
        }
    }

    /// Writes the sums of a row where they belong: at a place and so far apart.
    #[inline(always)]
    fn write_row(
        &self,
        sums: &[T],
        (mut at, step): (usize, isize),
        (sample, place): (usize, SampleElements),
        y: &mut [T],
    ) {
        for &sum in sums {
            let i = place.at(at);
            if self.order == SampleOrder::Lanes && sample == 0 && !self.accumulate {
                y[i..i + T::LANES].fill(T::default());
            }
            let before = if self.accumulate { y[i] } else { T::default() };
            let sum = if self.accumulate { before + sum } else { sum };
            y[i] = match self.finish {
                Finish::Rectified if T::default() > sum => T::default(),
                Finish::Where(rectified) if rectified[i] > T::default() => sum,
                Finish::Where(_) => before,
                Finish::Sum | Finish::Rectified => sum,
            };
            at = at.wrapping_add_signed(step);
        }
    }

    /// The sums of one sample: planes of `n_vectors`.
    #[inline(always)]
    pub(crate) fn flat_outputs<'a, S: Simd<T>>(
        &self,
        s: S,
        flat: &Flat,
        sample: usize,
        scratch: &'a mut [T::Lanes],
    ) -> &'a [T::Lanes] {
        let (x, y) = scratch.split_at_mut(flat.pixels_len::<T>(self.n_inputs));
        let n_pixels = self.rows.inputs.len() * self.columns.inputs.len();
        let place = self.order.place::<T>(sample, self.n_inputs * n_pixels);
        flat.pixels(self.x, place, T::flat_mut(x));
        let x = T::flat(x);
        let per_channel = self.rows.taps.len() * self.columns.taps.len();
        let most = (STACK_TAPS / per_channel).max(1);
        let mut weights = [T::default(); STACK_TAPS * 8];
        let mut o = 0;
        while o < self.n_outputs {
            let mut first = 0;
            let y = &mut y[o * flat.n_vectors..];
            let mut n = 0;
            // Once even without any channel: the bias is due all the same.
            while first < self.n_inputs.max(1) {
                let channels = first..(first + most).min(self.n_inputs);
                let some = (o, channels);
                n = match self.n_outputs - o {
                    8.. if S::ACCUMULATORS >= 24 => {
                        self.some_outputs::<S, 8>(s, flat, some, x, &mut weights, y)
                    }
                    2.. => self.some_outputs::<S, 2>(s, flat, some, x, &mut weights, y),
                    _ => self.some_outputs::<S, 1>(s, flat, some, x, &mut weights, y),
                };
                first += most;
            }
            o += n;
        }
        y
    }

    /// Adds some input channels to `K` output channels from `o`. Returns `K`.
    #[inline(always)]
    fn some_outputs<S: Simd<T>, const K: usize>(
        &self,
        s: S,
        flat: &Flat,
        (o, channels): (usize, Range<usize>),
        x: &[T],
        weights: &mut [T],
        y: &mut [T::Lanes],
    ) -> usize {
        let (height, width) = (self.rows.taps.len(), self.columns.taps.len());
        let n_taps = channels.len() * height * width;
        let weights = &mut weights.as_chunks_mut::<K>().0[..n_taps];
        self.pack(o, channels.clone(), weights);
        // Where the pixels of each tap lie.
        let mut steps = [0; STACK_TAPS];
        for (channel, steps) in channels.clone().zip(steps.chunks_exact_mut(height * width)) {
            for (ky, steps) in steps.chunks_exact_mut(width).enumerate() {
                for (kx, step) in steps.iter_mut().enumerate() {
                    *step = match self.is_turned {
                        true => flat.step(channel, height - 1 - ky, width - 1 - kx),
                        false => flat.step(channel, ky, kx),
                    };
                }
            }
        }
        for first in (0..flat.n_vectors).step_by(VECTORS) {
            let mut sums = [[s.zero(); VECTORS]; K];
            for i in 0..K {
                for j in 0..VECTORS {
                    sums[i][j] = match self.bias {
                        _ if channels.start > 0 => s.load(&y[i * flat.n_vectors + first + j]),
                        Some(bias) => s.splat(bias[o + i]),
                        None => s.zero(),
                    };
                }
            }
            for (weights, &step) in weights.iter().zip(&steps) {
                let x = T::lanes(&x[first * T::LANES + step..][..VECTORS * T::LANES]);
                let mut values = [s.zero(); VECTORS];
                for j in 0..VECTORS {
                    values[j] = s.load(&x[j]);
                }
                for i in 0..K {
                    let weight = s.splat(weights[i]);
                    for j in 0..VECTORS {
                        sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
                    }
                }
            }
            for i in 0..K {
                for j in 0..VECTORS {
                    s.store(sums[i][j], &mut y[i * flat.n_vectors + first + j]);
                }
            }
        }
        K
    }
}
