//! A step of Adam, as in PyTorch, over a flat range of parameters.
//!
//! `g' = g + decay p`, `m += (1 - β₁)(g' - m)`, `v = β₂ v + (1 - β₂) g'²`,
//! `p -= lr / (1 - β₁ᵗ) m / (sqrt(v) / sqrt(1 - β₂ᵗ) + eps)` where `t - 1` steps were taken before, which
//! `step` counts. Both moments start at zero. Bytes: four elements read, three written.

mod lanes;

pub(super) use lanes::step;

use super::power::whole_power;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// One step of Adam; scalars: β₁, β₂, eps, weight decay.
pub static CODELET: Codelet = Codelet::new(
    "adam",
    "g[i] lr[] step[] p[i] m[i] v[i] -> p[i] m[i] v[i]",
    14.0,
    super::implementations!(
        (reference::<f32, false>, reference::<f64, false>),
        lanes,
        (lanes::adam::<f32>, lanes::adam::<f64>),
        1,
        [R R R R R R]
    ),
)
.samples(sample);

super::forms! {
    /// One step of Adam after `step` others: parameters `p` and both moments.
    adam<T>(g: [T; 1], lr: [T; 0], step: [u32; 0]; scalars beta1, beta2, eps, decay)
        -> (p: [T; 1], m: [T; 1], v: [T; 1])
}

/// For AdamW too.
pub(super) fn sample(draw: &mut Draw) -> Sample {
    let n = draw.n_samples() * draw.extent();
    let sample = Sample::new(Tolerance::Scale(5.0)).scalars(&[0.9, 0.999, 1e-8, 0.1]);
    let sample = sample.real([n]).real([]).below(Dtype::U32, [], 100);
    sample.real([n]).real([n]).real_in([n], 0.1..1.0)
}

/// Adam, or AdamW where the weight decay is decoupled from the gradient.
pub(super) fn reference<T: Real, const DECOUPLED: bool>(call: &Call<'_>) -> Result<()> {
    let g = call.input::<T>(0);
    let (mut p, mut m, mut v) = (call.output::<T>(0), call.output::<T>(1), call.output::<T>(2));
    let rates = Rates::<T>::of(call);
    for i in p.region().range(0) {
        let (mut gradient, mut parameter) = (g.at([i]), p.at([i]));
        if DECOUPLED {
            parameter = parameter * rates.shrink;
        } else {
            gradient += rates.decay * parameter;
        }
        let first = m.at([i]) + rates.take_first * (gradient - m.at([i]));
        let second = rates.keep_second * v.at([i]) + rates.take_second * gradient * gradient;
        let deviation = second.square_root() / rates.second_correction + rates.eps;
        m.set([i], first);
        v.set([i], second);
        p.set([i], parameter - rates.size * (first / deviation));
    }
    Ok(())
}

/// What all parameters share in one step.
pub(super) struct Rates<T> {
    /// The weight decay as part of the gradient.
    decay: T,
    /// What decoupled weight decay multiplies parameters with: `1 - lr decay`.
    shrink: T,
    /// `1 - β₁`
    take_first: T,
    /// `β₂`
    keep_second: T,
    /// `1 - β₂`
    take_second: T,
    /// `sqrt(1 - β₂ᵗ)`
    second_correction: T,
    eps: T,
    /// `lr / (1 - β₁ᵗ)`
    size: T,
}

impl<T: Real> Rates<T> {
    fn of(call: &Call<'_>) -> Self {
        let (lr, step) = (call.input::<T>(1).at([]), call.input::<u32>(2).at([]));
        let [beta1, beta2, eps, decay] = [0, 1, 2, 3].map(|i| call.scalar(i));
        let number = u64::from(step) + 1;
        Rates {
            decay: T::from_f64(decay),
            shrink: T::from_f64(1.0) - lr * T::from_f64(decay),
            take_first: T::from_f64(1.0 - beta1),
            keep_second: T::from_f64(beta2),
            take_second: T::from_f64(1.0 - beta2),
            second_correction: T::from_f64((1.0 - power(beta2, number)).sqrt()),
            eps: T::from_f64(eps),
            size: lr / T::from_f64(1.0 - power(beta1, number)),
        }
    }
}

/// `base` to the `exponent`: the same bits on every machine.
fn power(base: f64, exponent: u64) -> f64 {
    whole_power(base, exponent)
}

#[cfg(test)]
mod tests {
    #[test]
    fn powers_are_products() {
        for exponent in 0..40 {
            let product: f64 = (0..exponent).map(|_| 0.9).product();
            assert!((super::power(0.9, exponent) / product - 1.0).abs() < 1e-14);
        }
        assert_eq!(super::power(0.5, 10), 1.0 / 1024.0);
    }
}
