//! Sums per channel: the gradient of a convolution's bias.
//!
//! `db[k] = Σ_{n,y,x} dy[n,k,y,x]`. Bytes: `dy` read once, `k` sums written.

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `db[k] += Σ dy[n,k,y,x]`
pub static CODELET: Codelet = Codelet::new(
    "channel_sum",
    "dy[n,k,y,x] -> db[k] +=",
    1.0,
    super::implementations!(reference, lanes::channel_sum, 1, [L R]; flat::channel_sum, 1, [R R]),
)
.samples(sample);

super::forms! {
    /// `db[k] = Σ dy[n,k,y,x]`.
    channel_sum<T>(dy: [T; 4]) -> (db: [T; 1]), init channel_sum_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    Sample::new(Tolerance::Sum).real([n, k, y, x]).real([k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut db = call.output::<T>(0);
    let region = dy.region();
    for k in db.region().range(0) {
        let mut sum = if call.accumulate() { db.at([k]) } else { T::default() };
        for n in region.range(0) {
            for y in region.range(2) {
                for x in region.range(3) {
                    sum += dy.at([n, k, y, x]);
                }
            }
        }
        db.set([k], sum);
    }
    Ok(())
}
