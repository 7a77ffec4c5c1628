//! Batch normalisation in inference: `batch_norm_normalise` with the running statistics in place of the
//! batch's. Bytes: `x` read once, `out` written once.

mod lanes;

use super::batch_norm_normalise::reference;
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

/// `out = gamma (x - running_mean) / sqrt(running_var + eps) + beta`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_inference",
    "x[n,c,y,x] running_mean[c] running_var[c] gamma[c] beta[c] -> out[n,c,y,x]",
    3.0,
    super::implementations!(reference, lanes::batch_norm_inference, 1, [L R R R R L]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `out = gamma (x - running_mean) / sqrt(running_var + eps) + beta`, channel by channel.
    batch_norm_inference<T>(
        x: [T; 4], running_mean: [T; 1], running_var: [T; 1], gamma: [T; 1], beta: [T; 1]; scalars eps
    ) -> (out: [T; 4]), init batch_norm_inference_init,
        in_place batch_norm_inference_self(
            x: [T; 4], running_mean: [T; 1], running_var: [T; 1], gamma: [T; 1], beta: [T; 1]
        )
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, c, y, x] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    let sample = Sample::new(Tolerance::Scale(10.0)).scalars(&[1e-5]);
    sample.real([n, c, y, x]).real([c]).real_in([c], 0.1..2.0).real([c]).real([c]).real([n, c, y, x])
}
