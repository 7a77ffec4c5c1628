//! A step of stochastic gradient descent with momentum and weight decay, as in PyTorch without dampening,
//! over a flat range of parameters.
//!
//! `g' = g + decay p`, `v = momentum v + g'`, `p -= lr v`; with Nesterov's momentum
//! `p -= lr (g' + momentum v)`. The velocity starts at zero. Bytes: three elements read, two written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `v = momentum v + g + decay p`, `p -= lr v`; scalars: momentum, weight decay, and 1 for Nesterov's
/// momentum, else 0.
pub static CODELET: Codelet = Codelet::new(
    "sgd_momentum",
    "g[i] lr[] p[i] v[i] -> p[i] v[i]",
    6.0,
    super::implementations!(reference, lanes::sgd_momentum, 1, [R R R R]),
)
.samples(sample);

super::forms! {
    /// `v = momentum v + g + decay p`, `p -= lr v`; Nesterov's momentum if `nesterov` is 1, not 0.
    sgd_momentum<T>(g: [T; 1], lr: [T; 0]; scalars momentum, decay, nesterov) -> (p: [T; 1], v: [T; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let n = draw.n_samples() * draw.extent();
    let sample = Sample::new(Tolerance::Scale(5.0)).scalars(&[0.9, 0.1, draw.below(2) as f64]);
    sample.real([n]).real([]).real([n]).real([n])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (g, lr) = (call.input::<T>(0), call.input::<T>(1).at([]));
    let (mut p, mut v) = (call.output::<T>(0), call.output::<T>(1));
    let (momentum, decay) = (T::from_f64(call.scalar(0)), T::from_f64(call.scalar(1)));
    for i in p.region().range(0) {
        let gradient = g.at([i]) + decay * p.at([i]);
        let velocity = momentum * v.at([i]) + gradient;
        let direction = if is_nesterov(call) { gradient + momentum * velocity } else { velocity };
        v.set([i], velocity);
        p.set([i], p.at([i]) - lr * direction);
    }
    Ok(())
}

/// Whether the momentum is Nesterov's.
fn is_nesterov(call: &Call<'_>) -> bool {
    call.scalar(2) != 0.0
}
