//! The gradient of a fully connected layer's weights: `dw[o,i] = Σ_n dy[n,o] x[n,i]`. Bytes: `x` and `dy`
//! read once, `dw` written once per group of samples.

mod flat;
mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dw += dyᵀ x`
pub static CODELET: Codelet = Codelet::new(
    "dense_dw",
    "x[n,i] dy[n,o] -> dw[o,i] +=",
    2.0,
    super::implementations!(reference, lanes::dense_dw, 2, [L L R]; flat::dense_dw, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// `dw[o,i] = Σ dy[n,o] x[n,i]`.
    dense_dw<T>(x: [T; 2], dy: [T; 2]) -> (dw: [T; 2]), init dense_dw_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, i, o] = [draw.n_samples(), draw.wide(), draw.wide()];
    Sample::new(Tolerance::Sum).real([n, i]).real([n, o]).real([o, i])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    for o in dw.region().range(0) {
        for i in dw.region().range(1) {
            let mut sum = if call.accumulate() { dw.at([o, i]) } else { T::default() };
            for n in x.region().range(0) {
                sum += dy.at([n, o]) * x.at([n, i]);
            }
            dw.set([o, i], sum);
        }
    }
    Ok(())
}
