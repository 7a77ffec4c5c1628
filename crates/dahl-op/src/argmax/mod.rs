//! The most likely class of each sample: `class[n] = argmax_k x[n,k]`, the first of equal values; a NaN
//! counts as largest, as in PyTorch. Bytes: `x` read once, four bytes written per sample.

mod lanes;

pub(super) use lanes::largest_in_lanes;

use super::real::Real;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, View};
use dahl_runtime::{Error, ErrorKind, Result};

/// `class[n] = argmax_k x[n,k]`
pub static CODELET: Codelet = Codelet::new(
    "argmax",
    "x[n,k!] -> class[n]",
    1.0,
    super::implementations!(reference, lanes::argmax, 1, [L R]; reference, 1, [R R]),
)
.samples(sample);

super::forms! {
    /// The place of the largest element of each row.
    argmax<T>(x: [T; 2]) -> (class: [u32; 1]), init argmax_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.full()];
    Sample::new(Tolerance::Exact).ties([n, k]).below(Dtype::U32, [n], k)
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut class = call.output::<u32>(0);
    for n in class.region().range(0) {
        class.set([n], largest(&x, n)? as u32);
    }
    Ok(())
}

/// The place of the largest element of row `n`.
pub(super) fn largest<T: Real>(x: &View<'_, T>, n: usize) -> Result<usize> {
    check_classes(x.region().shape()[1])?;
    let classes = x.region().range(1);
    let (mut maximum, mut place) = (x.at([n, classes.start]), classes.start);
    for k in classes {
        let value = x.at([n, k]);
        if value > maximum || value.is_nan() && !maximum.is_nan() {
            (maximum, place) = (value, k);
        }
    }
    Ok(place)
}

/// Refuses rows without elements, which have no largest one.
pub(super) fn check_classes(n_classes: usize) -> Result<()> {
    if n_classes > 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Shape, "rows of no classes have no largest one; expected at least one class"))
}
