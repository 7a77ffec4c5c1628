//! Lanes over samples; padding lanes are not counted.

use crate::argmax::{check_classes, largest_in_lanes};
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(accuracy, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut correct = call.output::<T>(0);
    let (n_samples, n_classes) = (label.region().shape()[0], x.region().shape()[1]);
    let mut hits = s.zero();
    if n_samples > 0 {
        check_classes(n_classes)?;
        let rows = T::lanes(x.contiguous()).chunks_exact(n_classes);
        for (group, (row, labels)) in rows.zip(T::bytes(label.contiguous())).enumerate() {
            // Labels are bytes, so classes beyond those that numbers can count do not occur among them.
            let is_hit = s.eq(largest_in_lanes(s, row), s.widen(s.load_bytes(labels)));
            let hit = s.select(is_hit, s.splat(T::from_f64(1.0)), s.zero());
            let valid = s.first(n_samples - group * T::LANES);
            hits = s.select(valid, s.add(hits, hit), hits);
        }
    }
    let start = if call.accumulate() { correct.at([]) } else { T::default() };
    correct.set([], start + s.sum(hits));
    Ok(())
}
