//! Minima, of everything or along an axis; a NaN wins over every number, as in PyTorch. The minimum of
//! nothing is infinity.

use super::real::Real;
use super::reduce::{Fold, along, reductions, whole, whole_flat};
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

reductions!(
    "minimum",
    "min",
    "min=",
    Min,
    Exact,
    ties,
    min,
    min_init,
    min_axis,
    min_axis_init,
    min_axes_init
);

struct Min;

impl Fold for Min {
    const START: f64 = f64::INFINITY;

    #[inline(always)]
    fn fold<T: Real>(result: T, x: T) -> T {
        if x < result || x.is_nan() { x } else { result }
    }
}
