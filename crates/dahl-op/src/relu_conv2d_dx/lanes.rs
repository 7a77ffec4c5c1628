//! The gradient of a convolution's input by `op/convolve`, whose sums are written where `y` is positive.

use crate::conv2d_dx::lanes::convolve;
use crate::convolve::{Finish, is_too_large};
use crate::flat::Order;
use crate::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn relu_conv2d_dx<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, Order::Lanes)
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, Order::Rows)
}

fn run<T: Real>(call: &Call<'_>, order: Order) -> Result<()> {
    let y = call.input::<T>(2);
    // Where windows leave pixels out, `y` has other planes than `dx`.
    let is_possible = !is_too_large::<T>(call) && *y.region() == call.spec().args[3].region;
    if !is_possible || !convolve::<T>(call, order, Finish::Where(y.contiguous())) {
        return super::reference::<T>(call);
    }
    Ok(())
}
