use crate::op::real::Real;
use dahl_runtime::{Result, codelet::Call};
pub(super) fn max_pool_backward<T: Real>(call: &Call<'_>) -> Result<()> {
    super::reference::<T>(call)
}
