//! Maxima, of everything or along an axis; a NaN wins over every number, as in PyTorch. The maximum of
//! nothing is minus infinity.

use super::real::Real;
use super::reduce::{Fold, along, reductions, whole, whole_flat};
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

reductions!(
    "maximum",
    "max",
    "max=",
    Max,
    Exact,
    ties,
    max,
    max_init,
    max_axis,
    max_axis_init,
    max_axes_init
);

struct Max;

impl Fold for Max {
    const START: f64 = f64::NEG_INFINITY;

    #[inline(always)]
    fn fold<T: Real>(result: T, x: T) -> T {
        if x > result || x.is_nan() { x } else { result }
    }
}
