//! The outer product of two vectors: `a[i,j] = x[i] y[j]`. Bytes: `x` and `y` read once, `a` written once.

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `a = x yᵀ`
pub static CODELET: Codelet =
    Codelet::new("outer", "x[i] y[j] -> a[i,j]", 1.0, super::implementations!(reference)).samples(sample);

super::forms! {
    /// The outer product of two vectors, `a[i,j] = x[i] y[j]`.
    outer<T>(x: [T; 1], y: [T; 1]) -> (a: [T; 2]), init outer_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [i, j] = [draw.n_samples(), draw.wide()];
    Sample::new(Tolerance::Exact).real([i]).real([j]).real([i, j])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input::<T>(0), call.input::<T>(1));
    let mut a = call.output::<T>(0);
    for i in a.region().range(0) {
        for j in a.region().range(1) {
            a.set([i, j], x.at([i]) * y.at([j]));
        }
    }
    Ok(())
}
