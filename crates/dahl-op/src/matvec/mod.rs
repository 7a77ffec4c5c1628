//! The product of a matrix and a vector: `y[i] = Σ_k a[i,k] x[k]`. Bytes: `a` and `x` read once, `y` written
//! once.

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = a x`
pub static CODELET: Codelet =
    Codelet::new("matvec", "a[i,k] x[k] -> y[i] +=", 2.0, super::implementations!(reference)).samples(sample);

super::forms! {
    /// The product of a matrix and a vector, `y = a x`.
    matvec<T>(a: [T; 2], x: [T; 1]) -> (y: [T; 1]), init matvec_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [i, k] = [draw.n_samples(), draw.wide()];
    Sample::new(Tolerance::Sum).real([i, k]).real([k]).real([i])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (a, x) = (call.input::<T>(0), call.input::<T>(1));
    let mut y = call.output::<T>(0);
    for i in y.region().range(0) {
        let mut sum = if call.accumulate() { y.at([i]) } else { T::default() };
        for k in x.region().range(0) {
            sum += a.at([i, k]) * x.at([k]);
        }
        y.set([i], sum);
    }
    Ok(())
}
