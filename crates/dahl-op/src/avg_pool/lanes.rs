//! Lanes over samples: one chain of additions per window, in the order of its pixels, and one division.

use super::pixels;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(avg_pool, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let (stride, pad, size) = (call.int(0), call.int(1), call.int(2));
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    let (oys, oxs) = (y.region().range(2), y.region().range(3));
    let (height, width) = (rows.len(), columns.len());
    let n_planes = y.region().shape()[0].div_ceil(T::LANES) * y.region().shape()[1];
    let (window, all) = (Window { stride, pad }, 0..size);
    let divisor = s.splat(pixels(size));
    let x = T::lanes(x.contiguous());
    let y = T::lanes_mut(y.contiguous());
    for plane in 0..n_planes {
        let x = &x[plane * height * width..][..height * width];
        for oy in oys.clone() {
            let y = &mut y[(plane * oys.len() + oy - oys.start) * oxs.len()..][..oxs.len()];
            let kys = window.taps(oy, &all, &rows);
            for (ox, y) in oxs.clone().zip(y) {
                let kxs = window.taps(ox, &all, &columns);
                let mut sum = s.zero();
                if !kxs.is_empty() {
                    let first = ox * stride + kxs.start - pad - columns.start;
                    for ky in kys.clone() {
                        let row = oy * stride + ky - pad - rows.start;
                        for value in &x[row * width + first..][..kxs.len()] {
                            sum = s.add(sum, s.load(value));
                        }
                    }
                }
                s.store(s.div(sum, divisor), y);
            }
        }
    }
    Ok(())
}
