//! Batch normalisation: the variance of each channel, as the sum of squares around its mean.
//!
//! `var[c] = Σ_{n,y,x} (x[n,c,y,x] - mean[c])² / N` with the `N` values that a channel has in the whole array. Squares are
//! taken around the mean because a difference of mean squares cancels. This is the biased variance, with which batches
//! are normalised; `batch_norm_running` makes it unbiased. Bytes: `x` read once.

mod lanes;

use super::channels::count;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet};

/// `var[c] += Σ (x[n,c,y,x] - mean[c])² / N`
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_square_sum",
    "x[n,c,y,x] mean[c] -> var[c] +=",
    3.0,
    super::implementations!(reference, lanes::batch_norm_square_sum, 1, [L R R]),
);

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
