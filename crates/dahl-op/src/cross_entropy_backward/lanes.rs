//! Lanes over samples: a class vector at a time, zero where the label of a lane is another class. The labels
//! of padding lanes are not looked at.

use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use crate::softmax_ce::checked;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(cross_entropy_backward, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (p, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut dp = call.output::<T>(0);
    let batch = s.splat(T::from_f64(p.extent()[0] as f64));
    let n_classes = p.extent()[1];
    let (first_sample, n_samples) = (dp.region().lo()[0], dp.region().shape()[0]);
    let classes = dp.region().range(1);
    let (p, labels) = (T::pieces(&p), T::bytes(label.contiguous()));
    let mut dp = T::pieces_mut(&mut dp);
    for group in 0..n_samples.div_ceil(T::LANES) {
        let n_valid = (n_samples - group * T::LANES).min(T::LANES);
        for (lane, &label) in labels[group].as_ref()[..n_valid].iter().enumerate() {
            checked(label, first_sample + group * T::LANES + lane, n_classes)?;
        }
        let label = s.widen(s.load_bytes(&labels[group]));
        for (at, k) in (group * classes.len()..).zip(classes.clone()) {
            let slope = s.div(s.div(s.splat(T::from_f64(-1.0)), s.load(&p.get(at))), batch);
            let is_label = s.eq(label, s.splat(T::from_f64(k as f64)));
            let mut gradient = T::ZERO_LANES;
            s.store(s.select(is_label, slope, s.zero()), &mut gradient);
            dp.set(at, gradient);
        }
    }
    Ok(())
}
