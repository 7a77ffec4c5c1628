//! The gradient of the rectified linear unit, from its mask: `dx = dy` where `mask` is not 0, else 0. Bytes:
//! one element and a byte read, one element written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `dx = dy · mask`
pub static CODELET: Codelet = Codelet::new(
    "relu_mask_backward",
    "mask[..] dy[..] -> dx[..]",
    1.0,
    super::implementations!(reference, lanes::relu_mask_backward, 1, [L L L]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `dx = dy` where `mask` is not 0, else 0.
    relu_mask_backward<T, R>(mask: [u8; R], dy: [T; R]) -> (dx: [T; R]), init relu_mask_backward_init,
        in_place relu_mask_backward_self(dy: [T; R], mask: [u8; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    Sample::new(Tolerance::Exact).below(Dtype::U8, shape, 2).real(shape).real(shape)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (mask, dy) = (call.input::<u8>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    for_each_index(dx.region(), |index| {
        dx.put(index, if mask.get(index) == 0 { T::default() } else { dy.get(index) });
    });
    Ok(())
}
