//! Batch normalisation: the running statistics move towards those of the batch, as in PyTorch.
//!
//! `running_mean = (1 - m) running_mean + m mean` and the same for the variance, which is made unbiased on
//! the way: `var N / (N - 1)`. Bytes: four elements read, two written per channel.

mod lanes;

use super::real::Real;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};
use dahl_runtime::{Error, ErrorKind, Result};

/// Running statistics towards `mean` and `var`; scalars: the momentum `m` and `N`, the values per channel of
/// the batch.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_running",
    "mean[c] var[c] running_mean[c] running_var[c] -> running_mean[c] running_var[c]",
    7.0,
    super::implementations!(reference, lanes::batch_norm_running, 1, [R R R R]),
)
.samples(sample);

super::forms! {
    /// Moves the running statistics by `momentum` towards those of a batch with `count` values per channel.
    batch_norm_running<T>(mean: [T; 1], var: [T; 1]; scalars momentum, count)
        -> (running_mean: [T; 1], running_var: [T; 1])
}

fn sample(draw: &mut Draw) -> Sample {
    let c = draw.wide();
    let sample = Sample::new(Tolerance::Scale(3.0)).scalars(&[0.1, 12.0]);
    sample.real([c]).real_in([c], 0.0..2.0).real([c]).real([c])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (mean, var) = (call.input::<T>(0), call.input::<T>(1));
    let (mut running_mean, mut running_var) = (call.output::<T>(0), call.output::<T>(1));
    let Rates { keep, take, correction } = Rates::<T>::of(call)?;
    for c in running_mean.region().range(0) {
        running_mean.set([c], keep * running_mean.at([c]) + take * mean.at([c]));
        running_var.set([c], keep * running_var.at([c]) + take * (var.at([c]) * correction));
    }
    Ok(())
}

/// What old and new statistics are weighted with, and what makes a variance unbiased.
struct Rates<T> {
    keep: T,
    take: T,
    correction: T,
}

impl<T: Real> Rates<T> {
    fn of(call: &Call<'_>) -> Result<Self> {
        let (momentum, count) = (call.scalar(0), call.scalar(1));
        if count < 2.0 {
            let message = format!(
                "the variance of {count} values per channel says nothing about others; expected at least 2, so train \
                 on larger batches or larger images"
            );
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Rates {
            keep: T::from_f64(1.0 - momentum),
            take: T::from_f64(momentum),
            correction: T::from_f64(count / (count - 1.0)),
        })
    }
}
