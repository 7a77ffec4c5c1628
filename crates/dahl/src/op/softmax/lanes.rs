//! Lanes over samples: maximum, powers and their sum per class vector. `y` holds the powers until their sum is known.
//! Padding lanes are computed along, which harms nobody.

use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(softmax, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut y = call.output::<T>(0);
    let n_classes = x.region().shape()[1];
    if n_classes == 0 {
        return Ok(());
    }
    let x = T::lanes(x.contiguous());
    let y = T::lanes_mut(y.contiguous());
    for (x, y) in x.chunks_exact(n_classes).zip(y.chunks_exact_mut(n_classes)) {
        let mut maximum = s.splat(T::NEG_INFINITY);
        for value in x {
            let value = s.load(value);
            maximum = s.select(s.beats(value, maximum), value, maximum);
        }
        let mut sum = s.zero();
        for (value, power) in x.iter().zip(y.iter_mut()) {
            s.store(s.sub(s.load(value), maximum), power);
            for lane in power.as_mut() {
                *lane = lane.exponential();
            }
            sum = s.add(sum, s.load(power));
        }
        for power in y {
            s.store(s.div(s.load(power), sum), power);
        }
    }
    Ok(())
}
