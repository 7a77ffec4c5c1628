//! The convolution of `op/convolve`, whose sums are rectified before they are written.

use crate::op::conv2d::lanes::convolve;
use crate::op::convolve::{Finish, is_too_large};
use crate::op::flat::Order;
use crate::op::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d_relu<T: Real>(call: &Call<'_>) -> Result<()> {
    if is_too_large::<T>(call) {
        return super::reference::<T>(call);
    }
    convolve::<T>(call, Order::Lanes, Finish::Rectified);
    Ok(())
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    if is_too_large::<T>(call) || !convolve::<T>(call, Order::Rows, Finish::Rectified) {
        return super::reference::<T>(call);
    }
    Ok(())
}
