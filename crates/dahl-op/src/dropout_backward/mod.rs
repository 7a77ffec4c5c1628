//! The gradient of dropout: `dropout` with the same coins, applied to the gradient. Bytes: one element read,
//! one written.

mod lanes;

use super::dropout::reference;
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::{Codelet, Draw, Sample, Tolerance};

/// `dx = dy · coin / (1 - p)`; scalars: `p` and the seed of the forward pass.
pub static CODELET: Codelet = Codelet::new(
    "dropout_backward",
    "dy[..] counter[] -> dx[..]",
    2.0,
    super::implementations!(reference, lanes::dropout_backward, 1, [L R L]; reference, 1, [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// The gradient of the input of `dropout` with the same `counter`, `p` and `seed`.
    dropout_backward<T, R>(dy: [T; R], counter: [u32; 0]; scalars p, seed) -> (dx: [T; R]), init dropout_backward_init,
        in_place dropout_backward_self(dy: [T; R], counter: [u32; 0])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    let sample =
        Sample::new(Tolerance::Exact).scalars(&[[0.0, 0.3, 0.5, 1.0][draw.below(4)], draw.below(99) as f64]);
    sample.real(shape).below(Dtype::U32, [], 1000).real(shape)
}
