//! The algorithms that kernels of convolutions choose from by themselves, as words of the keys that times are
//! kept by.
//!
//! Implementations have names, by which plans ask for them. Within one, a kernel takes whatever algorithm is
//! quickest for the shapes of its call. Times of different algorithms say little about each other, so each
//! codelet says which ones a call takes
//! ([`Codelet::algorithms`](method@dahl_runtime::codelet::Codelet::algorithms)), by the function that its
//! kernels go by. Only values that are not finite, or very large, make a kernel take another one than that.

use crate::small_batch::SampleOrder;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{CallSpec, Implementation};

/// How a kernel computes some samples of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Algorithm {
    /// One chain of multiply-adds per result.
    Direct,
    /// The same, of pixels that are selected by the place of a maximum.
    Selection,
    /// F(2x2, 3x3).
    Winograd3,
    /// Five taps as three and two.
    Winograd5,
    /// The same, where tiles add to the pixels under them.
    Winograd5Scattered,
    /// One sample at a time, in vectors of pixels.
    SmallBatch,
    /// The scalar reference.
    Reference,
}

impl Algorithm {
    fn word(self) -> &'static str {
        match self {
            Algorithm::Direct => "direct",
            Algorithm::Selection => "selection",
            Algorithm::Winograd3 => "winograd3",
            Algorithm::Winograd5 => "winograd5",
            Algorithm::Winograd5Scattered => "winograd5_scattered",
            Algorithm::SmallBatch => "small_batch",
            Algorithm::Reference => "reference",
        }
    }
}

/// The algorithms of the parts of a call whose samples lie in this order.
pub(crate) type Algorithms = fn(&CallSpec, SampleOrder) -> Vec<Algorithm>;

/// What a call of an implementation takes, from functions for `f32` and `f64`: words joined by `+`, each
/// once. Empty for the reference, which has no choice.
pub(crate) fn words(implementation: &Implementation, spec: &CallSpec, of: [Algorithms; 2]) -> String {
    let Some(order) = order_of(implementation) else { return String::new() };
    let mut chosen = of[usize::from(implementation.dtype == Dtype::F64)](spec, order);
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(Algorithm::word).collect::<Vec<_>>().join("+")
}

/// How samples lie for an implementation that has a choice; none for the reference.
pub(crate) fn order_of(implementation: &Implementation) -> Option<SampleOrder> {
    match implementation.name {
        "lanes" => Some(SampleOrder::Lanes),
        "flat" => Some(SampleOrder::Rows),
        _ => None,
    }
}

/// `.algorithms(algorithms!(lanes::algorithms))`: a function of both element types that says which algorithms
/// a call takes.
macro_rules! algorithms {
    ($($path:ident)::+) => {
        |implementation, spec| {
            $crate::algorithm::words(implementation, spec, [$($path)::+::<f32>, $($path)::+::<f64>])
        }
    };
}
pub(crate) use algorithms;
