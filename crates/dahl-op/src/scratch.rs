//! Scratch: memory that a kernel has while it runs, declared by its codelet and planned with the step.
//!
//! Here it is counted in vectors of lanes, a cache line each. Each algorithm has a function that says how
//! many it needs, which goes by the form of a call and never by its data. The kernel takes as many by that
//! function ([`first`]), and the codelet declares the most of all algorithms that a call may come to, also
//! those that are only taken where values are not finite ([`declared`]). So nothing is derived twice.

use crate::algorithm::order_of;
use crate::real::Real;
use crate::small_batch::SampleOrder;
use dahl_runtime::array::Dtype;
use dahl_runtime::bytes::ALIGN;
use dahl_runtime::codelet::{Call, CallSpec, Implementation};

/// Vectors that a call whose samples lie in this order may take.
pub(crate) type ScratchLen = fn(&CallSpec, SampleOrder) -> usize;

/// Bytes that a call of an implementation may take, from functions for `f32` and `f64`; none for the
/// reference.
pub(crate) fn declared(implementation: &Implementation, spec: &CallSpec, of: [ScratchLen; 2]) -> usize {
    let Some(order) = order_of(implementation) else { return 0 };
    of[usize::from(implementation.dtype == Dtype::F64)](spec, order) * ALIGN
}

/// `.scratch(scratch!(lanes::scratch_len))`: a function of both element types that says how many vectors a
/// call may take.
macro_rules! scratch {
    ($($path:ident)::+) => {
        |implementation, spec| {
            $crate::scratch::declared(implementation, spec, [$($path)::+::<f32>, $($path)::+::<f64>])
        }
    };
}
pub(crate) use scratch;

/// All that was declared for a call, with anything in it.
pub(crate) fn of_call<'c, T: Real>(call: &'c Call<'_>) -> &'c mut [T::Lanes] {
    T::lanes_mut(call.scratch::<T>())
}

/// The first `len` vectors.
///
/// # Panics
/// If there are fewer: then the codelet declares less than its kernel takes.
#[inline]
pub(crate) fn first<L>(scratch: &mut [L], len: usize) -> &mut [L] {
    let declared = scratch.len();
    scratch.get_mut(..len).unwrap_or_else(|| {
        panic!("the kernel takes {len} vectors of scratch and its codelet declares {declared}")
    })
}
