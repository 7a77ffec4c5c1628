//! Samples one after another, window by window.

use super::checked_size;
use crate::real::Real;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn max_pool<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let size = checked_size(call.int(2))?;
    let (rows, columns) = (x.region().range(2), x.region().range(3));
    let [n_samples, n_channels, ..] = *y.region().shape() else { unreachable!("y has four dimensions") };
    let (oys, oxs) = (y.region().range(2), y.region().range(3));
    let (x, y, arg) = (x.contiguous(), y.contiguous(), arg.contiguous());
    let is_simple = !call.accumulate() && window.is_side_by_side(size, [&rows, &columns], [&oys, &oxs]);
    let mut at = 0;
    for plane in 0..n_samples * n_channels {
        let x = &x[plane * rows.len() * columns.len()..][..rows.len() * columns.len()];
        if is_simple {
            let len = oxs.len();
            for (oy, pair) in x.chunks_exact((2 * columns.len()).max(1)).take(oys.len()).enumerate() {
                let (top, bottom) = pair.split_at(columns.len());
                let first = at + oy * len;
                let to = y[first..][..len].iter_mut().zip(&mut arg[first..][..len]);
                let windows = top.as_chunks::<2>().0.iter().zip(bottom.as_chunks::<2>().0);
                for ((&[a, b], &[c, d]), (y, arg)) in windows.zip(to) {
                    let upper = better((a, 0), (b, 1));
                    (*y, *arg) = better(upper, better((c, 2), (d, 3)));
                }
            }
            at += oys.len() * len;
            continue;
        }
        for oy in oys.clone() {
            let kys = window.taps(oy, &(0..size), &rows);
            for ox in oxs.clone() {
                let mut best = call.accumulate().then(|| (y[at], arg[at]));
                for ky in kys.clone() {
                    let row = (oy * window.stride + ky - window.pad - rows.start) * columns.len();
                    for kx in window.taps(ox, &(0..size), &columns) {
                        let value = x[row + ox * window.stride + kx - window.pad - columns.start];
                        let next = (value, (ky * size + kx) as u8);
                        best = Some(best.map_or(next, |best| better(best, next)));
                    }
                }
                (y[at], arg[at]) = best.unwrap_or((T::NEG_INFINITY, 0));
                at += 1;
            }
        }
    }
    Ok(())
}

/// The larger of two values with their places; the earlier of equals, the later of two NaN.
#[inline(always)]
fn better<T: Real>(earlier: (T, u8), later: (T, u8)) -> (T, u8) {
    if later.0 > earlier.0 || later.0.is_nan() { later } else { earlier }
}
