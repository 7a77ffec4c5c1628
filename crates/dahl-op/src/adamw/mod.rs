//! A step of AdamW, as in PyTorch: `adam`, except that the weight decay does not go through the moments but
//! shrinks the parameters beforehand, `p *= 1 - lr decay`. Bytes: four elements read, three written.

mod lanes;

use super::adam::{reference, sample};
use dahl_runtime::codelet::Codelet;

/// One step of AdamW; scalars: β₁, β₂, eps, weight decay.
pub static CODELET: Codelet = Codelet::new(
    "adamw",
    "g[i] lr[] step[] p[i] m[i] v[i] -> p[i] m[i] v[i]",
    13.0,
    super::implementations!(
        (reference::<f32, true>, reference::<f64, true>),
        lanes,
        (lanes::adamw::<f32>, lanes::adamw::<f64>),
        1,
        [R R R R R R]
    ),
)
.samples(sample);

super::forms! {
    /// One step of AdamW after `step` others: parameters `p` and both moments.
    adamw<T>(g: [T; 1], lr: [T; 0], step: [u32; 0]; scalars beta1, beta2, eps, decay)
        -> (p: [T; 1], m: [T; 1], v: [T; 1])
}
