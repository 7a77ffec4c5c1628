//! The convolution of `op/convolve`, whose sums are rectified before they are written.

use crate::conv2d::lanes::convolve;
use crate::convolve::{Finish, is_too_large};
use crate::flat::Order;
use crate::real::Real;
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
