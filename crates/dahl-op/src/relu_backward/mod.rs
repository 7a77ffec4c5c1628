//! The gradient of the rectified linear unit, from its *output*: `dx = dy` where `y > 0`, else 0 (so that the
//! derivative at 0 is 0). May run in place of `dy`. Bytes: two elements read, one written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dx = dy · [y > 0]`
pub static CODELET: Codelet = Codelet::new(
    "relu_backward",
    "y[..] dy[..] -> dx[..]",
    1.0,
    super::implementations!(reference, lanes::relu_backward, 1, [L L L], [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `dx = dy` where `y > 0`, else 0; `y` is the output of the rectifier.
    relu_backward<T, R>(y: [T; R], dy: [T; R]) -> (dx: [T; R]), init relu_backward_init,
        in_place relu_backward_self(dy: [T; R], y: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).real(shape).real(shape).real(shape)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    call.map2(|y: T, dy: T| if y > T::default() { dy } else { T::default() });
    Ok(())
}
