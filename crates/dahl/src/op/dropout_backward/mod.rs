//! The gradient of dropout: `dropout` with the same coins, applied to the gradient. Bytes: one element read, one written.

mod lanes;

use super::dropout::reference;
use dahl_runtime::codelet::Codelet;

/// `dx = dy · coin / (1 - p)`; scalars: `p` and the seed of the forward pass.
pub static CODELET: Codelet = Codelet::new(
    "dropout_backward",
    "dy[..] counter[] -> dx[..]",
    2.0,
    super::implementations!(reference, lanes::dropout_backward, 1, [L R L]),
);
