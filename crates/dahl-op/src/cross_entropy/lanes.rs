//! Lanes over samples: each lane picks the probability of its own label, and the logarithms of a group are
//! one vector. The labels of padding lanes are not looked at.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::softmax_ce::checked;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(cross_entropy, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (p, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut loss = call.output::<T>(0);
    let batch = s.splat(T::from_f64(p.extent()[0] as f64));
    let n_classes = p.extent()[1];
    let (first_sample, n_samples) = (label.region().lo()[0], label.region().shape()[0]);
    let (p, labels) = (T::lanes(p.contiguous()), T::bytes(label.contiguous()));
    let mut losses = s.zero();
    for group in 0..n_samples.div_ceil(T::LANES) {
        let n_valid = (n_samples - group * T::LANES).min(T::LANES);
        let mut logarithm = T::ZERO_LANES;
        for (lane, &label) in labels[group].as_ref()[..n_valid].iter().enumerate() {
            let label = checked(label, first_sample + group * T::LANES + lane, n_classes)?;
            logarithm.as_mut()[lane] = p[group * n_classes + label].as_ref()[lane];
        }
        for lane in logarithm.as_mut() {
            *lane = -lane.logarithm();
        }
        let group_loss = s.div(s.load(&logarithm), batch);
        losses = s.select(s.first(n_valid), s.add(losses, group_loss), losses);
    }
    let start = if call.accumulate() { loss.at([]) } else { T::default() };
    loss.set([], start + s.sum(losses));
    Ok(())
}
