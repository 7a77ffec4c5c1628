//! Sums, of everything or along an axis, in the order of the elements. The sum of nothing is 0.

use super::real::Real;
use super::reduce::{Fold, along, reductions, whole, whole_flat};
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

reductions!("sum", "sum", "+=", Sum, Sum, real, sum, sum_init, sum_axis, sum_axis_init, sum_axes_init);

struct Sum;

impl Fold for Sum {
    const START: f64 = 0.0;

    #[inline(always)]
    fn fold<T: Real>(result: T, x: T) -> T {
        result + x
    }
}
