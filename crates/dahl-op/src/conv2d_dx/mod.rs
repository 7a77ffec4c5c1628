//! The gradient of a convolution's input.
//!
//! `dx[n,c,iy,ix] = Σ_{k,ky,kx} dy[n,k,oy,ox] w[k,c,ky,kx]` over the windows that cover the pixel:
//! `oy = (iy+p-ky)/s` and `ox = (ix+p-kx)/s` where these divisions leave no rest and the output is there.
//! Padding is never stored. A task may cover a part of the output channels `k` and add to what the others
//! left. Bytes: `dy` and `w` read once at least, `dx` written once (and read, when accumulating).

pub(super) mod lanes;

use super::real::Real;
use super::small_batch::suits_gradient;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `dx += dy ⋆ᵀ w`; integers: stride, padding.
pub static CODELET: Codelet = Codelet::new(
    "conv2d_dx",
    "dy[n,k,oy,ox] w[k,c,ky,kx] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p",
    2.0,
    super::implementations!(reference, lanes::conv2d_dx, 6, [L R L]; lanes::flat, 1, [R R R]),
)
.samples(sample)
.suits(suits_gradient)
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

super::forms! {
    /// The gradient of a convolution's input.
    conv2d_dx<T>(dy: [T; 4], w: [T; 4]; ints stride, pad) -> (dx: [T; 4])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, k, image: [h, w], out: [oh, ow], size, stride, pad } = Sizes::draw_convolution(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad]);
    sample.real([n, k, oh, ow]).real([k, c, size, size]).real([n, c, h, w])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (dy, w) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    for_each_index(dx.region(), |index| {
        let &[n, c, iy, ix] = index else { unreachable!("dx has four dimensions") };
        let mut sum = if call.accumulate() { dx.at([n, c, iy, ix]) } else { T::default() };
        for k in dy.region().range(1) {
            for ky in w.region().range(2) {
                let Some(oy) = window.output(iy, ky, &dy.region().range(2)) else { continue };
                for kx in w.region().range(3) {
                    if let Some(ox) = window.output(ix, kx, &dy.region().range(3)) {
                        sum += dy.at([n, k, oy, ox]) * w.at([k, c, ky, kx]);
                    }
                }
            }
        }
        dx.set([n, c, iy, ix], sum);
    });
    Ok(())
}
