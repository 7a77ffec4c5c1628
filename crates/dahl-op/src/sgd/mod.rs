//! A step of stochastic gradient descent: `p -= lr g`, over a flat range of parameters. Bytes: two elements
//! read, one written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `p -= lr g`
pub static CODELET: Codelet = Codelet::new(
    "sgd",
    "g[i] lr[] p[i] -> p[i]",
    2.0,
    super::implementations!(reference, lanes::sgd, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// `p -= lr g`.
    sgd<T>(g: [T; 1], lr: [T; 0]) -> (p: [T; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let n = draw.n_samples() * draw.extent();
    Sample::new(Tolerance::Scale(2.0)).real([n]).real([]).real([n])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (g, lr) = (call.input::<T>(0), call.input::<T>(1).at([]));
    let mut p = call.output::<T>(0);
    for i in p.region().range(0) {
        p.set([i], p.at([i]) - lr * g.at([i]));
    }
    Ok(())
}
