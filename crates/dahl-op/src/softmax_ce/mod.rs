//! Softmax and cross-entropy with class labels, forward and backward at once.
//!
//! With `m_n = max_k logits[n,k]` and `s_n = Σ_k exp(logits[n,k] - m_n)`:
//! `loss = Σ_n (ln s_n + m_n - logits[n,label_n]) / N`,
//! `dlogits[n,k] = (exp(logits[n,k] - m_n)/s_n - [k = label_n]) / N`, where `N` is the batch size of the
//! whole array, so that the tiles of a batch add up to its mean. `correct` counts the samples whose first
//! largest logit is the label's (a NaN counts as largest, as in PyTorch), in the compute type. A label
//! without a logit is an error. Bytes: `logits` read once, `dlogits` written once.

mod lanes;

use super::real::Real;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};
use dahl_runtime::{Error, ErrorKind, Result};

/// `loss += mean cross-entropy`, `correct += hits`, `dlogits = ∂loss/∂logits`
pub static CODELET: Codelet = Codelet::new(
    "softmax_ce",
    "logits[n,k!] label[n] -> loss[] += correct[] += dlogits[n,k!]",
    8.0,
    super::implementations!(reference, lanes::softmax_ce, 1, [L L R R L]; reference, 1, [R R R R R]),
)
.samples(sample);

super::forms! {
    /// Mean cross-entropy of `logits` against labels, hits of the largest logit, and the gradient of the
    /// logits.
    softmax_ce<T>(logits: [T; 2], label: [u8; 1]) -> (loss: [T; 0], correct: [T; 0], dlogits: [T; 2]),
        init softmax_ce_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.full()];
    let sample = Sample::new(Tolerance::Scale(20.0)).real([n, k]).below(Dtype::U8, [n], k);
    sample.real([]).real([]).real([n, k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (logits, label) = (call.input::<T>(0), call.input::<u8>(1));
    let (mut loss, mut correct) = (call.output::<T>(0), call.output::<T>(1));
    let mut dlogits = call.output::<T>(2);
    let batch = T::from_f64(logits.extent()[0] as f64);
    let classes = logits.region().range(1);
    let start = |value: T| if call.accumulate() { value } else { T::default() };
    let (mut total, mut hits) = (start(loss.at([])), start(correct.at([])));
    for n in logits.region().range(0) {
        let label = checked(label.at([n]), n, classes.end)?;
        let (mut maximum, mut argmax) = (T::NEG_INFINITY, classes.start);
        for k in classes.clone() {
            let value = logits.at([n, k]);
            if value > maximum || value.is_nan() && !maximum.is_nan() {
                (maximum, argmax) = (value, k);
            }
        }
        let mut sum = T::default();
        for k in classes.clone() {
            sum += (logits.at([n, k]) - maximum).exponential();
        }
        total += (sum.logarithm() - (logits.at([n, label]) - maximum)) / batch;
        hits += T::from_f64(if argmax == label { 1.0 } else { 0.0 });
        for k in classes.clone() {
            let target = T::from_f64(if k == label { 1.0 } else { 0.0 });
            let probability = (logits.at([n, k]) - maximum).exponential() / sum;
            dlogits.set([n, k], (probability - target) / batch);
        }
    }
    loss.set([], total);
    correct.set([], hits);
    Ok(())
}

/// The label of sample `n`, or the error that there is no logit for it.
pub(super) fn checked(label: u8, n: usize, n_classes: usize) -> Result<usize> {
    if usize::from(label) < n_classes {
        return Ok(label.into());
    }
    let message = format!(
        "sample {n} has label {label}, but the model has {n_classes} outputs (labels 0..{n_classes}); \
         give the last layer more outputs or check the labels"
    );
    Err(Error::new(ErrorKind::Task, message))
}
