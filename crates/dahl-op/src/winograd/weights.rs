//! The weights of a convolution in its products.

use super::forward::{Cut, KERNELS};
use super::terms::numbers;
use super::transform::{n_products, of_taps_both};
use crate::convolve::Convolution;
use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes};
use std::ops::Range;

/// The transform of the weights of some channels.
pub(super) struct Weights<'a, 'b, T: Real, const W: usize> {
    pub(super) convolution: &'a Convolution<'b, T>,
    pub(super) cut: &'a Cut,
    /// Input and output channels.
    pub(super) channels: &'a Range<usize>,
    pub(super) outputs: &'a Range<usize>,
    pub(super) to: &'a mut [T],
}

impl<T: Real, const W: usize> Kernel<T> for Weights<'_, '_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Weights { convolution, cut, channels, outputs, to } = self;
        convolution.transform_weights::<S, W>(s, cut, channels, outputs, to);
    }
}

impl<T: Real> Convolution<'_, T> {
    /// The weights of a block of output channels side by side, input channel by input channel, product by
    /// product, then those of the next block.
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
                // As many taps at a time as there are lanes: those of each pair of channels side by side,
                // then transposed.
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
                let mut rows = [[s.zero(); 5]; W];
                for ky in 0..W {
                    for kx in 0..W {
                        rows[ky][kx] = s.load(&taps[ky][kx]);
                    }
                }
                of_taps_both::<T, S, W>(
                    s,
                    rows,
                    #[inline(always)]
                    |column, products| {
                        for row in 0..const { n_products::<W>() } {
                            let mut lanes = T::ZERO_LANES;
                            s.store(products[row], &mut lanes);
                            let step = numbers[row][column] * channels.len() + vector * per_vector;
                            let weights = lanes.as_ref().as_chunks().0;
                            for (to, weights) in to[step..step + n_there].iter_mut().zip(weights) {
                                *to = *weights;
                            }
                        }
                    },
                );
            }
        }
    }
}
