//! Samples one after another.

use super::form::Form;
use super::lanes::form;
use crate::real::Real;
use crate::scratch;
use crate::small_batch::{Flat, SampleOrder};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d_dw<T: Real>(call: &Call<'_>) -> Result<()> {
    let form = form(call.spec(), SampleOrder::Rows);
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let to = dw.contiguous();
    if !call.accumulate() {
        to.fill(T::default());
    }
    let samples = (x.contiguous(), dy.contiguous(), form.n_samples);
    if add_small_batch(&form, samples, to, scratch::of_call::<T>(call)) {
        return Ok(());
    }
    drop(dw);
    super::reference::<T>(call)
}

/// Adds the gradients of weights from samples of `x` and `dy`, unless they are not that few or something is
/// not finite: returns whether it did.
pub(super) fn add_small_batch<T: Real>(
    form: &Form,
    (x, dy, n_samples): (&[T], &[T], usize),
    dw: &mut [T],
    scratch: &mut [T::Lanes],
) -> bool {
    let Some(gradient) = form.small_batch(x, n_samples) else { return false };
    let len = form.channels[0] * form.rows.outputs.len() * form.columns.outputs.len();
    let gradients = |flat: &Flat, sample, to: &mut [_]| {
        flat.outputs_of::<T>(dy, form.order.place::<T>(sample, len), to);
    };
    gradient.add(gradients, |_, _| {}, dw, scratch)
}
