//! Samples one after another.

use super::lanes::form;
use crate::conv2d_relu_max_pool::checked_size;
use crate::real::Real;
use crate::scratch;
use crate::small_batch::{Biases, Flat, SampleOrder, Unpool};
use crate::sums::Rows;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d_relu_max_pool_dw<T: Real>(call: &Call<'_>) -> Result<()> {
    if add::<T>(call)? { Ok(()) } else { super::reference::<T>(call) }
}

/// Returns whether it was computed; if not, the reference can.
fn add<T: Real>(call: &Call<'_>) -> Result<bool> {
    let form = form(call.spec(), SampleOrder::Rows);
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let unpool = Unpool {
        dy: dy.contiguous(),
        arg: arg.contiguous(),
        n_kernels: form.channels[0],
        height: dy.region().shape()[2],
        width: dy.region().shape()[3],
        stride: call.int(2),
        size: checked_size(call.int(3))?,
    };
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    let (to, biases) = (dw.contiguous(), db.contiguous());
    if !call.accumulate() {
        to.fill(T::default());
        biases.fill(T::default());
    }
    let gradients = |flat: &Flat, sample, to: &mut [_]| unpool.spread(flat, SampleOrder::Rows, sample, to);
    let add_biases = |flat: &Flat, gradients: &[T::Lanes]| {
        let [height, width] = flat.outputs;
        let rows = Rows { plane: flat.n_vectors * T::LANES, row: flat.pitch, height, width };
        if has_bias {
            T::dispatch(Biases { gradients: T::flat(gradients), rows, sums: &mut *biases });
        }
    };
    let scratch = scratch::of_call::<T>(call);
    let gradient = form.small_batch(x.contiguous(), form.n_samples);
    Ok(gradient.is_some_and(|gradient| gradient.add(gradients, add_biases, to, scratch)))
}
