//! RMSprop: gradients are divided by the root of a running mean of their squares.

use crate::{fast, reference};
use dahl::layer::Tape;
use dahl::op::Float;
use dahl::optim::{Optimizer, Update};
use dahl::runtime::array::Dtype;
use dahl::runtime::array::Layout::{self, RowMajor};
use dahl::runtime::codelet::{Call, Codelet, Sample, Tolerance};
use dahl::{Error, Result, runtime};
use std::fmt;

const FLAT: &[Layout] = &[RowMajor; 4];

/// `s = kept s + (1 - kept) g²`, `p -= lr g / (√s + eps)`; scalars: the share that is kept, and eps.
pub static UPDATE: Codelet = Codelet::new(
    "rmsprop",
    "g[i] lr[] p[i] s[i] -> p[i] s[i]",
    8.0,
    &[
        reference(Dtype::F32, update::<f32>),
        reference(Dtype::F64, update::<f64>),
        fast("flat", Dtype::F32, FLAT, update_flat::<f32>),
        fast("flat", Dtype::F64, FLAT, update_flat::<f64>),
    ],
)
.samples(|draw| {
    let n = draw.n_samples() * draw.extent();
    let sample = Sample::new(Tolerance::Exact).scalars(&[0.9, 0.01]);
    sample.real([n]).real([]).real([n]).real_in([n], 0.0..1.0)
});

/// New weight and mean square.
fn step<T: Float>(call: &Call<'_>) -> impl Fn(T, T, T) -> (T, T) {
    let (kept, eps) = (call.scalar(0), T::from_f64(call.scalar(1)));
    let (kept, taken, rate) = (T::from_f64(kept), T::from_f64(1.0 - kept), call.input::<T>(1).at([]));
    move |g, p, s| {
        let s = kept * s + taken * g * g;
        (p - rate * g / (s.square_root() + eps), s)
    }
}

fn update<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (step, g) = (step::<T>(call), call.input::<T>(0));
    let (mut p, mut s) = (call.output::<T>(0), call.output::<T>(1));
    for i in p.region().range(0) {
        let (weight, square) = step(g.at([i]), p.at([i]), s.at([i]));
        p.set([i], weight);
        s.set([i], square);
    }
    Ok(())
}

fn update_flat<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (step, g) = (step::<T>(call), call.input::<T>(0));
    let (mut p, mut s) = (call.output::<T>(0), call.output::<T>(1));
    for ((p, s), g) in p.contiguous().iter_mut().zip(s.contiguous()).zip(g.contiguous()) {
        (*p, *s) = step(*g, *p, *s);
    }
    Ok(())
}

/// RMSprop, as in PyTorch without momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// Share of the mean squared gradient that is kept from step to step.
    pub kept: f64,
    /// What keeps the divisor away from zero.
    pub eps: f64,
}

impl Default for RmsProp {
    fn default() -> Self {
        RmsProp { kept: 0.9, eps: 1e-8 }
    }
}

impl Optimizer for RmsProp {
    fn state_names(&self) -> Vec<&'static str> {
        vec!["square_avg"]
    }

    fn check(&self) -> Result<()> {
        match (0.0..1.0).contains(&self.kept) && self.eps > 0.0 {
            true => Ok(()),
            false => Err(Error::setting(format!("{self}: expected a share below 1 and an eps above 0"))),
        }
    }

    fn record(&self, tape: &mut Tape<'_>, update: &Update<'_>) -> Result<()> {
        let (inputs, outputs) = ([update.gradients, update.rate], [update.weights, update.state[0]]);
        tape.task_with(&UPDATE, &inputs, &outputs, &[self.kept, self.eps])
    }
}

impl fmt::Display for RmsProp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rmsprop kept {} eps {}", self.kept, self.eps)
    }
}
