//! Mean over sliding windows.
//!
//! `y[n,c,oy,ox] = Σ x[n,c,oy*s+ky-p,ox*s+kx-p] / k²` over `ky, kx < k`. Padding counts as zeros, so that
//! every window divides by the same number, as in PyTorch by default. Windows stay whole, so that each is
//! divided once. Bytes: `x` read once, `y` written once.

mod lanes;

use super::real::Real;
use super::window::{Sizes, Window};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, for_each_index};

/// `y = mean x` over windows; integers: stride, padding, window size.
pub static CODELET: Codelet = Codelet::new(
    "avg_pool",
    "x[n,c,iy,ix]?0 -> y[n,c,oy,ox] where iy = oy*s+ky-p, ix = ox*s+kx-p, ky<k, kx<k",
    1.0,
    super::implementations!(reference, lanes::avg_pool, 1, [L L]),
)
.samples(sample);

super::forms! {
    /// The mean of each window of `size` x `size` pixels; padding counts as zeros.
    avg_pool<T>(x: [T; 4]; ints stride, pad, size) -> (y: [T; 4]), init avg_pool_init
}

fn sample(draw: &mut Draw) -> Sample {
    let Sizes { n, c, image: [h, w], out: [oh, ow], size, stride, pad, .. } = Sizes::draw(draw);
    let sample = Sample::new(Tolerance::Sum).ints(&[stride, pad, size]);
    sample.real([n, c, h, w]).real([n, c, oh, ow])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = call.int(2);
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    for_each_index(y.region(), |index| {
        let &[n, c, oy, ox] = index else { unreachable!("y has four dimensions") };
        let mut sum = T::default();
        for ky in 0..size {
            let Some(iy) = window.input(oy, ky, &rows) else { continue };
            for kx in 0..size {
                if let Some(ix) = window.input(ox, kx, &columns) {
                    sum += x.at([n, c, iy, ix]);
                }
            }
        }
        y.set([n, c, oy, ox], sum / pixels(size));
    });
    Ok(())
}

/// How many pixels a window has, padding included.
pub(super) fn pixels<T: Real>(size: usize) -> T {
    T::from_f64((size * size) as f64)
}
