//! Lanes over samples. In general every pixel gathers from the windows that cover it, in their order; 2x2
//! windows side by side cover each pixel once, and then each window writes its four pixels.

use crate::max_pool::checked_size;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(max_pool_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (arg, dy) = (call.input::<u8>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (dx.region().range(2), dx.region().range(3));
    let (oys, oxs) = (dy.region().range(2), dy.region().range(3));
    let n_planes = dx.region().shape()[0].div_ceil(T::LANES) * dx.region().shape()[1];
    let (height, width) = (rows.len(), columns.len());
    let (out_height, out_width) = (oys.len(), oxs.len());
    let (arg, dy) = (T::bytes(arg.contiguous()), T::lanes(dy.contiguous()));
    let dx = T::lanes_mut(dx.contiguous());
    let is_simple = !call.accumulate() && window.is_side_by_side(size, [&rows, &columns], [&oys, &oxs]);
    for plane in 0..n_planes {
        let arg = &arg[plane * out_height * out_width..][..out_height * out_width];
        let dy = &dy[plane * out_height * out_width..][..out_height * out_width];
        let dx = &mut dx[plane * height * width..][..height * width];
        if is_simple {
            side_by_side(s, arg, dy, dx, (out_height, out_width), width);
            continue;
        }
        for iy in rows.clone() {
            let y_windows = window.outputs(iy, size, &oys);
            for ix in columns.clone() {
                let pixel = &mut dx[(iy - rows.start) * width + ix - columns.start];
                let mut sum = if call.accumulate() { s.load(pixel) } else { s.zero() };
                for oy in y_windows.clone() {
                    for ox in window.outputs(ix, size, &oxs) {
                        let ky = iy + window.pad - oy * window.stride;
                        let kx = ix + window.pad - ox * window.stride;
                        let at = (oy - oys.start) * out_width + ox - oxs.start;
                        let place = s.splat_bytes((ky * size + kx) as u8);
                        let is_here = s.eq_bytes(s.load_bytes(&arg[at]), place);
                        sum = s.add(sum, s.select(is_here, s.load(&dy[at]), s.zero()));
                    }
                }
                s.store(sum, pixel);
            }
        }
    }
    Ok(())
}

/// One plane of 2x2 windows without gaps, whose first is at the first pixel; pixels beyond the last become
/// zero.
#[inline(always)]
fn side_by_side<T: Real, S: Simd<T>>(
    s: S,
    arg: &[T::Bytes],
    dy: &[T::Lanes],
    dx: &mut [T::Lanes],
    (out_height, out_width): (usize, usize),
    width: usize,
) {
    let (covered, beyond) = dx.split_at_mut(2 * out_height * width);
    beyond.fill(T::ZERO_LANES);
    for oy in 0..out_height {
        let (top, bottom) = covered[2 * oy * width..][..2 * width].split_at_mut(width);
        top[2 * out_width..].fill(T::ZERO_LANES);
        bottom[2 * out_width..].fill(T::ZERO_LANES);
        let windows = arg[oy * out_width..].iter().zip(&dy[oy * out_width..]);
        let pixels = top.as_chunks_mut::<2>().0.iter_mut().zip(bottom.as_chunks_mut::<2>().0);
        for ((arg, dy), (top, bottom)) in windows.zip(pixels).take(out_width) {
            let (place, gradient) = (s.load_bytes(arg), s.load(dy));
            let share = |i: u8| s.select(s.eq_bytes(place, s.splat_bytes(i)), gradient, s.zero());
            s.store(share(0), &mut top[0]);
            s.store(share(1), &mut top[1]);
            s.store(share(2), &mut bottom[0]);
            s.store(share(3), &mut bottom[1]);
        }
    }
}
