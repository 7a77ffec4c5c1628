//! Batch normalisation in inference: `batch_norm_normalise` with the running statistics in place of the batch's. Bytes:
//! `x` read once, `out` written once.

mod lanes;

use super::batch_norm_normalise::reference;
use dahl_runtime::codelet::Codelet;

/// `out = gamma (x - running_mean) / sqrt(running_var + eps) + beta`; scalars: `eps`.
pub static CODELET: Codelet = Codelet::new(
    "batch_norm_inference",
    "x[n,c,y,x] running_mean[c] running_var[c] gamma[c] beta[c] -> out[n,c,y,x]",
    3.0,
    super::implementations!(reference, lanes::batch_norm_inference, 1, [L R R R R L]),
);
