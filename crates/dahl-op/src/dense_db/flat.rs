//! Samples one after another, which are added up in their order.

use crate::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn dense_db<T: Real>(call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let db = db.contiguous();
    if !call.accumulate() {
        db.fill(T::default());
    }
    for dy in dy.contiguous().chunks_exact(db.len().max(1)) {
        for (db, dy) in db.iter_mut().zip(dy) {
            *db += *dy;
        }
    }
    Ok(())
}
