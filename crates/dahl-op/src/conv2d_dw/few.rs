//! Few samples, one at a time with its pixels side by side (`op/flat`): a block of output channels by taps in registers, per vector of
//! outputs one of `dy` per channel and one of `x` per tap. Sums run lane by lane over the vectors of a sample, then across lanes,
//! then over samples.

use crate::convolve::Axis;
use crate::flat::{Flat, Order};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::all_finite;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

/// Output channels, and taps of whatever input channels, of a block: twice as many sums as [`Simd::fold`] takes.
const KERNELS: usize = 4;
const TAPS: usize = 4;

/// Vectors that take as long as adding up a block of sums across lanes.
const ACROSS: usize = 8;

/// Whether a call has all rows and columns of these arguments. A part of the taps or outputs would be added up in another order than
/// where pool and gradient are fused.
pub(crate) fn has_whole(call: &Call<'_>, arguments: [usize; 2]) -> bool {
    arguments
        .map(|i| &call.spec().args[i])
        .iter()
        .all(|argument| [2, 3].iter().all(|&dim| argument.region.range(dim).len() == argument.extent[dim]))
}

/// Adds the gradients of weights from samples of `x` and `dy`, unless they are not that few or something is not finite: returns whether
/// it did.
pub(super) fn add_few<T: Real>(
    order: Order,
    (x, dy, n_samples): (&[T], &[T], usize),
    channels: [usize; 2],
    axes: [&Axis; 2],
    dw: &mut [T],
) -> bool {
    let Some(few) = Few::new(order, (x, n_samples), channels, axes) else { return false };
    let len = channels[0] * axes.iter().map(|axis| axis.outputs.len()).product::<usize>();
    let gradients = |flat: &Flat, sample, to: &mut [_]| {
        flat.outputs_of::<T>(dy, order.place::<T>(sample, len), to);
    };
    few.add(gradients, |_, _| {}, dw)
}

/// For samples one after another.
pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    if has_whole(call, [1, 2]) && add_all::<T>(call) { Ok(()) } else { super::reference::<T>(call) }
}

/// Returns whether there is a way to compute it.
fn add_all<T: Real>(call: &Call<'_>) -> bool {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let axis = |dim: usize| Axis {
        window,
        inputs: x.region().range(dim),
        taps: dw.region().range(dim),
        outputs: dy.region().range(dim),
    };
    let (rows, columns) = (axis(2), axis(3));
    let axes = [&rows, &columns];
    let (n_samples, channels) = (dy.region().shape()[0], [dy.region().shape()[1], x.region().shape()[1]]);
    let samples = (x.contiguous(), dy.contiguous(), n_samples);
    let to = dw.contiguous();
    if !call.accumulate() {
        to.fill(T::default());
    }
    add_few(Order::Rows, samples, channels, axes, to)
}

/// The gradients of weights from a few samples.
pub(crate) struct Few<'a, T: Real> {
    flat: Flat,
    order: Order,
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
    few: &'a Few<'a, T>,
    /// Its pixels side by side.
    x: &'a [T::Lanes],
    /// As many vectors per plane as there are of outputs; zero where there is no output.
    dy: &'a [T::Lanes],
    /// What it is added to.
    dw: &'a mut [T],
}

impl<'a, T: Real> Few<'a, T> {
    /// For some samples of `x`, and of output and input channels; none if they are not that few.
    pub(crate) fn new(
        order: Order,
        (x, n_samples): (&'a [T], usize),
        [n_kernels, n_channels]: [usize; 2],
        axes: [&Axis; 2],
    ) -> Option<Self> {
        let flat = Flat::new::<T>((order, n_samples), (n_channels, n_kernels), axes)?;
        let taps = axes.map(|axis| axis.taps.len());
        let [height, width] = flat.outputs;
        // Sums across lanes take as long as several vectors more.
        let pays = order == Order::Rows || 2 * n_samples * (flat.n_vectors + ACROSS) <= height * width;
        let len = n_channels * axes.iter().map(|axis| axis.inputs.len()).product::<usize>();
        let few = Few { flat, order, x, n_samples, len, n_kernels, n_channels, taps };
        (pays && n_kernels * n_channels > 0).then_some(few)
    }

    /// Adds everything to `dw`, unless something is not finite: times the zeros around pixels and gradients, that would
    /// be NaN. Returns whether it did. `gradients` puts those of one sample side by side, and `look` sees those that are added.
    pub(crate) fn add(
        &self,
        gradients: impl Fn(&Flat, usize, &mut [T::Lanes]),
        mut look: impl FnMut(&Flat, &[T::Lanes]),
        dw: &mut [T],
    ) -> bool {
        let n_pixels = self.flat.pixels_len::<T>(self.n_channels);
        let n_gradients = self.n_kernels * self.flat.n_vectors;
        T::scratch(n_pixels + n_gradients, |scratch| {
            let (x, dy) = scratch.split_at_mut(n_pixels);
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
                T::dispatch(Sample { few: self, x, dy, dw: &mut *dw });
                look(&self.flat, dy);
            }
            true
        })
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
        let &Few { ref flat, n_kernels, n_channels, taps: [height, width], .. } = self.few;
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
        let n_vectors = self.few.flat.n_vectors;
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
