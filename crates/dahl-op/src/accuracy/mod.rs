//! How many samples are classified right: `correct = Σ_n [argmax_k x[n,k] = label_n]`, in the compute type,
//! with the same choice among equal values and NaN as `argmax`. Bytes: `x` read once.

mod lanes;

use super::argmax::largest;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `correct += hits`
pub static CODELET: Codelet = Codelet::new(
    "accuracy",
    "x[n,k!] label[n] -> correct[] +=",
    1.0,
    super::implementations!(reference, lanes::accuracy, 1, [L L R]; reference, 1, [R R R]),
)
.samples(sample);

super::forms! {
    /// The number of rows whose largest element is at the label.
    accuracy<T>(x: [T; 2], label: [u8; 1]) -> (correct: [T; 0]), init accuracy_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.full()];
    Sample::new(Tolerance::Scale(40.0)).ties([n, k]).below(Dtype::U8, [n], k).real([])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, label) = (call.input::<T>(0), call.input::<u8>(1));
    let mut correct = call.output::<T>(0);
    let mut hits = if call.accumulate() { correct.at([]) } else { T::default() };
    for n in label.region().range(0) {
        let is_hit = largest(&x, n)? == usize::from(label.at([n]));
        hits += T::from_f64(if is_hit { 1.0 } else { 0.0 });
    }
    correct.set([], hits);
    Ok(())
}
