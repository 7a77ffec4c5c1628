//! Fully connected layer with bias.
//!
//! `y[n,o] = b[o] + Σ_i x[n,i] w[o,i]`. A task may cover a part of the inputs `i` and add to what the others
//! left; the one that starts at input 0 adds the bias. Bytes: `x`, `w` and `b` read once, `y` written once.

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = b + x wᵀ`
pub static CODELET: Codelet = Codelet::new(
    "dense",
    "x[n,i] w[o,i] b[o] -> y[n,o] +=",
    2.0,
    super::implementations!(reference, lanes::dense, 2, [L R R L]; flat::dense, 1, [R R R R]),
)
.samples(sample);

super::forms! {
    /// `y[n,o] = b[o] + Σ x[n,i] w[o,i]`.
    dense<T>(x: [T; 2], w: [T; 2], b: [T; 1]) -> (y: [T; 2]), init dense_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, i, o] = [draw.n_samples(), draw.wide(), draw.wide()];
    Sample::new(Tolerance::Sum).real([n, i]).real([o, i]).real([o]).real([n, o])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    let inputs = x.region().range(1);
    for n in y.region().range(0) {
        for o in y.region().range(1) {
            let mut sum = if call.accumulate() { y.at([n, o]) } else { T::default() };
            if inputs.start == 0 {
                sum += b.at([o]);
            }
            for i in inputs.clone() {
                sum += x.at([n, i]) * w.at([o, i]);
            }
            y.set([n, o], sum);
        }
    }
    Ok(())
}
