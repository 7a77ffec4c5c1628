//! The gradient of a convolution's input, whose sums are written where `y` is positive.

use crate::algorithm::Algorithm;
use crate::conv2d_dx::lanes::{self, convolve};
use crate::convolve::Finish;
use crate::real::Real;
use crate::small_batch::SampleOrder;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};

pub(super) fn relu_conv2d_dx<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, SampleOrder::Lanes)
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    run::<T>(call, SampleOrder::Rows)
}

/// Which algorithms a call takes.
pub(super) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    if has_all(spec) { lanes::algorithms::<T>(spec, order) } else { vec![Algorithm::Reference] }
}

/// Vectors of scratch that a call may take.
pub(super) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    if has_all(spec) { lanes::scratch_len::<T>(spec, order) } else { 0 }
}

/// Whether `y` has the planes of `dx`: not where windows leave pixels out.
fn has_all(spec: &CallSpec) -> bool {
    spec.args[2].region == spec.args[3].region
}

fn run<T: Real>(call: &Call<'_>, order: SampleOrder) -> Result<()> {
    let y = call.input::<T>(2);
    if !has_all(call.spec()) || !convolve::<T>(call, order, Finish::Where(y.contiguous())) {
        return super::reference::<T>(call);
    }
    Ok(())
}
