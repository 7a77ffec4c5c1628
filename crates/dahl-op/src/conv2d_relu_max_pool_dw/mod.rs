//! The gradients of weights and bias of a convolution that is followed by max pooling and ReLU, straight from
//! the pooled gradient, without the gradient in between.
//!
//! `dw[k,c,ky,kx] = Σ dy[n,k,py,px] x[n,c,oy*s+ky-p,ox*s+kx-p]` and `db[k] = Σ dy[n,k,py,px]`, where
//! `oy = py*t+qy`, `ox = px*t+qx`, and `arg[n,k,py,px] = qy*q+qx` is what `conv2d_relu_max_pool` left;
//! windows whose `arg` is `q*q` have no gradient. Elsewhere in a window the gradient is zero, and is added as
//! such or not at all. A task may cover a part of the channels `c` or of the taps; the one that has the first
//! tap of channel 0 sums up the bias.
//!
//! Where windows do not overlap, the bits are those of the gradients of ReLU, pool, weights and bias one
//! after the other: the sums run in the same order, and what is left out is zero.
//!
//! Bytes: `x`, `dy` and `arg` read once at least, `dw` and `db` written. For `seed`, that is 160 KB for 16
//! samples instead of a gradient of 346 KB that is written once and read four times, and a unit that takes
//! the task over from another needs to fetch no more than that.
//!
//! Of a window's two by two places at most one has a gradient, but lanes have theirs where they like. Where
//! the convolution moves by one, a row of a window takes one multiply-add and one selection per tap instead
//! of two multiply-adds, which units that can do both at once do in half the time. 5x5 taps take 35
//! multiply-adds and as many selections per window instead of 100 multiply-adds (`winograd/`):
//! `lenet5`'s two take 26 and 39 µs for 16 samples where the multiply-adds of the full gradients alone need
//! 32 and 65. Rates count the arithmetic of the full gradient, so they may be above the peak.

mod flat;
mod lanes;

use super::conv2d_relu_max_pool::{Sizes, checked_size};
use super::real::Real;
use super::small_batch::suits_convolution;
use super::window::Window;
use super::{
    channel_sum, conv2d_dw, conv2d_relu_max_pool, convolve, max_pool_backward, relu_backward, window,
};
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::graph::{Found, Fusion, TaskPattern};

/// `dw += x ⋆ dy`, `db += Σ dy` at the places in `arg`; integers: stride and padding of the convolution,
/// stride and size of the pool.
pub static CODELET: Codelet = Codelet::new(
    "conv2d_relu_max_pool_dw",
    "x[n,c,iy,ix]?0 dy[n,k,py,px] arg[n,k,py,px] -> dw[k,c,ky,kx] += db[k] += \
     where iy = oy*s+ky-p, ix = ox*s+kx-p, oy = py*t+qy, ox = px*t+qx, qy<q, qx<q",
    2.0,
    super::implementations!(reference, lanes::conv2d_relu_max_pool_dw, 5, [L L L R R]; flat::conv2d_relu_max_pool_dw, 1, [R R R R R]),
)
.samples(sample)
.suits(|by, task| suits_convolution(by, task, 3))
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

/// What it takes the place of in a first layer, whose input has no gradient.
pub(super) static FUSION: Fusion = Fusion {
    name: "conv2d_relu_max_pool_dw",
    given: &[TaskPattern::new(&conv2d_relu_max_pool::CODELET, "x w b -> y arg", "s p t q")],
    replaces: &[
        TaskPattern::new(&relu_backward::CODELET, "y dy -> dm", ""),
        TaskPattern::new(&max_pool_backward::CODELET, "arg dm -> dc", "t 0 q"),
        TaskPattern::new(&conv2d_dw::CODELET, "x dc -> dw", "s p"),
        TaskPattern::new(&channel_sum::CODELET, "dc -> db", ""),
    ],
    with: &[TaskPattern::new(&CODELET, "x dy arg -> dw db", "s p t q")],
    when: pays,
};

/// What it takes the place of in other layers, where the gradient of the convolution's output stays for that
/// of its input.
pub(super) static FUSION_INNER: Fusion = Fusion {
    name: "conv2d_relu_max_pool_dw inner",
    given: &[TaskPattern::new(&max_pool_backward::CODELET, "arg dy -> dc", "t 0 q")],
    replaces: &[
        TaskPattern::new(&conv2d_dw::CODELET, "x dc -> dw", "s p"),
        TaskPattern::new(&channel_sum::CODELET, "dc -> db", ""),
    ],
    with: &[TaskPattern::new(&CODELET, "x dy arg -> dw db", "s p t q")],
    when: selects_pixels,
};

/// Selecting gradients costs about a fifth of the multiply-adds of each input channel; what it saves does not
/// grow with the channels. Selecting pixels pays with any number.
fn pays(found: &Found) -> bool {
    let is_small = found.var("w").is_ok_and(|w| w.shape()[1..].iter().product::<usize>() <= 25);
    is_small || selects_pixels(found)
}

/// Whether pixels are selected instead of gradients, which takes a copy of a plane with padding and a sum per
/// weight of it; and whether there are enough windows for that to pay. The separate gradient of very many
/// weights may be summed whole, and this one, with its bias, is always added up from parts; so that one is
/// left alone, for the sake of the same bits.
fn selects_pixels(found: &Found) -> bool {
    let is = |name, value| found.int(name).is_ok_and(|int| int == value);
    let (Ok(dw), Ok(dy)) = (found.var("dw"), found.var("dy")) else { return false };
    let [dw, dy] = [dw.shape(), dy.shape()];
    let [n_kernels, _, size, width] = *dw else { return false };
    let plane: usize = dy[2..].iter().map(|windows| 2 * windows + size - 1).product();
    let is_usual = is("s", 1) && is("t", 2) && is("q", 2) && size == width && [3, 5].contains(&size);
    let is_little = plane + n_kernels * size * size <= convolve::RESIDENT;
    let has_parts = !found.may_sum_whole(&conv2d_dw::CODELET);
    is_usual && is_little && has_parts && dy[2..].iter().product::<usize>() >= 25
}

super::forms! {
    /// The gradients of kernels and bias of a convolution with max pooling and ReLU after it, from the
    /// gradient `dy` of the pooled result and the places `arg` of the maxima.
    conv2d_relu_max_pool_dw<T>(x: [T; 4], dy: [T; 4], arg: [u8; 4]; ints stride, pad, pool_stride, size)
        -> (dw: [T; 4], db: [T; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { conv, ints } = Sizes::draw(draw);
    let window::Sizes { n, c, k, image: [h, w], out: [oh, ow], size, .. } = conv;
    let sample = Sample::new(Tolerance::Sum).ints(&ints).real([n, c, h, w]).real([n, k, oh, ow]);
    let sample = sample.below(Dtype::U8, [n, k, oh, ow], ints[3] * ints[3] + 1);
    sample.real([k, c, size, size]).real([k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let (window, pool) = (Window { stride: call.int(0), pad: call.int(1) }, call.int(2));
    let size = checked_size(call.int(3))?;
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    let [samples, pys, pxs] = [0, 2, 3].map(|dim| dy.region().range(dim));
    for_each_index(dw.region(), |index| {
        let &[k, c, ky, kx] = index else { unreachable!("dw has four dimensions") };
        let mut sum = if call.accumulate() { dw.at([k, c, ky, kx]) } else { T::default() };
        for n in samples.clone() {
            for py in pys.clone() {
                for px in pxs.clone() {
                    for place in 0..size * size {
                        let (oy, ox) = (py * pool + place / size, px * pool + place % size);
                        let (Some(iy), Some(ix)) =
                            (window.input(oy, ky, &rows), window.input(ox, kx, &columns))
                        else {
                            continue;
                        };
                        let is_here = usize::from(arg.at([n, k, py, px])) == place;
                        let gradient = if is_here { dy.at([n, k, py, px]) } else { T::default() };
                        sum += x.at([n, c, iy, ix]) * gradient;
                    }
                }
            }
        }
        dw.set([k, c, ky, kx], sum);
    });
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    for k in db.region().range(0) {
        let mut sum = if call.accumulate() { db.at([k]) } else { T::default() };
        for n in samples.clone().filter(|_| has_bias) {
            for py in pys.clone() {
                for px in pxs.clone() {
                    if usize::from(arg.at([n, k, py, px])) < size * size {
                        sum += dy.at([n, k, py, px]);
                    }
                }
            }
        }
        db.set([k], sum);
    }
    Ok(())
}
