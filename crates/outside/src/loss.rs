//! The squared distance of the outputs from 1 at the label and 0 elsewhere.

use crate::reference;
use dahl::layer::Tape;
use dahl::loss::{Answers, Loss};
use dahl::op::{self, Float};
use dahl::runtime::array::{Dtype, Shape};
use dahl::runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance, View};
use dahl::runtime::graph::Var;
use dahl::{Result, runtime};
use std::fmt;

/// `loss += Σ (y - [k = label])² / N`, where `N` is the number of all samples.
pub static VALUE: Codelet = Codelet::new(
    "squared_error",
    "y[n,k] label[n] -> loss[] +=",
    3.0,
    &[reference(Dtype::F32, value::<f32>), reference(Dtype::F64, value::<f64>)],
)
.samples(|draw| {
    let (outputs, labels, classes) = answers(draw);
    Sample::new(Tolerance::Scale(400.0)).real(outputs).below(Dtype::U8, labels, classes).real([])
});

/// `dy = 2 (y - [k = label]) / N`.
pub static GRADIENT: Codelet = Codelet::new(
    "squared_error_backward",
    "y[n,k] label[n] -> dy[n,k]",
    3.0,
    &[reference(Dtype::F32, gradient::<f32>), reference(Dtype::F64, gradient::<f64>)],
)
.samples(|draw| {
    let (outputs, labels, classes) = answers(draw);
    Sample::new(Tolerance::Exact).real(outputs).below(Dtype::U8, labels, classes).real(outputs)
});

/// Extents to try: of outputs and labels, and the number of classes.
fn answers(draw: &mut Draw) -> (Shape, Shape, usize) {
    let (n, classes) = (draw.n_samples(), draw.full());
    (Shape::new(&[n, classes]), Shape::new(&[n]), classes)
}

/// How far an output is from what it should be.
fn error<T: Float>(y: &View<'_, T>, label: &View<'_, u8>, n: usize, k: usize) -> T {
    let wanted = if usize::from(label.at([n])) == k { 1.0 } else { 0.0 };
    y.at([n, k]) - T::from_f64(wanted)
}

fn value<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (y, label, mut loss) = (call.input::<T>(0), call.input::<u8>(1), call.output::<T>(0));
    let batch = T::from_f64(y.extent()[0] as f64);
    let mut sum = if call.accumulate() { loss.at([]) } else { T::default() };
    for n in y.region().range(0) {
        for k in y.region().range(1) {
            let error = error(&y, &label, n, k);
            sum += error * error / batch;
        }
    }
    loss.set([], sum);
    Ok(())
}

fn gradient<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (y, label, mut dy) = (call.input::<T>(0), call.input::<u8>(1), call.output::<T>(0));
    let factor = T::from_f64(2.0) / T::from_f64(y.extent()[0] as f64);
    for n in dy.region().range(0) {
        for k in dy.region().range(1) {
            dy.set([n, k], factor * error(&y, &label, n, k));
        }
    }
    Ok(())
}

/// The squared distance of the outputs from 1 at the label and 0 elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquaredError;

impl Loss for SquaredError {
    fn record(&self, tape: &mut Tape<'_>, answers: &Answers) -> Result<Var> {
        let inputs = [answers.output, answers.label];
        let gradient = tape.array("squared_error.dx", answers.output.shape());
        tape.task(&VALUE, &inputs, &[answers.loss], &[])?;
        tape.task(&op::accuracy::CODELET, &inputs, &[answers.correct], &[])?;
        tape.task(&GRADIENT, &inputs, &[gradient], &[])?;
        Ok(gradient)
    }

    fn of_guessing(&self, classes: usize) -> f64 {
        1.0 - 1.0 / classes.max(2) as f64
    }
}

impl fmt::Display for SquaredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("squared error")
    }
}
