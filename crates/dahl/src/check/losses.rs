//! Losses against central differences.

use super::{STEP, batches, compare, numbers};
use crate::error::{Error, Result};
use crate::layer::{Mode, Tape};
use crate::loss::{Answers, Loss};
use crate::op;
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::{CutOptions, Graph};
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::{Plan, Planned};
use std::sync::Arc;

const T: Dtype = Dtype::F64;

/// Compares the gradient of a loss, for answers in so many classes, with central differences in `f64`, and
/// its count of right answers with what the largest outputs say. Says how many gradients there were.
///
/// Outputs are numbers between 0 and 1, so that losses of probabilities can be tried as well; batches are
/// those of [`gradients`](super::gradients).
pub fn loss(loss: &dyn Loss, classes: usize) -> Result<usize> {
    let mut n_gradients = 0;
    for (n, options) in batches() {
        let compared = gradient_of(loss, n, classes, &options);
        n_gradients += compared.map_err(|error| {
            Error::setting(format!("{loss} is wrong for {n} samples in {classes} classes")).because_of(error)
        })?;
    }
    Ok(n_gradients)
}

fn gradient_of(loss: &dyn Loss, n: usize, classes: usize, options: &CutOptions) -> Result<usize> {
    let mut graph = Graph::new(8);
    let (given, label_port) = (graph.port("given", T, [n, classes]), graph.port("labels", Dtype::U8, [n]));
    let metrics = graph.output("metrics", T, [2]);
    let gradient = graph.output("gradient", T, [n, classes]);
    let mut tape = Tape::new(&mut graph, T, Mode::Train);
    let (output, label) = (tape.array("output", [n, classes]), tape.array_of("label", Dtype::U8, [n]));
    let index = tape.graph().port("index", Dtype::U32, [n]);
    tape.task(&op::copy::CODELET, &[given], &[output], &[])?;
    tape.task(&op::load_labels::CODELET, &[label_port, index], &[label], &[])?;
    let answers = Answers { output, label, loss: metrics.part(0, [])?, correct: metrics.part(1, [])? };
    let found = loss.record(&mut tape, &answers)?;
    tape.task(&op::copy::CODELET, &[found], &[gradient], &[])?;
    let machine = Machine::with_workers(1);
    let planned = Planned::new(&graph, options, |lowered| Plan::heuristic(lowered, &machine))?;
    let mut session = Session::new(&Arc::new(Pool::new(&machine)?), &planned.lowered, &planned.plan, 0)?;

    let outputs: Vec<f64> = numbers(4, n * classes).iter().map(|value| 0.5 + 0.4 * value).collect();
    let labels: Vec<u8> = (0..n).map(|i| ((7 * i + 3) % classes) as u8).collect();
    let (mut values, mut gradients, mut n_correct) = (Vec::new(), Vec::new(), 0.0);
    session.run(
        &mut Store::new(),
        1 + 2 * outputs.len() as u64,
        |step, ports| {
            let moved = ports.get_mut::<f64>(&given);
            moved.copy_from_slice(&outputs);
            if let Some(i) = (step as usize).checked_sub(1) {
                moved[i / 2] += if i % 2 == 0 { STEP } else { -STEP };
            }
            ports.get_mut::<u8>(&label_port).copy_from_slice(&labels);
            let index = ports.get_mut::<u32>(&index).iter_mut();
            index.enumerate().for_each(|(i, index)| *index = i as u32);
        },
        |step, out| {
            values.push(out.get::<f64>(&metrics)[0]);
            if step == 0 {
                gradients = out.get::<f64>(&gradient).to_vec();
                n_correct = out.get::<f64>(&metrics)[1];
            }
        },
    )?;
    let is_right = |(row, label): &(&[f64], &u8)| row.iter().all(|value| *value <= row[usize::from(**label)]);
    let expected = outputs.chunks_exact(classes).zip(&labels).filter(is_right).count() as f64;
    if n_correct != expected {
        return Err(Error::setting(format!(
            "{n_correct} answers are counted as right, where {expected} are"
        )));
    }
    compare(&gradients, &values, |i| format!("output {} of sample {}", i % classes, i / classes))
}
