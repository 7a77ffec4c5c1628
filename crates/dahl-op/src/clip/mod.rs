//! Values limited to a range: `y = min(max(x, low), high)`; NaN stays NaN, and where `low > high` all become
//! `high`, as in PyTorch. May run in place. Bytes: one element read, one written.

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `y = min(max(x, low), high)`; scalars: low, high.
pub static CODELET: Codelet = Codelet::new(
    "clip",
    "x[..] -> y[..]",
    1.0,
    super::implementations!(reference, lanes::kernel, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = min(max(x, low), high)`; NaN stays NaN.
    clip<T, R>(x: [T; R]; scalars low, high) -> (y: [T; R]), init clip_init, in_place clip_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).scalars(&[draw.unit(), draw.unit()]).real(shape).real(shape)
}

super::elementwise!(map, function);

#[inline(always)]
fn function<T: Real>(call: &Call<'_>) -> impl Fn(T) -> T {
    let (low, high) = (T::from_f64(call.scalar(0)), T::from_f64(call.scalar(1)));
    move |x| {
        let above = if x < low { low } else { x };
        if above > high { high } else { above }
    }
}
