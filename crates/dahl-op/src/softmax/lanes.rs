//! Lanes over samples: maximum, powers and their sum per class vector. `y` holds the powers until their sum
//! is known. Padding lanes are computed along, which harms nobody.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
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
    let (x, mut y) = (T::pieces(&x), T::pieces_mut(&mut y));
    for row in (0..y.len()).step_by(n_classes) {
        let row = row..row + n_classes;
        let mut maximum = s.splat(T::NEG_INFINITY);
        for k in row.clone() {
            let value = s.load(&x.get(k));
            maximum = s.select(s.beats(value, maximum), value, maximum);
        }
        let mut sum = s.zero();
        for k in row.clone() {
            let mut power = T::ZERO_LANES;
            s.store(s.sub(s.load(&x.get(k)), maximum), &mut power);
            for lane in power.as_mut() {
                *lane = lane.exponential();
            }
            sum = s.add(sum, s.load(&power));
            y.set(k, power);
        }
        for k in row {
            let mut quotient = T::ZERO_LANES;
            s.store(s.div(s.load(&y.get(k)), sum), &mut quotient);
            y.set(k, quotient);
        }
    }
    Ok(())
}
