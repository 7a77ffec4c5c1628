//! The gradient of a convolution's weights.
//!
//! `dw[k,c,ky,kx] = Σ_{n,oy,ox} x[n,c,oy*s+ky-p,ox*s+kx-p] dy[n,k,oy,ox]`, zero outside the image. Bytes: `x`
//! and `dy` read once at least, `dw` written.
//!
//! 5x5 taps take 70 multiplications for 100 (`winograd/weight_gradient`): `lenet5`'s second convolution takes
//! 55 µs for 16 samples, where the multiply-adds of the definition alone need 65.

mod flat;
pub(super) mod form;
mod lanes;

use super::real::Real;
use super::small_batch::suits_convolution;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `dw += x ⋆ dy`; integers: stride, padding.
pub static CODELET: Codelet = Codelet::new(
    "conv2d_dw",
    "x[n,c,iy,ix]?0 dy[n,k,oy,ox] -> dw[k,c,ky,kx] += where iy = oy*s+ky-p, ix = ox*s+kx-p",
    2.0,
    super::implementations!(reference, lanes::conv2d_dw, 5, [L L R]; flat::conv2d_dw, 1, [R R R]),
)
.samples(sample)
.suits(|by, task| suits_convolution(by, task, 2))
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

super::forms! {
    /// The gradient of a convolution's kernels.
    conv2d_dw<T>(x: [T; 4], dy: [T; 4]; ints stride, pad) -> (dw: [T; 4])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, k, image: [h, w], out: [oh, ow], size, stride, pad } = Sizes::draw_convolution(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad]);
    sample.real([n, c, h, w]).real([n, k, oh, ow]).real([k, c, size, size])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dw = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    for_each_index(dw.region(), |index| {
        let &[k, c, ky, kx] = index else { unreachable!("dw has four dimensions") };
        let mut sum = if call.accumulate() { dw.at([k, c, ky, kx]) } else { T::default() };
        for n in dy.region().range(0) {
            for oy in dy.region().range(2) {
                let Some(iy) = window.input(oy, ky, &rows) else { continue };
                for ox in dy.region().range(3) {
                    if let Some(ix) = window.input(ox, kx, &columns) {
                        sum += x.at([n, c, iy, ix]) * dy.at([n, k, oy, ox]);
                    }
                }
            }
        }
        dw.set([k, c, ky, kx], sum);
    });
    Ok(())
}
