//! Lanes over samples: every pixel gathers from the windows that cover it, in their order, and divides once.

use crate::avg_pool::pixels;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(avg_pool_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let dy = call.input::<T>(0);
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = call.int(2);
    let (rows, columns) = (dx.region().range(2), dx.region().range(3));
    let (oys, oxs) = (dy.region().range(2), dy.region().range(3));
    let n_planes = dx.region().shape()[0].div_ceil(T::LANES) * dx.region().shape()[1];
    let (height, width) = (rows.len(), columns.len());
    let (out_height, out_width) = (oys.len(), oxs.len());
    let divisor = s.splat(pixels(size));
    let dy = T::lanes(dy.contiguous());
    let dx = T::lanes_mut(dx.contiguous());
    for plane in 0..n_planes {
        let dy = &dy[plane * out_height * out_width..][..out_height * out_width];
        let dx = &mut dx[plane * height * width..][..height * width];
        for iy in rows.clone() {
            let y_windows = window.outputs(iy, size, &oys);
            let dx = &mut dx[(iy - rows.start) * width..][..width];
            for (ix, pixel) in columns.clone().zip(dx) {
                let x_windows = window.outputs(ix, size, &oxs);
                let mut sum = s.zero();
                if !x_windows.is_empty() {
                    for oy in y_windows.clone() {
                        let first = (oy - oys.start) * out_width + x_windows.start - oxs.start;
                        for gradient in &dy[first..][..x_windows.len()] {
                            sum = s.add(sum, s.load(gradient));
                        }
                    }
                }
                let start = if call.accumulate() { s.load(pixel) } else { s.zero() };
                s.store(s.add(start, s.div(sum, divisor)), pixel);
            }
        }
    }
    Ok(())
}
