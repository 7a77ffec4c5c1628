//! The gradient of max pooling: each window's gradient goes to the pixel that was its maximum.
//!
//! `dx[n,c,iy,ix] = Σ dy[n,c,oy,ox]` over the windows that cover the pixel and whose `arg` names it; windows
//! may overlap, and pixels that no window names get zero. Bytes: `dy` and `arg` read once, `dx` written once.

mod flat;
mod lanes;

use super::max_pool::checked_size;
use super::real::Real;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `dx += dy` where `arg` says; integers: stride, padding, window size.
pub static CODELET: Codelet = Codelet::new(
    "max_pool_backward",
    "arg[n,c,oy,ox] dy[n,c,oy,ox] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k",
    1.0,
    super::implementations!(reference, lanes::max_pool_backward, 1, [L L L]; flat::max_pool_backward, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// The gradient of max pooling: `dy` goes to the places that `arg` names.
    max_pool_backward<T>(arg: [u8; 4], dy: [T; 4]; ints stride, pad, size) -> (dx: [T; 4])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, image: [h, w], out: [oh, ow], size, stride, pad, .. } = Sizes::draw(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad, size]);
    sample.below(Dtype::U8, [n, c, oh, ow], size * size).real([n, c, oh, ow]).real([n, c, h, w])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (arg, dy) = (call.input::<u8>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (dy.region().range(2), dy.region().range(3));
    for_each_index(dx.region(), |index| {
        let &[n, c, iy, ix] = index else { unreachable!("dx has four dimensions") };
        let mut sum = if call.accumulate() { dx.at([n, c, iy, ix]) } else { T::default() };
        for oy in window.outputs(iy, size, &rows) {
            for ox in window.outputs(ix, size, &columns) {
                let ky = iy + window.pad - oy * window.stride;
                let kx = ix + window.pad - ox * window.stride;
                if arg.at([n, c, oy, ox]) as usize == ky * size + kx {
                    sum += dy.at([n, c, oy, ox]);
                }
            }
        }
        dx.set([n, c, iy, ix], sum);
    });
    Ok(())
}
