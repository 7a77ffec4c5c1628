//! Lanes over samples: the maximum so far and its place, a byte per lane, in two registers. The common 2x2
//! windows side by side have a path without clipping.

use super::checked_size;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(max_pool, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    let (oys, oxs) = (y.region().range(2), y.region().range(3));
    let (height, width) = (rows.len(), columns.len());
    let n_planes = y.region().shape()[0].div_ceil(T::LANES) * y.region().shape()[1];
    let all = 0..size;
    let x = T::lanes(x.contiguous());
    let (y, arg) = (T::lanes_mut(y.contiguous()), T::bytes_mut(arg.contiguous()));
    let is_simple = size == 2 && window.stride == 2 && !call.accumulate();
    for plane in 0..n_planes {
        let x = &x[plane * height * width..][..height * width];
        for oy in oys.clone() {
            let out_row = (plane * oys.len() + oy - oys.start) * oxs.len();
            let y = &mut y[out_row..][..oxs.len()];
            let arg = &mut arg[out_row..][..oxs.len()];
            let kys = window.taps(oy, &all, &rows);
            let row = |ky: usize| &x[(oy * window.stride + ky - window.pad - rows.start) * width..][..width];
            let interior = if is_simple && kys == all { window.interior(&oxs, &all, &columns) } else { 0..0 };
            if !interior.is_empty() {
                let from = interior.start * 2 - window.pad - columns.start;
                let (top, _) = row(0)[from..].as_chunks::<2>();
                let (bottom, _) = row(1)[from..].as_chunks::<2>();
                let outputs = interior.start - oxs.start..interior.end - oxs.start;
                let out = y[outputs.clone()].iter_mut().zip(&mut arg[outputs]);
                for ((top, bottom), (y, arg)) in top.iter().zip(bottom).zip(out) {
                    // The winners of both rows, then the winner of those: shorter than one chain of four.
                    let upper = better(s, candidate(s, &top[0], 0), candidate(s, &top[1], 1));
                    let lower = better(s, candidate(s, &bottom[0], 2), candidate(s, &bottom[1], 3));
                    let best = better(s, upper, lower);
                    s.store(best.0, y);
                    s.store_bytes(best.1, arg);
                }
            }
            let (left, right) = if interior.is_empty() {
                (oxs.clone(), 0..0)
            } else {
                (oxs.start..interior.start, interior.end..oxs.end)
            };
            for ox in left.chain(right) {
                let at = ox - oxs.start;
                let mut best = None;
                if call.accumulate() {
                    best = Some((s.load(&y[at]), s.load_bytes(&arg[at])));
                }
                for ky in kys.clone() {
                    for kx in window.taps(ox, &all, &columns) {
                        let value = &row(ky)[ox * window.stride + kx - window.pad - columns.start];
                        let next = candidate(s, value, ky * size + kx);
                        best = Some(match best {
                            Some(best) => better(s, best, next),
                            None => next,
                        });
                    }
                }
                let (maximum, place) = best.unwrap_or((s.splat(T::NEG_INFINITY), s.splat_bytes(0)));
                s.store(maximum, &mut y[at]);
                s.store_bytes(place, &mut arg[at]);
            }
        }
    }
    Ok(())
}

/// A value and its place in the window.
#[inline(always)]
pub(crate) fn candidate<T: Real, S: Simd<T>>(s: S, value: &T::Lanes, place: usize) -> (S::V, S::B) {
    (s.load(value), s.splat_bytes(place as u8))
}

/// The larger of two values with their places, lane by lane; the earlier of equals, the later of two NaN.
#[inline(always)]
pub(crate) fn better<T: Real, S: Simd<T>>(s: S, earlier: (S::V, S::B), later: (S::V, S::B)) -> (S::V, S::B) {
    let wins = s.beats(later.0, earlier.0);
    (s.select(wins, later.0, earlier.0), s.select_bytes(wins, later.1, earlier.1))
}
