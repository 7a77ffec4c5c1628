//! Convolution, bias and ReLU in one pass.
//!
//! `y[n,k,oy,ox] = max(0, b[k] + Σ_{c,ky,kx} x[n,c,oy*s+ky-p,ox*s+kx-p] w[k,c,ky,kx])`, zero outside the
//! image. Channels are not split: a partial sum cannot go through ReLU. The bits are those of the two
//! operations one after the other. Bytes: `x`, `w` and `b` read once, `y` written once; ReLU by itself would
//! read and write `y` again.

mod lanes;

use super::real::Real;
use super::small_batch::suits_convolution;
use super::window::{Sizes, Window};
use super::{conv2d, relu};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::graph::{Fusion, TaskPattern};

/// `y = max(0, b + x ⋆ w)`; integers: stride, padding.
pub static CODELET: Codelet = Codelet::new(
    "conv2d_relu",
    "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] where iy = oy*s+ky-p, ix = ox*s+kx-p",
    2.0,
    super::implementations!(reference, lanes::conv2d_relu, 4, [L R R L]; lanes::flat, 1, [R R R R]),
)
.samples(sample)
.suits(|by, task| suits_convolution(by, task, 1))
.algorithms(super::algorithm::algorithms!(conv2d::lanes::algorithms))
.scratch(super::scratch::scratch!(conv2d::lanes::scratch_len));

/// What it takes the place of. It always pays: ReLU is nothing beside the multiply-adds, and a pass over `y`
/// is saved.
pub(super) static FUSION: Fusion = Fusion {
    name: "conv2d_relu",
    given: &[],
    replaces: &[
        TaskPattern::new(&conv2d::CODELET, "x w b -> c", "s p"),
        TaskPattern::new(&relu::CODELET, "c -> y", ""),
    ],
    with: &[TaskPattern::new(&CODELET, "x w b -> y", "s p")],
    when: |_| true,
};

super::forms! {
    /// Convolution of images `x[n,c,y,x]` with kernels `w[k,c,y,x]`, plus a bias per kernel, or zero if that
    /// is larger.
    conv2d_relu<T>(x: [T; 4], w: [T; 4], b: [T; 1]; ints stride, pad) -> (y: [T; 4])
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
    for_each_index(y.region(), |index| {
        let &[n, k, oy, ox] = index else { unreachable!("y has four dimensions") };
        let mut sum = b.at([k]);
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
        y.set([n, k, oy, ox], if T::default() > sum { T::default() } else { sum });
    });
    Ok(())
}
