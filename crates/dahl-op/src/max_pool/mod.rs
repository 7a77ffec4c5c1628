//! Maximum over sliding windows, with the place where it was found.
//!
//! `y[n,c,oy,ox] = max x[n,c,oy*s+ky-p,ox*s+kx-p]` over `ky, kx < k` inside the image, and `arg = ky*k + kx`
//! of the maximum. As in PyTorch the first of equal values wins, a NaN beats every number and a later NaN an
//! earlier one. A window with no pixel inside the image gives minus infinity. Bytes: `x` read once, `y` and
//! one byte per output written.

mod flat;
pub(super) mod lanes;

use super::real::Real;
use super::window::{Sizes, Window};
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};
use dahl_runtime::{Error, ErrorKind, Result};

/// `y = max x` over windows; integers: stride, padding, window size.
pub static CODELET: Codelet = Codelet::new(
    "max_pool",
    "x[n,c,iy,ix]?-inf -> y[n,c,oy,ox] max= arg[n,c,oy,ox] where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k",
    1.0,
    super::implementations!(reference, lanes::max_pool, 1, [L L L]; flat::max_pool, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// The maximum of each window of `size` x `size` pixels, and its place in the window.
    max_pool<T>(x: [T; 4]; ints stride, pad, size) -> (y: [T; 4], arg: [u8; 4]), init max_pool_init
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, image: [h, w], out: [oh, ow], size, stride, pad, .. } = Sizes::draw(draw);
    let sample = Sample::new(Tolerance::Exact).ints(&[stride, pad, size]).ties([n, c, h, w]);
    sample.real([n, c, oh, ow]).below(Dtype::U8, [n, c, oh, ow], size * size)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    for_each_index(y.region(), |index| {
        let &[n, c, oy, ox] = index else { unreachable!("y has four dimensions") };
        let at = [n, c, oy, ox];
        let mut best = if call.accumulate() { Some((y.at(at), arg.at(at))) } else { None };
        for ky in 0..size {
            let Some(iy) = window.input(oy, ky, &rows) else { continue };
            for kx in 0..size {
                let Some(ix) = window.input(ox, kx, &columns) else { continue };
                let value = x.at([n, c, iy, ix]);
                if best.is_none_or(|(maximum, _)| value > maximum || value.is_nan()) {
                    best = Some((value, (ky * size + kx) as u8));
                }
            }
        }
        let (maximum, place) = best.unwrap_or((T::NEG_INFINITY, 0));
        y.set(at, maximum);
        arg.set(at, place);
    });
    Ok(())
}

/// The window size, if places in the window fit the byte that records them.
pub(super) fn checked_size(size: usize) -> Result<usize> {
    if size * size <= 256 {
        return Ok(size);
    }
    let message =
        format!("pooling windows are at most 16x16, because places in them are bytes, not {size}x{size}");
    Err(Error::new(ErrorKind::Shape, message))
}
