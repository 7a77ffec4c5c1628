//! The convolution of `op/convolve`, with the images and weights of a call.

use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, WeightSteps, is_too_large};
use crate::flat::Order;
use crate::real::Real;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d<T: Real>(call: &Call<'_>) -> Result<()> {
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

/// The convolution of `x`, `w` and `b`, and what becomes of its sums. Returns whether there is a way to compute it.
pub(crate) fn convolve<T: Real>(call: &Call<'_>, order: Order, finish: Finish<'_, T>) -> bool {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let axis = |dim: usize| Axis {
        window,
        inputs: x.region().range(dim),
        taps: w.region().range(dim),
        outputs: y.region().range(dim),
    };
    let (rows, columns) = (axis(2), axis(3));
    let n_inputs = x.region().shape()[1];
    let shapes = [x.region().shape(), y.region().shape()];
    let [x_len, y_len] = shapes.map(|shape| shape[1..].iter().product::<usize>());
    let (n_samples, n_outputs) = (y.region().shape()[0], y.region().shape()[1]);
    let (x, y) = (x.contiguous(), y.contiguous());
    order.parts::<T>(n_samples).all(|samples| {
        let convolution = Convolution {
            order,
            x: &x[order.range::<T>(&samples, x_len)],
            is_turned: false,
            w: w.contiguous(),
            steps: WeightSteps::whole(n_inputs, rows.taps.len(), columns.taps.len()),
            bias: (w.region().lo()[1..] == [0, 0, 0]).then(|| b.contiguous()),
            accumulate: call.accumulate(),
            finish,
            n_samples: samples.len(),
            n_inputs,
            n_outputs,
            planes: PlaneSteps::whole(rows.outputs.len(), columns.outputs.len()),
            rows: rows.clone(),
            columns: columns.clone(),
            resident: RESIDENT,
        };
        convolution.run(&mut y[order.range::<T>(&samples, y_len)])
    })
}
