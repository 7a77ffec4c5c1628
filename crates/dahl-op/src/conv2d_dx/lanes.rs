//! The gradient of the input as the convolution of `convolve/`: turned round, the rows of `dy` lie under the
//! taps in their order. Pixels that are a stride apart lie under the same taps, so every phase of the stride
//! is a convolution of its own, whose outputs lie a stride apart. Each pixel is, but for few samples and many
//! channels, one chain of multiply-adds in the order (output channel, row, column) of its taps. 5x5 taps that
//! move by one have a quicker way, `winograd/input_gradient`.

use crate::algorithm::Algorithm;
use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, WeightSteps, is_too_large};
use crate::real::Real;
use crate::scratch;
use crate::small_batch::SampleOrder;
use crate::window::{Cover, Window};
use crate::winograd::input_gradient::InputGradient;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};
use std::ops::Range;

pub(super) fn conv2d_dx<T: Real>(call: &Call<'_>) -> Result<()> {
    if convolve::<T>(call, SampleOrder::Lanes, Finish::Sum) { Ok(()) } else { super::reference::<T>(call) }
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    if convolve::<T>(call, SampleOrder::Rows, Finish::Sum) { Ok(()) } else { super::reference::<T>(call) }
}

/// Which algorithms a call takes; also that of `relu_conv2d_dx`.
pub(crate) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    let form = Form::new(spec);
    let of_part = |samples: Range<usize>| {
        if is_too_large(spec) || form.is_reference(order) {
            return vec![Algorithm::Reference];
        }
        match form.winograd::<T>(order, samples.len()) {
            Some(_) => vec![Algorithm::Winograd5Scattered],
            None => form.phases::<T>(order, samples.len()).map(|phase| phase.algorithm()).collect(),
        }
    };
    order.parts::<T>(form.n_samples).flat_map(of_part).collect()
}

/// Vectors of scratch that a call may take; also that of `relu_conv2d_dx`.
pub(crate) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    let form = Form::new(spec);
    if is_too_large(spec) || form.is_reference(order) {
        return 0;
    }
    let of_part = |samples: Range<usize>| {
        let winograd = form.winograd::<T>(order, samples.len()).map_or(0, |winograd| winograd.scratch_len());
        // What is infinite or very large comes to the phases.
        let phases = form.phases::<T>(order, samples.len()).map(|phase| phase.scratch_len());
        phases.fold(winograd, usize::max)
    };
    order.parts::<T>(form.n_samples).map(of_part).max().unwrap_or(0)
}

/// The gradient from `dy` and `w`, and what becomes of its sums. Returns whether it was computed; if not, the
/// reference can.
pub(crate) fn convolve<T: Real>(call: &Call<'_>, order: SampleOrder, finish: Finish<'_, T>) -> bool {
    let form = Form::new(call.spec());
    if is_too_large(call.spec()) || form.is_reference(order) {
        return false;
    }
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let (mut dx, scratch) = (call.output::<T>(0), scratch::of_call::<T>(call));
    let dy_len = form.n_kernels * form.oys.len() * form.oxs.len();
    let dx_len = form.n_channels * form.rows.len() * form.columns.len();
    let (all_dy, all_dx, w) = (dy.contiguous(), dx.contiguous(), w.contiguous());
    order.parts::<T>(form.n_samples).all(|samples| {
        let range = order.range::<T>(&samples, dx_len);
        let (dy, finish) = (&all_dy[order.range::<T>(&samples, dy_len)], finish.part(range.clone()));
        let dx = &mut all_dx[range];
        let winograd = form.winograd(order, samples.len()).is_some_and(|winograd| {
            InputGradient { dy: T::lanes(dy), w, finish, ..winograd }.run(T::lanes_mut(dx), scratch)
        });
        winograd
            || form
                .phases(order, samples.len())
                .all(|phase| Convolution { x: dy, w, finish, ..phase }.run(dx, scratch))
    })
}

/// What there is to compute, without its data.
struct Form {
    window: Window,
    /// Taps of `w`.
    kys: Range<usize>,
    kxs: Range<usize>,
    /// Rows and columns of `dy` and `dx`.
    oys: Range<usize>,
    oxs: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
    n_samples: usize,
    n_kernels: usize,
    n_channels: usize,
    accumulate: bool,
}

impl Form {
    fn new(spec: &CallSpec) -> Self {
        let [dy, w] = [0, 1].map(|i| &spec.args[i].region);
        let dx = &spec.args[spec.args.len() - 1].region;
        Form {
            window: Window { stride: spec.ints[0] as usize, pad: spec.ints[1] as usize },
            kys: w.range(2),
            kxs: w.range(3),
            oys: dy.range(2),
            oxs: dy.range(3),
            rows: dx.range(2),
            columns: dx.range(3),
            n_samples: dx.shape()[0],
            n_kernels: dy.shape()[1],
            n_channels: dx.shape()[1],
            accumulate: spec.accumulate,
        }
    }

    /// Whether only the reference can compute it.
    fn is_reference(&self, order: SampleOrder) -> bool {
        order == SampleOrder::Rows && self.window.stride != 1
    }

    /// Of so many samples by Winograd's algorithm, if that is quicker. Few have a way of their own.
    fn winograd<T: Real>(&self, order: SampleOrder, n_samples: usize) -> Option<InputGradient<'static, T>> {
        let is_few = order == SampleOrder::Rows || n_samples * 2 <= T::LANES;
        let gradient = InputGradient {
            dy: &[],
            w: &[],
            n_samples,
            n_kernels: self.n_kernels,
            n_channels: self.n_channels,
            pad: self.window.pad,
            oys: self.oys.clone(),
            oxs: self.oxs.clone(),
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            accumulate: self.accumulate,
            finish: Finish::Sum,
        };
        let suits = self.window.stride == 1 && gradient.suits([&self.kys, &self.kxs]);
        (suits && !is_few).then_some(gradient)
    }

    /// The convolutions that it is: one for each phase of the stride along both axes.
    fn phases<T: Real>(
        &self,
        order: SampleOrder,
        n_samples: usize,
    ) -> impl Iterator<Item = Convolution<'static, T>> {
        let stride = self.window.stride;
        let n_columns = stride.min(self.columns.len());
        (0..stride.min(self.rows.len()) * n_columns)
            .map(move |phase| self.phase(order, n_samples, [phase / n_columns, phase % n_columns]))
    }

    fn phase<T: Real>(
        &self,
        order: SampleOrder,
        n_samples: usize,
        [row_phase, column_phase]: [usize; 2],
    ) -> Convolution<'static, T> {
        let Form { window, kys, kxs, oys, oxs, rows, columns, .. } = self;
        let row_cover = window.cover(rows.start + row_phase, kys, oys);
        let n_rows = (rows.len() - row_phase).div_ceil(window.stride);
        let column_cover = window.cover(columns.start + column_phase, kxs, oxs);
        let n_columns = (columns.len() - column_phase).div_ceil(window.stride);
        // Turned round, the last pixel of the phase comes first.
        let last_row = row_phase + (n_rows - 1) * window.stride;
        let last_column = column_phase + (n_columns - 1) * window.stride;
        let stride = window.stride.cast_signed();
        Convolution {
            order,
            x: &[],
            is_turned: true,
            w: &[],
            steps: WeightSteps {
                first: (row_cover.tap - kys.start) * kxs.len() + column_cover.tap - kxs.start,
                output: kys.len() * kxs.len(),
                input: self.n_channels * kys.len() * kxs.len(),
                row: window.stride * kxs.len(),
                column: window.stride,
            },
            bias: None,
            accumulate: self.accumulate,
            finish: Finish::Sum,
            n_samples,
            n_inputs: self.n_kernels,
            n_outputs: self.n_channels,
            rows: turned(row_cover, n_rows, oys.len()),
            columns: turned(column_cover, n_columns, oxs.len()),
            planes: PlaneSteps {
                len: rows.len() * columns.len(),
                first: last_row * columns.len() + last_column,
                row: -stride * columns.len().cast_signed(),
                column: -stride,
            },
            resident: RESIDENT,
        }
    }
}

/// The axis of a convolution that counts `n_pixels` pixels and `n_outputs` outputs from their last.
fn turned(cover: Cover, n_pixels: usize, n_outputs: usize) -> Axis {
    // Tap m of output `output + j - m` lies on pixel j. Counted from the last, it is output `j + m - pad`.
    let pad = cover.output + n_pixels.cast_signed() - n_outputs.cast_signed();
    let first = (-pad).max(0).cast_unsigned();
    Axis {
        window: Window { stride: 1, pad: pad.max(0).cast_unsigned() },
        inputs: 0..n_outputs,
        taps: 0..cover.n_taps,
        outputs: first..first + n_pixels,
    }
}
