//! The gradient of the input as the convolution of `op/convolve`: turned round, the rows of `dy` lie under the taps in their
//! order. Pixels that are a stride apart lie under the same taps, so every phase of the stride is a convolution of its own,
//! whose outputs lie a stride apart. Each pixel is, but for few samples and many channels, one chain of multiply-adds in the order
//! (output channel, row, column) of its taps. 5x5 taps that move by one have a quicker way, `scattered`.

use super::scattered::{Scattered, TAPS};
use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, WeightSteps, is_too_large};
use crate::flat::Order;
use crate::real::Real;
use crate::window::{Cover, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

pub(super) fn conv2d_dx<T: Real>(call: &Call<'_>) -> Result<()> {
    if is_too_large::<T>(call) {
        return super::reference::<T>(call);
    }
    convolve::<T>(call, Order::Lanes, Finish::Sum);
    Ok(())
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    if is_too_large::<T>(call) || !convolve::<T>(call, Order::Rows, Finish::Sum) {
        return super::reference::<T>(call);
    }
    Ok(())
}

/// The gradient from `dy` and `w`, and what becomes of its sums. Returns whether there is a way to compute it.
pub(crate) fn convolve<T: Real>(call: &Call<'_>, order: Order, finish: Finish<'_, T>) -> bool {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (kys, kxs) = (w.region().range(2), w.region().range(3));
    let (oys, oxs) = (dy.region().range(2), dy.region().range(3));
    let (rows, columns) = (dx.region().range(2), dx.region().range(3));
    let (n_samples, n_channels) = (dx.region().shape()[0], dx.region().shape()[1]);
    let n_kernels = dy.region().shape()[1];
    let dx_len = n_channels * rows.len() * columns.len();
    let (all_dy, all_dx) = (dy.contiguous(), dx.contiguous());
    let mut part = |samples: Range<usize>| {
        let dy = &all_dy[order.range::<T>(&samples, n_kernels * oys.len() * oxs.len())];
        let dx = &mut all_dx[order.range::<T>(&samples, dx_len)];
        let (n_samples, finish) = (samples.len(), finish.part(order.range::<T>(&samples, dx_len)));
        let has_all_taps = kys.start == 0 && kxs.start == 0;
        // Few samples have a way of their own in `op/convolve`.
        let is_few = order == Order::Rows || n_samples * 2 <= T::LANES;
        if window.stride == 1 && has_all_taps && kys.len() == TAPS && kxs.len() == TAPS && !is_few {
            let scattered = Scattered {
                dy: T::lanes(dy),
                w: w.contiguous(),
                n_samples,
                n_kernels,
                n_channels,
                pad: window.pad,
                oys: oys.clone(),
                oxs: oxs.clone(),
                rows: rows.clone(),
                columns: columns.clone(),
                accumulate: call.accumulate(),
                finish,
            };
            if scattered.run(T::lanes_mut(dx)) {
                return true;
            }
        }
        if order == Order::Rows && window.stride != 1 {
            return false;
        }
        for row_phase in 0..window.stride.min(rows.len()) {
            let row_cover = window.cover(rows.start + row_phase, &kys, &oys);
            let n_rows = (rows.len() - row_phase).div_ceil(window.stride);
            for column_phase in 0..window.stride.min(columns.len()) {
                let column_cover = window.cover(columns.start + column_phase, &kxs, &oxs);
                let n_columns = (columns.len() - column_phase).div_ceil(window.stride);
                // Turned round, the last pixel of the phase comes first.
                let last_row = row_phase + (n_rows - 1) * window.stride;
                let last_column = column_phase + (n_columns - 1) * window.stride;
                let stride = window.stride.cast_signed();
                let convolution = Convolution {
                    order,
                    x: dy,
                    is_turned: true,
                    w: w.contiguous(),
                    steps: WeightSteps {
                        first: (row_cover.tap - kys.start) * kxs.len() + column_cover.tap - kxs.start,
                        output: kys.len() * kxs.len(),
                        input: n_channels * kys.len() * kxs.len(),
                        row: window.stride * kxs.len(),
                        column: window.stride,
                    },
                    bias: None,
                    accumulate: call.accumulate(),
                    finish,
                    n_samples,
                    n_inputs: n_kernels,
                    n_outputs: n_channels,
                    rows: turned(row_cover, n_rows, oys.len()),
                    columns: turned(column_cover, n_columns, oxs.len()),
                    planes: PlaneSteps {
                        len: rows.len() * columns.len(),
                        first: last_row * columns.len() + last_column,
                        row: -stride * columns.len().cast_signed(),
                        column: -stride,
                    },
                    resident: RESIDENT,
                };
                if !convolution.run(dx) {
                    return false;
                }
            }
        }
        true
    };
    order.parts::<T>(n_samples).all(&mut part)
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
