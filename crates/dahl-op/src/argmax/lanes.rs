//! Lanes over samples: the maximum so far and its class, as a number per lane, in two registers.

use super::check_classes;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(argmax, body);

/// Classes that numbers of either type can count.
const MOST_CLASSES: usize = 1 << 24;

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut class = call.output::<u32>(0);
    let n_classes = x.region().shape()[1];
    if n_classes > MOST_CLASSES {
        return super::reference::<T>(call);
    }
    if class.region().is_empty() {
        return Ok(());
    }
    check_classes(n_classes)?;
    let rows = T::lanes(x.contiguous()).chunks_exact(n_classes);
    for (row, class) in rows.zip(class.contiguous().chunks_mut(T::LANES)) {
        let mut place = T::ZERO_LANES;
        s.store(largest_in_lanes(s, row), &mut place);
        for (class, &place) in class.iter_mut().zip(place.as_ref()) {
            *class = place.truncate();
        }
    }
    Ok(())
}

/// The place of the largest element in every lane of a row of at least one class.
#[inline(always)]
pub(crate) fn largest_in_lanes<T: Real, S: Simd<T>>(s: S, row: &[T::Lanes]) -> S::V {
    let (mut maximum, mut place) = (s.load(&row[0]), s.zero());
    for (k, value) in row.iter().enumerate().skip(1) {
        let value = s.load(value);
        let wins = s.beats(value, maximum);
        // The first NaN stays: a maximum that is NaN already does not equal itself.
        let wins_k = s.select(wins, s.splat(T::from_f64(k as f64)), place);
        place = s.select(s.eq(maximum, maximum), wins_k, place);
        maximum = s.select(wins, value, maximum);
    }
    place
}
