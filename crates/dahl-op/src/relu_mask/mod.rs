//! Rectified linear unit that leaves a mask: `y = max(x, 0)` as `relu`, and `mask = 1` where `x > 0`, else 0.
//!
//! The backward pass from the mask needs a byte per element where `relu_backward` needs all of `y`: worth it
//! where `y` is overwritten or dropped. Bytes: one element read, one and a byte written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `y = max(x, 0)`, `mask = [x > 0]`
pub static CODELET: Codelet = Codelet::new(
    "relu_mask",
    "x[..] -> y[..] mask[..]",
    1.0,
    super::implementations!(reference, lanes::relu_mask, 1, [L L L]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = max(x, 0)`, and 1 in `mask` where `x > 0`.
    relu_mask<T, R>(x: [T; R]) -> (y: [T; R], mask: [u8; R]), init relu_mask_init
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).ties(shape).real(shape).below(Dtype::U8, shape, 2)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let (mut y, mut mask) = (call.output::<T>(0), call.output::<u8>(1));
    for_each_index(y.region(), |index| {
        let value = x.get(index);
        y.put(index, if T::default() > value { T::default() } else { value });
        mask.put(index, u8::from(value > T::default()));
    });
    Ok(())
}
