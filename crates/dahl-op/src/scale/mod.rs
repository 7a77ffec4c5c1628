//! A multiple: `y = factor x`. May run in place. Bytes: one element read, one written.

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = factor x`; scalars: factor.
pub static CODELET: Codelet = Codelet::new(
    "scale",
    "x[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::kernel, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = factor x`.
    scale<T, R>(x: [T; R]; scalars factor) -> (y: [T; R]), init scale_init, in_place scale_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).scalars(&[draw.unit()]).real(shape).real(shape)
}

super::elementwise!(map, function);

#[inline(always)]
fn function<T: Real>(call: &Call<'_>) -> impl Fn(T) -> T {
    let factor = T::from_f64(call.scalar(0));
    move |x| factor * x
}
