//! The convolution of `convolve/`, whose sums are rectified before they are written.

use crate::conv2d::lanes::convolve;
use crate::convolve::Finish;
use crate::real::Real;
use crate::small_batch::SampleOrder;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn conv2d_relu<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, SampleOrder::Lanes)
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, SampleOrder::Rows)
}

fn run<T: Real>(call: &Call<'_>, order: SampleOrder) -> Result<()> {
    if convolve::<T>(call, order, Finish::Rectified) { Ok(()) } else { super::reference::<T>(call) }
}
