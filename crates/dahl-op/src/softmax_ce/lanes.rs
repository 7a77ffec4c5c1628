//! Lanes over samples: maximum, exponentials and their sum per class vector. `dlogits` holds the exponentials
//! until their sum is known. Padding lanes have labels and logits that mean nothing: they are computed along,
//! except that their labels are not looked at and their losses and hits are not counted.

use super::checked;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(softmax_ce, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (logits, label) = (call.input::<T>(0), call.input::<u8>(1));
    let (mut loss, mut correct) = (call.output::<T>(0), call.output::<T>(1));
    let mut dlogits = call.output::<T>(2);
    let batch = s.splat(T::from_f64(logits.extent()[0] as f64));
    let (first_sample, n_samples) = (logits.region().lo()[0], logits.region().shape()[0]);
    let n_classes = logits.region().shape()[1];
    let (logits, labels) = (T::lanes(logits.contiguous()), T::bytes(label.contiguous()));
    let dlogits = T::lanes_mut(dlogits.contiguous());
    let (mut losses, mut hits) = (s.zero(), s.zero());
    for group in 0..n_samples.div_ceil(T::LANES) {
        let n_valid = (n_samples - group * T::LANES).min(T::LANES);
        for (lane, &label) in labels[group].as_ref()[..n_valid].iter().enumerate() {
            checked(label, first_sample + group * T::LANES + lane, n_classes)?;
        }
        let logits = &logits[group * n_classes..][..n_classes];
        let dlogits = &mut dlogits[group * n_classes..][..n_classes];
        let label = s.widen(s.load_bytes(&labels[group]));
        let class = |k: usize| s.splat(T::from_f64(k as f64));

        let (mut maximum, mut argmax) = (s.splat(T::NEG_INFINITY), s.zero());
        for (k, value) in logits.iter().enumerate() {
            let value = s.load(value);
            let wins = s.beats(value, maximum);
            // The first NaN stays: a maximum that is NaN already does not equal itself.
            let is_number = s.eq(maximum, maximum);
            let wins_k = s.select(wins, class(k), argmax);
            argmax = s.select(is_number, wins_k, argmax);
            maximum = s.select(wins, value, maximum);
        }
        let mut sum = s.zero();
        let mut at_label = s.zero();
        for (k, (value, power)) in logits.iter().zip(dlogits.iter_mut()).enumerate() {
            let below = s.sub(s.load(value), maximum);
            at_label = s.select(s.eq(label, class(k)), below, at_label);
            s.store(below, power);
            for lane in power.as_mut() {
                *lane = lane.exponential();
            }
            sum = s.add(sum, s.load(power));
        }
        for (k, power) in dlogits.iter_mut().enumerate() {
            let target = s.select(s.eq(label, class(k)), s.splat(T::from_f64(1.0)), s.zero());
            let probability = s.div(s.load(power), sum);
            s.store(s.div(s.sub(probability, target), batch), power);
        }
        let mut logarithm = T::ZERO_LANES;
        s.store(sum, &mut logarithm);
        for lane in logarithm.as_mut() {
            *lane = lane.logarithm();
        }
        let valid = s.first(n_valid);
        let group_loss = s.div(s.sub(s.load(&logarithm), at_label), batch);
        losses = s.select(valid, s.add(losses, group_loss), losses);
        let hit = s.select(s.eq(argmax, label), s.splat(T::from_f64(1.0)), s.zero());
        hits = s.select(valid, s.add(hits, hit), hits);
    }
    let start = |value: T| if call.accumulate() { value } else { T::default() };
    loss.set([], start(loss.at([])) + s.sum(losses));
    correct.set([], start(correct.at([])) + s.sum(hits));
    Ok(())
}
