//! The same value added to every element: `y = x + value`. May run in place. Bytes: one element read, one
//! written.

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = x + value`; scalars: value.
pub static CODELET: Codelet = Codelet::new(
    "add_value",
    "x[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::kernel, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = x + value`.
    add_value<T, R>(x: [T; R]; scalars value) -> (y: [T; R]), init add_value_init, in_place add_value_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).scalars(&[draw.unit()]).real(shape).real(shape)
}

super::elementwise!(map, function);

#[inline(always)]
fn function<T: Real>(call: &Call<'_>) -> impl Fn(T) -> T {
    let value = T::from_f64(call.scalar(0));
    move |x| x + value
}
