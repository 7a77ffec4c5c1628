//! The convolution that `conv2d`, its fused forms and the gradient of its input are made of, lanes over
//! samples.
//!
//! `y[o,r,c] = b[o] + Σ_{i,ky,kx} x[i, r*s+ky-p, c*s+kx-p] w[o,i,ky,kx]`, zero outside of the image, then
//! perhaps a rectifier. In the direct algorithm, each output is one chain of multiply-adds in the order
//! (input channel, row, column) of its taps, clipped at the border, so that neither the blocking nor the
//! instruction set shows in the bits.
//!
//! - `band.rs` cuts the rows of the output into bands whose input stays in the second cache while all output
//!   channels pass by. Where the image is larger than that, a band of it is first copied: planes of 32x32 or
//!   16x16 pixels lie powers of two apart, so some rows of all channels fall into few sets of a cache and
//!   push each other out, long before it is full. Copying costs 2 %. The copy may be turned round: then `dy`
//!   lies under the taps in their order, and the gradient of the input is a convolution, or with a stride
//!   several, one per phase.
//! - `block.rs` computes a register block of output channels by columns: per tap one vector of `x` per column
//!   and one broadcast weight per channel. At the border a block looks for each tap and column whether it is
//!   there: a branch for the multiply-adds of 8 channels costs nothing, while blocks of single columns were a
//!   quarter of all outputs of an 8x8 image.
//!
//! Where it pays, there are two other algorithms ([`Convolution::algorithm`]): Winograd's (`winograd/`), for
//! 3x3 taps over many channels and for 5x5 taps; and `small_batch/`, with vectors of neighbouring pixels,
//! where samples are too few for vectors of their own.
//!
//! Per multiply-add of a full block of 8 channels by 3 columns, 11/24 of a vector is read. Bytes: `x` read
//! once per call from beyond the second cache, `w` once per band, `y` written once. The copies lie in the
//! scratch of the call, which has at most 1 MiB for any algorithm, unless single rows of an image are larger.
//!
//! Blocks are compiled once per element type and instruction set, not once per codelet or width of kernels.

pub(super) mod band;
pub(super) mod block;

use super::algorithm::Algorithm;
use super::real::Real;
use super::scratch::first;
use super::small_batch::{SampleOrder, SmallBatch};
use super::window::Window;
use super::winograd::target::Planes;
use dahl_runtime::codelet::CallSpec;
use std::ops::Range;

/// Taps whose weights are on the stack at a time: 8 KiB of `f32` for 8 channels.
pub(super) const STACK_TAPS: usize = 256;

/// Whether the weights of one channel, the second argument of a call, have no room there. No network has
/// kernels of more than 16x16.
pub(super) fn is_too_large(spec: &CallSpec) -> bool {
    let w = &spec.args[1].region;
    w.range(2).len() * w.range(3).len() > STACK_TAPS
}

/// What stays of `x` in a second cache of 1 MiB: 512 KiB.
pub(super) const RESIDENT: usize = 8192;

/// One axis of a convolution: `input = output * stride + tap - pad`.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) window: Window,
    /// Which rows or columns of the image `x` holds.
    pub(super) inputs: Range<usize>,
    /// The taps that there are weights for.
    pub(super) taps: Range<usize>,
    /// Which rows or columns of the result are wanted.
    pub(super) outputs: Range<usize>,
}

impl Axis {
    /// The taps of one output that lie inside the image.
    #[inline(always)]
    pub(super) fn taps_inside(&self, output: usize) -> Range<usize> {
        self.window.taps(output, &self.taps, &self.inputs)
    }

    /// The outputs whose taps all lie inside the image.
    #[inline(always)]
    pub(super) fn interior(&self) -> Range<usize> {
        self.window.interior(&self.outputs, &self.taps, &self.inputs)
    }

    /// The inputs that some outputs read.
    #[inline(always)]
    fn inputs_of(&self, outputs: &Range<usize>) -> Range<usize> {
        let Window { stride, pad } = self.window;
        let lo = (outputs.start * stride + self.taps.start).saturating_sub(pad);
        let last = outputs.end.saturating_sub(1) * stride + self.taps.end.saturating_sub(1);
        let hi = (last + 1).saturating_sub(pad).min(self.inputs.end);
        let lo = lo.clamp(self.inputs.start, self.inputs.end);
        lo..hi.max(lo)
    }
}

/// Where a weight lies: that of output channel `o`, input channel `i`, row `ky` and column `kx` of the taps
/// at `first + o * output + i * input + ky * row + kx * column`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightSteps {
    pub(super) first: usize,
    pub(super) output: usize,
    pub(super) input: usize,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl WeightSteps {
    /// Those of `w[o,i,ky,kx]`, with nothing in between.
    pub(super) fn whole(n_inputs: usize, height: usize, width: usize) -> Self {
        let input = height * width;
        WeightSteps { first: 0, output: n_inputs * input, input, row: width, column: 1 }
    }
}

/// Where an output lies in the plane of its channel: row `r` and column `c` at
/// `first + r * row + c * column`.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaneSteps {
    /// Vectors per plane.
    pub(super) len: usize,
    pub(super) first: usize,
    pub(super) row: isize,
    pub(super) column: isize,
}

impl PlaneSteps {
    /// Planes of this many rows and columns, and nothing else.
    #[inline(always)]
    pub(super) fn whole(rows: usize, columns: usize) -> Self {
        PlaneSteps { len: rows * columns, first: 0, row: columns.cast_signed(), column: 1 }
    }
}

/// What becomes of a sum before it is written.
#[derive(Clone, Copy)]
pub(super) enum Finish<'a, T: Real> {
    /// Nothing.
    Sum,
    /// The larger of it and zero.
    Rectified,
    /// What was there, unless what lies at the same place here is positive: the gradient of a rectifier.
    Where(&'a [T]),
}

impl<T: Real> Finish<'_, T> {
    /// The same for a part of the result.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        match self {
            Finish::Where(rectified) => Finish::Where(&rectified[range]),
            finish => finish,
        }
    }
}

/// A convolution.
pub(super) struct Convolution<'a, T: Real> {
    /// How samples lie in `x` and in the result.
    pub(super) order: SampleOrder,
    pub(super) x: &'a [T],
    /// Whether the planes of `x` are turned round: the last row first, and the last column of each first.
    pub(super) is_turned: bool,
    pub(super) w: &'a [T],
    pub(super) steps: WeightSteps,
    /// What is added once per output channel.
    pub(super) bias: Option<&'a [T]>,
    /// Whether to add to what is there.
    pub(super) accumulate: bool,
    pub(super) finish: Finish<'a, T>,
    pub(super) n_samples: usize,
    pub(super) n_inputs: usize,
    pub(super) n_outputs: usize,
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    pub(super) planes: PlaneSteps,
    /// Vectors of `x` that stay in the second cache beside everything else.
    pub(super) resident: usize,
}

impl<T: Real> Convolution<'_, T> {
    /// Which algorithm it takes, unless values are infinite or very large. Its data play no part and need not
    /// be there.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self.flat() {
            Some(_) => Algorithm::SmallBatch,
            None if self.order == SampleOrder::Rows => Algorithm::Reference,
            None if self.suits_winograd() && self.columns.taps.len() == 3 => Algorithm::Winograd3,
            None if self.suits_winograd() => Algorithm::Winograd5,
            None => Algorithm::Direct,
        }
    }

    /// Vectors of scratch that it may take, whatever its data are.
    pub(super) fn scratch_len(&self) -> usize {
        let usual = match self.algorithm() {
            Algorithm::SmallBatch => self.flat().map_or(0, |flat| self.flat_len(&flat)),
            Algorithm::Winograd3 | Algorithm::Winograd5 => self.winograd_len(),
            _ => 0,
        };
        // What is infinite or very large comes to the direct algorithm.
        if self.order == SampleOrder::Lanes { usual.max(self.copied_len()) } else { usual }
    }

    /// Computes it, unless samples are not in lanes and only the reference could: returns whether it did.
    pub(super) fn run(&self, y: &mut [T], scratch: &mut [T::Lanes]) -> bool {
        let is_done = match self.algorithm() {
            Algorithm::SmallBatch => self.small_batch(y, scratch),
            Algorithm::Winograd3 => {
                self.winograd::<_, 3>(Planes { convolution: self, y: T::lanes_mut(y) }, scratch)
            }
            Algorithm::Winograd5 => {
                self.winograd::<_, 5>(Planes { convolution: self, y: T::lanes_mut(y) }, scratch)
            }
            _ => false,
        };
        if !is_done && self.order == SampleOrder::Lanes {
            self.direct(T::lanes_mut(y), scratch);
        }
        is_done || self.order == SampleOrder::Lanes
    }

    /// Computes it one sample at a time, unless a weight is not finite: says whether it did.
    fn small_batch(&self, y: &mut [T], scratch: &mut [T::Lanes]) -> bool {
        let Some(flat) = self.flat().filter(|flat| self.is_padding_safe(flat)) else { return false };
        let scratch = first(scratch, self.flat_len(&flat));
        T::dispatch(SmallBatch { convolution: self, flat, y, scratch });
        true
    }

    /// Groups of samples.
    pub(super) fn n_groups(&self) -> usize {
        self.n_samples.div_ceil(T::LANES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are neither nice nor the same.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    /// The bits of a convolution of so many vectors of `x` at a time.
    fn bits(resident: usize, is_turned: bool, stride: usize, finish: Finish<'_, f32>) -> Vec<u32> {
        let (n_groups, n_inputs, n_outputs, inputs, n_taps) = (2, 5, 9, 11, 3);
        let window = Window { stride, pad: 1 };
        let n = (inputs + 2 - n_taps) / stride + 1;
        let axis = Axis { window, inputs: 0..inputs, taps: 0..n_taps, outputs: 0..n };
        let x = numbers(n_groups * n_inputs * inputs * inputs * 16, 1);
        let (w, bias) = (numbers(n_outputs * n_inputs * 9, 2), numbers(n_outputs, 3));
        let mut y = numbers(n_groups * n_outputs * n * n * 16, 4);
        let convolution = Convolution {
            order: SampleOrder::Lanes,
            x: &x,
            is_turned,
            w: &w,
            steps: WeightSteps { first: 0, output: n_inputs * 9, input: 9, row: 3, column: 1 },
            bias: Some(&bias),
            accumulate: true,
            finish,
            n_samples: n_groups * 16,
            n_inputs,
            n_outputs,
            rows: axis.clone(),
            columns: axis,
            planes: PlaneSteps::whole(n, n),
            resident,
        };
        assert!(convolution.run(&mut y, &mut vec![[f32::NAN; 16]; convolution.scratch_len()]));
        y.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn the_size_of_the_cache_does_not_show_in_the_bits() {
        let y = numbers(2 * 9 * 11 * 11 * 16, 5);
        for finish in [Finish::Sum, Finish::Rectified, Finish::Where(&y)] {
            for is_turned in [false, true] {
                for stride in [1, 2] {
                    let whole = bits(RESIDENT, is_turned, stride, finish);
                    // All channels of some rows, some channels of some rows, and less than one channel of one
                    // row.
                    for resident in [600, 300, 120, 60, 1] {
                        assert!(
                            bits(resident, is_turned, stride, finish) == whole,
                            "{resident} vectors, turned: {is_turned}, stride {stride}"
                        );
                    }
                }
            }
        }
    }
}
