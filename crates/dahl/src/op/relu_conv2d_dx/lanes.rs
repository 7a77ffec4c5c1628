//! The gradient of a convolution's input by `op/convolve`, whose sums are written where `y` is positive.

use crate::op::conv2d_dx::lanes::convolve;
use crate::op::convolve::{Finish, is_too_large};
use crate::op::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn relu_conv2d_dx<T: Real>(call: &Call<'_>) -> Result<()> {
    let y = call.input::<T>(2);
    // Where windows leave pixels out, `y` has other planes than `dx`.
    if is_too_large::<T>(call) || *y.region() != call.spec().args[3].region {
        return super::reference::<T>(call);
    }
    convolve::<T>(call, Finish::Where(T::lanes(y.contiguous())));
    Ok(())
}
