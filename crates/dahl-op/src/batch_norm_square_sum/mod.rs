//! Batch normalisation: the variance of each channel, as the sum of squares around its mean.
//!
//! `var[c] = Σ_{n,y,x} (x[n,c,y,x] - mean[c])² / N` with the `N` values that a channel has in the whole
//! array. Squares are taken around the mean because a difference of mean squares cancels. This is the biased
//! variance, with which batches are normalised; `batch_norm_running` makes it unbiased. Bytes: `x` read once.

mod lanes;

use super::channels::count;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `var[c] += Σ (x[n,c,y,x] - mean[c])² / N`
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_square_sum",
    "x[n,c,y,x] mean[c] -> var[c] +=",
    3.0,
    super::implementations!(reference, lanes::batch_norm_square_sum, 1, [L R R]),
)
.samples(sample);

super::forms! {
    /// The biased variance of each channel around `mean`.
    batch_norm_square_sum<T>(x: [T; 4], mean: [T; 1]) -> (var: [T; 1]), init batch_norm_square_sum_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    Sample::new(Tolerance::Scale(4.0)).real([n, c, y, x]).real([c]).real([c])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (x, mean) = (call.input::<T>(0), call.input::<T>(1));
    let mut var = call.output::<T>(0);
    let region = x.region();
    for c in var.region().range(0) {
        let mut sum = T::default();
        for n in region.range(0) {
            for row in region.range(2) {
                for column in region.range(3) {
                    let centred = x.at([n, c, row, column]) - mean.at([c]);
                    sum += centred * centred;
                }
            }
        }
        let start = if call.accumulate() { var.at([c]) } else { T::default() };
        var.set([c], start + sum / count(x.extent()));
    }
    Ok(())
}
