//! The inner product of two vectors: `s = Σ_k x[k] y[k]`. Bytes: two elements read.

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `s = x · y`
pub static CODELET: Codelet =
    Codelet::new("dot", "x[k] y[k] -> s[] +=", 2.0, super::implementations!(reference)).samples(sample);

super::forms! {
    /// The inner product of two vectors.
    dot<T>(x: [T; 1], y: [T; 1]) -> (s: [T; 0]), init dot_init
}

fn sample(draw: &mut Draw) -> Sample {
    let k = draw.n_samples() * draw.extent();
    Sample::new(Tolerance::Sum).real([k]).real([k]).real([])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input::<T>(0), call.input::<T>(1));
    let mut s = call.output::<T>(0);
    let mut sum = if call.accumulate() { s.at([]) } else { T::default() };
    for k in x.region().range(0) {
        sum += x.at([k]) * y.at([k]);
    }
    s.set([], sum);
    Ok(())
}
