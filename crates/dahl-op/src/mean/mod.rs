//! Means, of everything or along an axis. The mean of nothing is NaN.
//!
//! Each tile divides its part of the sum by the number of elements of the whole array (along the axis), so
//! that the parts add up to the mean however it is cut.

use super::real::Real;
use super::reduce::{Fold, along, reductions, whole, whole_flat};
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

reductions!(
    "mean",
    "mean",
    "+=",
    Mean,
    Sum,
    real,
    mean,
    mean_init,
    mean_axis,
    mean_axis_init,
    mean_axes_init
);

struct Mean;

impl Fold for Mean {
    const START: f64 = 0.0;

    #[inline(always)]
    fn fold<T: Real>(result: T, x: T) -> T {
        result + x
    }

    #[inline(always)]
    fn finish<T: Real>(result: T, n: usize) -> T {
        result / T::from_f64(n as f64)
    }
}
