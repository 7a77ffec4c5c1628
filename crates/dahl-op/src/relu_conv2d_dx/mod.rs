//! The gradient of what a ReLU with a convolution after it gets, in one pass: that of the convolution's
//! input, where ReLU let it through.
//!
//! `dx[n,c,iy,ix] = Σ_{k,ky,kx} dy[n,k,oy,ox] w[k,c,ky,kx]` over the windows that cover the pixel, as in
//! `conv2d_dx`, where `y[n,c,iy,ix] > 0`, and else 0; `y` is what ReLU gave. A task may cover a part of the
//! output channels `k` and add to what the others left, as what ReLU let through does not depend on them. The
//! bits are those of the two operations one after the other. Bytes: `dy`, `w` and `y` read once, `dx` written
//! once; the gradient of ReLU by itself would read and write `dx` again.

mod lanes;

use super::real::Real;
use super::small_batch::suits_gradient;
use super::window::{Sizes, Window};
use super::{conv2d_dx, relu_backward};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::graph::{Fusion, TaskPattern};

/// `dx = (dy ⋆ᵀ w) · [y > 0]`; integers: stride, padding.
pub static CODELET: Codelet = Codelet::new(
    "relu_conv2d_dx",
    "dy[n,k,oy,ox] w[k,c,ky,kx] y[n,c,iy,ix] -> dx[n,c,iy,ix] += where iy = oy*s+ky-p, ix = ox*s+kx-p",
    2.0,
    super::implementations!(reference, lanes::relu_conv2d_dx, 5, [L R L L]; lanes::flat, 1, [R R R R]),
)
.samples(sample)
.suits(suits_gradient)
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

/// What it takes the place of. It always pays: looking at `y` is nothing beside the multiply-adds, and a pass
/// over `dx` is saved. With a stride there may be pixels under no window, of which the codelet would not see
/// `y`.
pub(super) static FUSION: Fusion = Fusion {
    name: "relu_conv2d_dx",
    given: &[],
    replaces: &[
        TaskPattern::new(&conv2d_dx::CODELET, "dc w -> dy", "s p"),
        TaskPattern::new(&relu_backward::CODELET, "y dy -> dx", ""),
    ],
    with: &[TaskPattern::new(&CODELET, "dc w y -> dx", "s p")],
    when: |found| found.int("s").is_ok_and(|stride| stride == 1),
};

super::forms! {
    /// The gradient of a convolution's input where `y`, that input, is positive, else 0: what a rectifier
    /// before the convolution passes on.
    relu_conv2d_dx<T>(dy: [T; 4], w: [T; 4], y: [T; 4]; ints stride, pad) -> (dx: [T; 4])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, k, image: [h, w], out: [oh, ow], size, stride, pad } = Sizes::draw_convolution(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad]);
    sample.real([n, k, oh, ow]).real([k, c, size, size]).real([n, c, h, w]).real([n, c, h, w])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (dy, w, y) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    for_each_index(dx.region(), |index| {
        let &[n, c, iy, ix] = index else { unreachable!("dx has four dimensions") };
        let before = if call.accumulate() { dx.at([n, c, iy, ix]) } else { T::default() };
        // A pixel under no window has no gradient, and its `y` is not there.
        if !(0..4).all(|dim| y.region().range(dim).contains(&index[dim])) {
            return dx.set([n, c, iy, ix], before);
        }
        let mut sum = before;
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
        dx.set([n, c, iy, ix], if y.at([n, c, iy, ix]) > T::default() { sum } else { before });
    });
    Ok(())
}
