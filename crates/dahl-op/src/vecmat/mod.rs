//! The product of a vector and a matrix: `y[j] = Σ_k x[k] a[k,j]`. Bytes: `x` and `a` read once, `y` written
//! once.

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = x a`
pub static CODELET: Codelet =
    Codelet::new("vecmat", "x[k] a[k,j] -> y[j] +=", 2.0, super::implementations!(reference)).samples(sample);

super::forms! {
    /// The product of a vector and a matrix, `y = x a`.
    vecmat<T>(x: [T; 1], a: [T; 2]) -> (y: [T; 1]), init vecmat_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [k, j] = [draw.n_samples(), draw.wide()];
    Sample::new(Tolerance::Sum).real([k]).real([k, j]).real([j])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, a) = (call.input::<T>(0), call.input::<T>(1));
    let mut y = call.output::<T>(0);
    for j in y.region().range(0) {
        let mut sum = if call.accumulate() { y.at([j]) } else { T::default() };
        for k in x.region().range(0) {
            sum += x.at([k]) * a.at([k, j]);
        }
        y.set([j], sum);
    }
    Ok(())
}
