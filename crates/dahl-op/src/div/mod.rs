//! The quotient, element by element: `y = a / b`, infinite or NaN where `b` is zero. May run in place of
//! either. Bytes: two elements read, one written.

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = a / b`
pub static CODELET: Codelet = Codelet::new(
    "div",
    "a[..] b[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::kernel, 1, [L L L], [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = a / b`, element by element.
    div<T, R>(a: [T; R], b: [T; R]) -> (y: [T; R]), init div_init, in_place div_self(a: [T; R], b: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).real(shape).real(shape).real(shape)
}

super::elementwise!(map2, function);

#[inline(always)]
fn function<T: Real>(_: &Call<'_>) -> impl Fn(T, T) -> T {
    |a, b| a / b
}
