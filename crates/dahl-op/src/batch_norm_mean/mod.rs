//! Batch normalisation, first of all: the mean of each channel over samples and pixels.
//!
//! `mean[c] = Σ_{n,y,x} x[n,c,y,x] / N` with the `N` values that a channel has in the whole array: each tile
//! divides its own sum, and the tiles add up to the mean. Bytes: `x` read once.

mod lanes;

use super::channels::count;
use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `mean[c] += Σ x[n,c,y,x] / N`
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_mean",
    "x[n,c,y,x] -> mean[c] +=",
    1.0,
    super::implementations!(reference, lanes::batch_norm_mean, 1, [L R]),
)
.samples(sample);

super::forms! {
    /// The mean of each channel.
    batch_norm_mean<T>(x: [T; 4]) -> (mean: [T; 1]), init batch_norm_mean_init
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    Sample::new(Tolerance::Scale(1.0)).real([n, c, y, x]).real([c])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let x = call.input::<T>(0);
    let mut mean = call.output::<T>(0);
    let region = x.region();
    for c in mean.region().range(0) {
        let mut sum = T::default();
        for n in region.range(0) {
            for row in region.range(2) {
                for column in region.range(3) {
                    sum += x.at([n, c, row, column]);
                }
            }
        }
        let start = if call.accumulate() { mean.at([c]) } else { T::default() };
        mean.set([c], start + sum / count(x.extent()));
    }
    Ok(())
}
