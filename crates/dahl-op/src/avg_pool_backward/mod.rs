//! The gradient of average pooling: each window's gradient is shared out evenly over its pixels.
//!
//! `dx[n,c,iy,ix] = Σ dy[n,c,oy,ox] / k²` over the windows that cover the pixel; windows may overlap, and
//! pixels under none get zero. What falls on padding is lost. Bytes: `dy` read once, `dx` written once.

mod lanes;

use super::avg_pool::pixels;
use super::real::Real;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `dx += dy / k²`; integers: stride, padding, window size.
pub static CODELET: Codelet = Codelet::new(
    "avg_pool_backward",
    "dy[n,c,oy,ox] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k",
    1.0,
    super::implementations!(reference, lanes::avg_pool_backward, 1, [L L]),
)
.samples(sample);

super::forms! {
    /// The gradient of the pixels under windows of `size` x `size`, from the gradient of their means.
    avg_pool_backward<T>(dy: [T; 4]; ints stride, pad, size) -> (dx: [T; 4])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, image: [h, w], out: [oh, ow], size, stride, pad, .. } = Sizes::draw(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad, size]);
    sample.real([n, c, oh, ow]).real([n, c, h, w])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = call.int(2);
    for_each_index(dx.region(), |index| {
        let &[n, c, iy, ix] = index else { unreachable!("dx has four dimensions") };
        let mut sum = T::default();
        for oy in window.outputs(iy, size, &dy.region().range(2)) {
            for ox in window.outputs(ix, size, &dy.region().range(3)) {
                sum += dy.at([n, c, oy, ox]);
            }
        }
        let start = if call.accumulate() { dx.at([n, c, iy, ix]) } else { T::default() };
        dx.set([n, c, iy, ix], start + sum / pixels(size));
    });
    Ok(())
}
