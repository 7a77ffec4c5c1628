//! The nearest whole number, halves to the even one, as in PyTorch. May run in place. Bytes: one element
//! read, one written.

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = x rounded to the nearest whole number`.
pub static CODELET: Codelet = Codelet::new(
    "round",
    "x[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::kernel, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// The nearest whole number; halves go to the even one.
    round<T, R>(x: [T; R]) -> (y: [T; R]), init round_init, in_place round_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).real_in(shape, -9.0..9.0).real(shape)
}

super::elementwise!(map, function);

#[inline(always)]
fn function<T: Real>(_: &Call<'_>) -> impl Fn(T) -> T {
    |x| x.rounded()
}
