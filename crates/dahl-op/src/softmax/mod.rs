//! Softmax over classes: `y[n,k] = exp(x[n,k] - m_n) / Σ_j exp(x[n,j] - m_n)` with `m_n = max_j x[n,j]`, so
//! that no power overflows. Bytes: `x` read once, `y` written once (and read while a row is in the first
//! cache).

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = softmax(x)` over `k`
pub static CODELET: Codelet = Codelet::new(
    "softmax",
    "x[n,k!] -> y[n,k!]",
    6.0,
    super::implementations!(reference, lanes::softmax, 1, [L L]; reference, 1, [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y[n,k] = exp(x[n,k]) / Σ_j exp(x[n,j])`.
    softmax<T>(x: [T; 2]) -> (y: [T; 2]), init softmax_init,
        in_place softmax_self(x: [T; 2])
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.extent()];
    Sample::new(Tolerance::Scale(1.0)).real([n, k]).real([n, k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let classes = x.region().range(1);
    for n in y.region().range(0) {
        let mut maximum = T::NEG_INFINITY;
        for k in classes.clone() {
            let value = x.at([n, k]);
            maximum = if value > maximum || value.is_nan() { value } else { maximum };
        }
        let mut sum = T::default();
        for k in classes.clone() {
            let power = (x.at([n, k]) - maximum).exponential();
            y.set([n, k], power);
            sum += power;
        }
        for k in classes.clone() {
            y.set([n, k], y.at([n, k]) / sum);
        }
    }
    Ok(())
}
