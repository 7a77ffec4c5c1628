//! Rectified linear unit: `y = max(x, 0)`, where NaN stays NaN (and -0 stays -0) as in PyTorch. May run in
//! place. Bytes: one element read, one written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = max(x, 0)`
pub static CODELET: Codelet = Codelet::new(
    "relu",
    "x[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::relu, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = max(x, 0)`, where NaN stays NaN.
    relu<T, R>(x: [T; R]) -> (y: [T; R]), init relu_init, in_place relu_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).real(shape).real(shape)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    call.map(|x: T| if T::default() > x { T::default() } else { x });
    Ok(())
}
