//! Convolution, bias, max pooling without padding and ReLU in one pass, without the convolution's output in
//! between.
//!
//! `y[n,k,py,px] = max(0, max c[n,k,py*t+qy,px*t+qx])` over `qy, qx < q`, where `c` is what `conv2d` gives.
//! `arg = qy*q + qx` is the place of the maximum, or `q*q` where ReLU lets no gradient through, so that `arg`
//! alone says where gradients go. Neither channels nor windows are split: a partial sum cannot go through
//! maximum and ReLU.
//!
//! The bits are those of the three operations one after the other, for up to 256 taps, as fusion has them
//! (more make `conv2d` add up in another way): the sums run in the same order, and the rest is exact. The
//! reference rounds like the fast version, once per multiply-add, because of two sums that are nearly equal,
//! rounding decides which is the maximum; but for 5x5 taps, whose sums have other roundings (`winograd/`).
//!
//! Bytes: `x`, `w` and `b` read once, `y` and one byte per output written. For `seed`, that is 160 KB for 16
//! samples instead of 940 KB, and the 1.56 MFLOP of the convolution are what takes the time. It pays where
//! pooling is a large part: a third of the time for `seed`, 6 % for the first layer of `lenet5`, 2 % for its
//! second.

mod direct;
mod lanes;
mod largest;

pub(crate) use largest::largest;

use super::real::Real;
use super::small_batch::suits_convolution;
use super::window::Window;
use super::{conv2d, convolve, max_pool, max_pool_backward, relu, relu_backward};
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::graph::{Found, Fusion, TaskPattern};
use dahl_runtime::{Error, ErrorKind, Result};

/// `y = max(0, max(b + x ⋆ w))`; integers: stride and padding of the convolution, stride and size of the
/// pool.
pub static CODELET: Codelet = Codelet::new(
    "conv2d_relu_max_pool",
    "x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,py,px] arg[n,k,py,px] \
     where iy = oy*s+ky-p, ix = ox*s+kx-p, oy = py*t+qy, ox = px*t+qx, qy<q, qx<q",
    2.0,
    super::implementations!(reference, lanes::conv2d_relu_max_pool, 6, [L R R L L]; lanes::flat, 1, [R R R R R]),
)
.samples(sample)
.suits(|by, task| suits_convolution(by, task, 1))
.algorithms(super::algorithm::algorithms!(lanes::algorithms))
.scratch(super::scratch::scratch!(lanes::scratch_len));

/// What it takes the place of. Layers record the maximum before ReLU. It pays where pooling is a large part:
/// a third of the time for `seed`, 6 % for the first convolution of `lenet5`, 2 % for its second.
pub(super) static FUSION: Fusion = Fusion {
    name: "conv2d_relu_max_pool",
    given: &[],
    replaces: &[
        TaskPattern::new(&conv2d::CODELET, "x w b -> c", "s p"),
        TaskPattern::new(&max_pool::CODELET, "c -> m arg", "t 0 q"),
        TaskPattern::new(&relu::CODELET, "m -> y", ""),
    ],
    with: &[TaskPattern::new(&CODELET, "x w b -> y arg", "s p t q")],
    when: pays,
};

/// What becomes of the gradients of pool and ReLU, where they are not fused with that of the weights: `arg`
/// alone says where there is one.
pub(super) static FUSION_BACKWARD: Fusion = Fusion {
    name: "conv2d_relu_max_pool backward",
    given: &[TaskPattern::new(&CODELET, "x w b -> y arg", "s p t q")],
    replaces: &[
        TaskPattern::new(&relu_backward::CODELET, "y dy -> dm", ""),
        TaskPattern::new(&max_pool_backward::CODELET, "arg dm -> dc", "t 0 q"),
    ],
    with: &[TaskPattern::new(&max_pool_backward::CODELET, "arg dy -> dc", "t 0 q")],
    when: |_| true,
};

/// Where windows overlap, their outputs would be computed several times; where the weights of a block of
/// kernels do not stay at hand, they would be fetched for every row. `Convolution::suits_winograd` relies on
/// the same limit. For 5x5 taps it computes two by two outputs at a time, so that other windows are not
/// fused, for the sake of the same bits.
fn pays(found: &Found) -> bool {
    let (Ok(stride), Ok(size), Ok(w)) = (found.int("t"), found.int("q"), found.var("w")) else {
        return false;
    };
    let taps: usize = w.shape()[1..].iter().product();
    let is_tiled = w.shape()[2..] != [5, 5] || [stride, size] == [2, 2];
    stride >= size && size <= 15 && taps <= convolve::STACK_TAPS && is_tiled
}

super::forms! {
    /// Convolution of images `x[n,c,y,x]` with kernels `w[k,c,y,x]`, plus a bias per kernel, then the maximum
    /// of each window of `size` x `size` pixels, or zero if that is larger, and the place of the maximum.
    conv2d_relu_max_pool<T>(x: [T; 4], w: [T; 4], b: [T; 1]; ints stride, pad, pool_stride, size)
        -> (y: [T; 4], arg: [u8; 4])
}

/// The extents of a sample call of this operation or of its gradient.
pub(super) struct Sizes {
    /// Those of the convolution; `out` is that of the pool.
    pub(super) conv: super::window::Sizes,
    pub(super) ints: [usize; 4],
}

impl Sizes {
    /// Pools that overlap, touch or leave gaps, and need not divide what is under them; often the usual ones,
    /// which have kernels of their own.
    pub(super) fn draw(draw: &mut Draw) -> Self {
        use super::window::Sizes as Windows;
        let kind = draw.below(8);
        let is_usual = kind < 5;
        let mut conv = match kind {
            0 => Windows::draw_five(draw),
            1..5 => Windows::draw_usual(draw),
            _ => Windows::draw(draw),
        };
        let (size, stride) = if is_usual { (2, 2) } else { (draw.between(1, 3), draw.between(1, 3)) };
        for (image, out) in conv.image.iter_mut().zip(&mut conv.out) {
            while *out < size {
                *image += conv.stride;
                *out += 1;
            }
            *out = (*out - size) / stride + 1;
        }
        let ints = [conv.stride, conv.pad, stride, size];
        Sizes { conv, ints }
    }
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { conv, ints } = Sizes::draw(draw);
    let super::window::Sizes { n, c, k, image: [h, w], out: [oh, ow], size, .. } = conv;
    let sample = Sample::new(Tolerance::Exact).ints(&ints);
    // Five taps may be added up in another order, so that only sums without rounding are the same.
    let sample = if size == 5 {
        sample.ties([n, c, h, w]).ties([k, c, size, size]).ties([k])
    } else {
        sample.real([n, c, h, w]).real([k, c, size, size]).real([k])
    };
    sample.real([n, k, oh, ow]).below(Dtype::U8, [n, k, oh, ow], ints[3] * ints[3] + 1)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let (window, pool) = (Window { stride: call.int(0), pad: call.int(1) }, call.int(2));
    let size = checked_size(call.int(3))?;
    let (channels, rows, columns) = (x.region().range(1), x.region().range(2), x.region().range(3));
    for_each_index(y.region(), |index| {
        let &[n, k, py, px] = index else { unreachable!("y has four dimensions") };
        let mut best = (T::NEG_INFINITY, None);
        for place in 0..size * size {
            let (oy, ox) = (py * pool + place / size, px * pool + place % size);
            let mut sum = b.at([k]);
            for c in channels.clone() {
                for ky in w.region().range(2) {
                    let Some(iy) = window.input(oy, ky, &rows) else { continue };
                    for kx in w.region().range(3) {
                        if let Some(ix) = window.input(ox, kx, &columns) {
                            sum = w.at([k, c, ky, kx]).fused(x.at([n, c, iy, ix]), sum);
                        }
                    }
                }
            }
            if best.1.is_none() || sum > best.0 || sum.is_nan() {
                best = (sum, Some(place));
            }
        }
        let rectified = if T::default() > best.0 { T::default() } else { best.0 };
        let place = best.1.filter(|_| rectified > T::default()).unwrap_or(size * size);
        y.set([n, k, py, px], rectified);
        arg.set([n, k, py, px], place as u8);
    });
    Ok(())
}

/// The window size, if places in the window and the one that means none fit the byte that records them.
pub(super) fn checked_size(size: usize) -> Result<usize> {
    if size * size < 256 {
        return Ok(size);
    }
    let message = format!(
        "fused pooling windows are at most 15x15, because places in them are bytes, not {size}x{size}"
    );
    Err(Error::new(ErrorKind::Shape, message))
}
