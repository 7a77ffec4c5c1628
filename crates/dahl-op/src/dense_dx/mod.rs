//! The gradient of a fully connected layer's input: `dx[n,i] = Σ_o dy[n,o] w[o,i]`. Bytes: `dy` and `w` read
//! once, `dx` written once (and read, when accumulating).

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dx += dy w`
pub static CODELET: Codelet = Codelet::new(
    "dense_dx",
    "dy[n,o] w[o,i] -> dx[n,i] +=",
    2.0,
    super::implementations!(reference, lanes::dense_dx, 1, [L R L]; flat::dense_dx, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// `dx[n,i] = Σ dy[n,o] w[o,i]`.
    dense_dx<T>(dy: [T; 2], w: [T; 2]) -> (dx: [T; 2]), init dense_dx_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, i, o] = [draw.n_samples(), draw.wide(), draw.wide()];
    Sample::new(Tolerance::Sum).real([n, o]).real([o, i]).real([n, i])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    for n in dx.region().range(0) {
        for i in dx.region().range(1) {
            let mut sum = if call.accumulate() { dx.at([n, i]) } else { T::default() };
            for o in dy.region().range(1) {
                sum += dy.at([n, o]) * w.at([o, i]);
            }
            dx.set([n, i], sum);
        }
    }
    Ok(())
}
