//! The convolution of `convolve/`, with the images and weights of a call.

use crate::algorithm::Algorithm;
use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, WeightSteps, is_too_large};
use crate::real::Real;
use crate::scratch;
use crate::small_batch::SampleOrder;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};

pub(super) fn conv2d<T: Real>(call: &Call<'_>) -> Result<()> {
    if convolve::<T>(call, SampleOrder::Lanes, Finish::Sum) { Ok(()) } else { super::reference::<T>(call) }
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    if convolve::<T>(call, SampleOrder::Rows, Finish::Sum) { Ok(()) } else { super::reference::<T>(call) }
}

/// Which algorithms a call takes.
pub(crate) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    if is_too_large(spec) {
        return vec![Algorithm::Reference];
    }
    let parts = order.parts::<T>(spec.args[3].region.shape()[0]);
    parts.map(|samples| form::<T>(spec, order, samples.len()).algorithm()).collect()
}

/// Vectors of scratch that a call may take.
pub(crate) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    if is_too_large(spec) {
        return 0;
    }
    let parts = order.parts::<T>(spec.args[3].region.shape()[0]);
    parts.map(|samples| form::<T>(spec, order, samples.len()).scratch_len()).max().unwrap_or(0)
}

/// The convolution of so many samples, without its data.
fn form<T: Real>(spec: &CallSpec, order: SampleOrder, n_samples: usize) -> Convolution<'static, T> {
    let [x, w, y] = [0, 1, 3].map(|i| &spec.args[i].region);
    let window = Window { stride: spec.ints[0] as usize, pad: spec.ints[1] as usize };
    let [rows, columns] =
        [2, 3].map(|dim| Axis { window, inputs: x.range(dim), taps: w.range(dim), outputs: y.range(dim) });
    let n_inputs = x.shape()[1];
    Convolution {
        order,
        x: &[],
        is_turned: false,
        w: &[],
        steps: WeightSteps::whole(n_inputs, rows.taps.len(), columns.taps.len()),
        bias: None,
        accumulate: spec.accumulate,
        finish: Finish::Sum,
        n_samples,
        n_inputs,
        n_outputs: y.shape()[1],
        planes: PlaneSteps::whole(rows.outputs.len(), columns.outputs.len()),
        rows,
        columns,
        resident: RESIDENT,
    }
}

/// The convolution of `x`, `w` and `b`, and what becomes of its sums. Returns whether it was computed; if
/// not, the reference can.
pub(crate) fn convolve<T: Real>(call: &Call<'_>, order: SampleOrder, finish: Finish<'_, T>) -> bool {
    if is_too_large(call.spec()) {
        return false;
    }
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (mut y, scratch) = (call.output::<T>(0), scratch::of_call::<T>(call));
    let shapes = [x.region().shape(), y.region().shape()];
    let [x_len, y_len] = shapes.map(|shape| shape[1..].iter().product::<usize>());
    let n_samples = y.region().shape()[0];
    let (x, y) = (x.contiguous(), y.contiguous());
    order.parts::<T>(n_samples).all(|samples| {
        let convolution = Convolution {
            x: &x[order.range::<T>(&samples, x_len)],
            w: w.contiguous(),
            bias: (w.region().lo()[1..] == [0, 0, 0]).then(|| b.contiguous()),
            finish,
            ..form(call.spec(), order, samples.len())
        };
        convolution.run(&mut y[order.range::<T>(&samples, y_len)], scratch)
    })
}
