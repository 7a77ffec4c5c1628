//! Gradients of weights: a register block of output channels by taps, per vector of outputs one of `dy` per
//! channel and one of `x` per tap. Sums run lane by lane over the vectors of a sample, then across lanes,
//! then over samples.
//!
//! `dw[k,c,ky,kx] += Σ_{oy,ox} x[c,oy+ky-p,ox+kx-p] dy[k,oy,ox]`. A block of 4 channels by 4 taps takes 16
//! multiply-adds for 8 loads, and two foldings of eight vectors at its end, which take as long as several
//! vectors more.

use super::{Flat, SampleOrder};
use crate::convolve::Axis;
use crate::real::Real;
use crate::scratch::first;
use crate::simd::{Kernel, Simd};
use crate::sums::all_finite;

/// Output channels, and taps of whatever input channels, of a block: twice as many sums as [`Simd::fold`]
/// takes.
const KERNELS: usize = 4;
const TAPS: usize = 4;

/// Vectors that take as long as adding up a block of sums across lanes.
const ACROSS: usize = 8;

/// The gradients of weights from a few samples.
pub(crate) struct WeightGradient<'a, T: Real> {
    flat: Flat,
    order: SampleOrder,
    /// `x[c,iy,ix]` per sample.
    x: &'a [T],
    n_samples: usize,
    /// Elements of a sample of `x`.
    len: usize,
    n_kernels: usize,
    n_channels: usize,
    /// Rows and columns of taps.
    taps: [usize; 2],
}

/// One sample.
struct Sample<'a, T: Real> {
    gradient: &'a WeightGradient<'a, T>,
    /// Its pixels side by side.
    x: &'a [T::Lanes],
    /// As many vectors per plane as there are of outputs; zero where there is no output.
    dy: &'a [T::Lanes],
    /// What it is added to.
    dw: &'a mut [T],
}

impl<'a, T: Real> WeightGradient<'a, T> {
    /// For some samples of `x`, and of output and input channels; none if they are not that few.
    pub(crate) fn new(
        order: SampleOrder,
        (x, n_samples): (&'a [T], usize),
        [n_kernels, n_channels]: [usize; 2],
        axes: [&Axis; 2],
    ) -> Option<Self> {
        let flat = Flat::new::<T>((order, n_samples), (n_channels, n_kernels), axes)?;
        let taps = axes.map(|axis| axis.taps.len());
        let [height, width] = flat.outputs;
        // Sums across lanes take as long as several vectors more.
        let pays = order == SampleOrder::Rows || 2 * n_samples * (flat.n_vectors + ACROSS) <= height * width;
        let len = n_channels * axes.iter().map(|axis| axis.inputs.len()).product::<usize>();
        let gradient = WeightGradient { flat, order, x, n_samples, len, n_kernels, n_channels, taps };
        (pays && n_kernels * n_channels > 0).then_some(gradient)
    }

    /// Adds everything to `dw`, unless something is not finite: times the zeros around pixels and gradients,
    /// that would be NaN. Returns whether it did. `gradients` puts those of one sample side by side, and
    /// `look` sees those that are added.
    pub(crate) fn add(
        &self,
        gradients: impl Fn(&Flat, usize, &mut [T::Lanes]),
        mut look: impl FnMut(&Flat, &[T::Lanes]),
        dw: &mut [T],
        scratch: &mut [T::Lanes],
    ) -> bool {
        let (x, dy) = first(scratch, self.scratch_len()).split_at_mut(self.pixels_len());
        let put = |sample: usize, x: &mut [T::Lanes], dy: &mut [T::Lanes]| {
            let place = self.order.place::<T>(sample, self.len);
            self.flat.pixels::<T>(self.x, place, T::flat_mut(x));
            gradients(&self.flat, sample, dy);
        };
        for sample in 0..self.n_samples {
            put(sample, x, dy);
            if !T::dispatch(AreFinite::<T>(x, dy)) {
                return false;
            }
        }
        for sample in 0..self.n_samples {
            if self.n_samples > 1 {
                put(sample, x, dy);
            }
            T::dispatch(Sample { gradient: self, x, dy, dw: &mut *dw });
            look(&self.flat, dy);
        }
        true
    }

    /// Vectors of scratch that it needs: pixels, then gradients.
    pub(crate) fn scratch_len(&self) -> usize {
        self.pixels_len() + self.n_kernels * self.flat.n_vectors
    }

    fn pixels_len(&self) -> usize {
        self.flat.pixels_len::<T>(self.n_channels)
    }
}

/// Whether all pixels and gradients are finite.
struct AreFinite<'a, T: Real>(&'a [T::Lanes], &'a [T::Lanes]);

impl<T: Real> Kernel<T> for AreFinite<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        all_finite(s, self.0) && all_finite(s, self.1)
    }
}

impl<T: Real> Kernel<T> for Sample<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let &WeightGradient { ref flat, n_kernels, n_channels, taps: [height, width], .. } = self.gradient;
        let per_channel = height * width;
        let n_taps = n_channels * per_channel;
        for first in (0..n_taps).step_by(TAPS) {
            // Those beyond the last are computed like it, and left out.
            let steps = [0, 1, 2, 3].map(|j| {
                let tap = (first + j).min(n_taps - 1);
                flat.step(tap / per_channel, tap % per_channel / width, tap % width)
            });
            for k in (0..n_kernels).step_by(KERNELS) {
                let kernels = [0, 1, 2, 3].map(|i| (k + i).min(n_kernels - 1));
                let sums = if const { S::ACCUMULATORS >= KERNELS * TAPS } {
                    self.block::<S, KERNELS>(s, kernels, steps)
                } else {
                    kernels.map(|kernel| self.block::<S, 1>(s, [kernel], steps)[0])
                };
                let results = sums_of(s, sums);
                for (k, results) in (k..n_kernels).zip(results) {
                    let dw = &mut self.dw[k * n_taps..][..n_taps];
                    for (dw, result) in dw[first..].iter_mut().zip(results) {
                        *dw += result;
                    }
                }
            }
        }
    }
}

impl<T: Real> Sample<'_, T> {
    /// The sums of `K` output channels.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize>(
        &self,
        s: S,
        kernels: [usize; K],
        steps: [usize; TAPS],
    ) -> [[S::V; TAPS]; K] {
        let n_vectors = self.gradient.flat.n_vectors;
        let rows = kernels.map(|k| &self.dy[k * n_vectors..][..n_vectors]);
        let pixels = steps.map(|step| &T::lanes(&T::flat(self.x)[step..])[..n_vectors]);
        let mut chains = [[s.zero(); TAPS]; K];
        for v in 0..n_vectors {
            let mut values = [s.zero(); TAPS];
            for j in 0..TAPS {
                values[j] = s.load(&pixels[j][v]);
            }
            for i in 0..K {
                let gradient = s.load(&rows[i][v]);
                for j in 0..TAPS {
                    chains[i][j] = s.mul_add(gradient, values[j], chains[i][j]);
                }
            }
        }
        chains
    }
}

/// The sums across lanes of all vectors of a block, in the order of [`Simd::sum`].
#[inline(always)]
fn sums_of<T: Real, S: Simd<T>>(s: S, [a, b, c, d]: [[S::V; TAPS]; KERNELS]) -> [[T; TAPS]; KERNELS] {
    let mut results = [[T::default(); TAPS]; KERNELS];
    for ([one, other], results) in [[a, b], [c, d]].into_iter().zip(results.chunks_exact_mut(2)) {
        let mut folded = T::ZERO_LANES;
        let [[e, f, g, h], [i, j, k, l]] = [one, other];
        s.store(s.fold([e, f, g, h, i, j, k, l]), &mut folded);
        let left = folded.as_ref().chunks_exact(T::LANES / 8);
        for (result, left) in results.as_flattened_mut().iter_mut().zip(left) {
            *result = left[1..].iter().fold(left[0], |sum, &value| sum + value);
        }
    }
    results
}
