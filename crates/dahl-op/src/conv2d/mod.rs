//! Two-dimensional convolution (cross-correlation, as in PyTorch) with bias.
//!
//! `y[n,k,oy,ox] = b[k] + Σ_{c,ky,kx} x[n,c,oy*s+ky-p,ox*s+kx-p] w[k,c,ky,kx]`, zero outside the image. A
//! task may cover a part of the channels `c` and add to what the others left; the one that has the first tap
//! of channel 0 adds the bias. Bytes: `x`, `w` and `b` read once, `y` written once (and read, when
//! accumulating).

pub(super) mod lanes;

use super::real::Real;
use super::small_batch::suits_convolution;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `y = b + x ⋆ w`; integers: stride, padding.
pub static CODELET: Codelet = Codelet::new(
    "conv2d",
    "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky-p, ix = ox*s+kx-p",
    2.0,
    super::implementations!(reference, lanes::conv2d, 5, [L R R L]; lanes::flat, 1, [R R R R]),
)
.samples(sample)
.suits(|by, task| suits_convolution(by, task, 1))
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

super::forms! {
    /// Convolution of images `x[n,c,y,x]` with kernels `w[k,c,y,x]`, plus a bias per kernel.
    conv2d<T>(x: [T; 4], w: [T; 4], b: [T; 1]; ints stride, pad) -> (y: [T; 4]), init conv2d_init
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, k, image: [h, w], out: [oh, ow], size, stride, pad } = Sizes::draw_convolution(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad]);
    sample.real([n, c, h, w]).real([k, c, size, size]).real([k]).real([n, k, oh, ow])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut y = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let (channels, rows, columns) = (x.region().range(1), x.region().range(2), x.region().range(3));
    let has_bias = w.region().lo()[1..] == [0, 0, 0];
    for_each_index(y.region(), |index| {
        let &[n, k, oy, ox] = index else { unreachable!("y has four dimensions") };
        let mut sum = if call.accumulate() { y.at([n, k, oy, ox]) } else { T::default() };
        if has_bias {
            sum += b.at([k]);
        }
        for c in channels.clone() {
            for ky in w.region().range(2) {
                let Some(iy) = window.input(oy, ky, &rows) else { continue };
                for kx in w.region().range(3) {
                    if let Some(ix) = window.input(ox, kx, &columns) {
                        sum += x.at([n, c, iy, ix]) * w.at([k, c, ky, kx]);
                    }
                }
            }
        }
        y.set([n, k, oy, ox], sum);
    });
    Ok(())
}
