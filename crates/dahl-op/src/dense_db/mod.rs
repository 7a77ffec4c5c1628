//! The gradient of a fully connected layer's bias: `db[o] = Σ_n dy[n,o]`. Bytes: `dy` read once, `db`
//! written.

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `db[o] += Σ dy[n,o]`
pub static CODELET: Codelet = Codelet::new(
    "dense_db",
    "dy[n,o] -> db[o] +=",
    1.0,
    super::implementations!(reference, lanes::dense_db, 2, [L R]; flat::dense_db, 1, [R R]),
)
.samples(sample);

super::forms! {
    /// `db[o] = Σ dy[n,o]`.
    dense_db<T>(dy: [T; 2]) -> (db: [T; 1]), init dense_db_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, o] = [draw.n_samples(), draw.wide()];
    Sample::new(Tolerance::Sum).real([n, o]).real([o])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    for o in db.region().range(0) {
        let mut sum = if call.accumulate() { db.at([o]) } else { T::default() };
        for n in dy.region().range(0) {
            sum += dy.at([n, o]);
        }
        db.set([o], sum);
    }
    Ok(())
}
