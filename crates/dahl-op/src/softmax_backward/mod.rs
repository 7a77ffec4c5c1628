//! The gradient of softmax, from its *output*: `dx[n,k] = y[n,k] (dy[n,k] - Σ_j y[n,j] dy[n,j])`. Bytes: `y`
//! and `dy` read once, `dx` written once.

mod lanes;

use super::real::Real;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};

/// `dx = y (dy - y·dy)` over `k`
pub static CODELET: Codelet = Codelet::new(
    "softmax_backward",
    "y[n,k!] dy[n,k!] -> dx[n,k!]",
    4.0,
    super::implementations!(reference, lanes::softmax_backward, 1, [L L L]; reference, 1, [R R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// The gradient of what softmax was taken of, from its result `y`.
    softmax_backward<T>(y: [T; 2], dy: [T; 2]) -> (dx: [T; 2]), init softmax_backward_init,
        in_place softmax_backward_self(dy: [T; 2], y: [T; 2])
}

fn sample(draw: &mut Draw) -> Sample {
    let [n, k] = [draw.n_samples(), draw.extent()];
    Sample::new(Tolerance::Scale(10.0)).real([n, k]).real([n, k]).real([n, k])
}

fn reference<T: Real>(call: &Call<'_>) -> Result<()> {
    let (y, dy) = (call.input::<T>(0), call.input::<T>(1));
    let mut dx = call.output::<T>(0);
    let classes = y.region().range(1);
    for n in dx.region().range(0) {
        let mut product = T::default();
        for k in classes.clone() {
            product += y.at([n, k]) * dy.at([n, k]);
        }
        for k in classes.clone() {
            dx.set([n, k], y.at([n, k]) * (dy.at([n, k]) - product));
        }
    }
    Ok(())
}
