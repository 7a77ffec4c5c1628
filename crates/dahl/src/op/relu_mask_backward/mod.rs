//! The gradient of the rectified linear unit, from its mask: `dx = dy` where `mask` is not 0, else 0. Bytes: one element
//! and a byte read, one element written.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, for_each_index};

/// `dx = dy · mask`
pub static CODELET: Codelet = Codelet::new(
    "relu_mask_backward",
    "mask[..] dy[..] -> dx[..]",
    1.0,
    super::implementations!(reference, lanes::relu_mask_backward, 1, [L L L]),
);

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (mask, dy) = (call.input::<u8>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    for_each_index(dx.region(), |index| {
        dx.put(index, if mask.get(index) == 0 { T::default() } else { dy.get(index) });
    });
    Ok(())
}
