//! The graph of a step: load the batch, forward, loss, and for training backward and update.

use crate::error::Result;
use crate::layer::{Mode, Tape};
use crate::model::Sequential;
use crate::op;
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::Store;
use dahl_runtime::graph::{Graph, Role, StateId, Var};

/// Steps that the program may be ahead of the workers. Deep enough that it wakes up rarely; the ports are small.
const DEPTH: usize = 64;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Forward, backward, update.
    Train,
    /// The same, with the gradients as an output, for comparison with other programs.
    TrainDumped,
    /// Forward only.
    Evaluate,
}

/// Where the arrays that outlive a step are.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub weights: StateId,
    /// Running statistics, for models that have any.
    pub statistics: Option<StateId>,
    pub images: StateId,
    pub labels: StateId,
}

/// A recorded step and its ports and outputs.
pub(super) struct Step {
    pub graph: Graph,
    /// Which images to take.
    pub index: Var,
    /// The learning rate, for training.
    pub learning_rate: Option<Var>,
    /// A number per step, for models that make random choices.
    pub counter: Option<Var>,
    /// Mean loss and number of correct answers.
    pub metrics: Var,
    /// The gradients, where they are dumped.
    pub gradients: Option<Var>,
}

impl Step {
    /// Records a step for batches of `n` images.
    pub fn record(
        model: &Sequential,
        store: &Store,
        state: State,
        dtype: Dtype,
        n: usize,
        kind: StepKind,
    ) -> Result<Step> {
        let mut graph = Graph::new(DEPTH);
        let weights = store.record(&mut graph, state.weights);
        let statistics = state.statistics.map(|statistics| store.record(&mut graph, statistics));
        let images = store.record(&mut graph, state.images);
        let labels = store.record(&mut graph, state.labels);
        let index = graph.port("index", Dtype::U32, [n]);
        let metrics = graph.output("metrics", dtype, [2]);
        let role = if kind == StepKind::TrainDumped { Role::Output } else { Role::Temporary };
        let mode = if kind == StepKind::Evaluate { Mode::Evaluate } else { Mode::Train };
        let mut tape = Tape::new(&mut graph, dtype, mode);

        let x = tape.array("x", model.batch_shape(n));
        let label = tape.array_of("label", Dtype::U8, [n]);
        tape.graph().task(&op::load::CODELET, dtype, &[images, index], &[x], &[], &[255.0])?;
        tape.task(&op::load_labels::CODELET, &[labels, index], &[label], &[])?;
        let recording = model.forward(&mut tape, weights, statistics, x)?;
        let logits = recording.output;
        let dlogits = tape.array("dlogits", logits.shape());
        let (loss, correct) = (metrics.part(0, [])?, metrics.part(1, [])?);
        tape.task(&op::softmax_ce::CODELET, &[logits, label], &[loss, correct, dlogits], &[])?;

        let mut learning_rate = None;
        let mut dumped = None;
        if kind != StepKind::Evaluate {
            let rate = tape.graph().port("learning_rate", dtype, []);
            let gradients = tape.graph().array("gradients", dtype, [model.n_weights()?], role);
            model.backward(&mut tape, weights, gradients, &recording, dlogits)?;
            tape.task(&op::sgd::CODELET, &[gradients, rate], &[weights], &[])?;
            learning_rate = Some(rate);
            if kind == StepKind::TrainDumped {
                dumped = Some(gradients);
            }
        }
        let counter = tape.counter_port();
        Ok(Step { graph, index, learning_rate, counter, metrics, gradients: dumped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_runtime::graph::lower;
    use dahl_runtime::plan::{Cut, CutOptions};

    #[test]
    fn tasks_of_a_layer_name_the_line_that_appended_it() {
        let line = line!() + 1;
        let model = Sequential::new([1, 6, 6]).conv2d(2, 3).relu().flatten().dense(3);
        let mut store = Store::new();
        let state = State {
            weights: store.add::<f32>("weights", [model.n_weights().unwrap()]).unwrap(),
            statistics: None,
            images: store.add::<u8>("images", [4, 1, 6, 6]).unwrap(),
            labels: store.add::<u8>("labels", [4]).unwrap(),
        };
        let step = Step::record(&model, &store, state, Dtype::F32, 4, StepKind::Train).unwrap();
        for recorded in step.graph.tasks() {
            let (name, at) = (recorded.codelet.name, recorded.location);
            let is_step = name.starts_with("load") || ["softmax_ce", "sgd"].contains(&name);
            assert_eq!(at.file(), file!(), "{name}");
            assert_eq!(at.line() == line, !is_step, "{name} {at}");
        }
    }

    #[test]
    fn a_default_step_keeps_chunks_of_samples_whole_from_load_to_gradient() {
        let model = Sequential::seed([1, 28, 28], 10);
        let mut store = Store::new();
        let state = State {
            weights: store.add::<f32>("weights", [model.n_weights().unwrap()]).unwrap(),
            statistics: None,
            images: store.add::<u8>("images", [100, 1, 28, 28]).unwrap(),
            labels: store.add::<u8>("labels", [100]).unwrap(),
        };
        let step = Step::record(&model, &store, state, Dtype::F32, 64, StepKind::Train).unwrap();
        let cut = Cut::heuristic(&step.graph, &CutOptions::default()).unwrap();
        let lowered = lower(&step.graph, &cut).unwrap();
        let count = |name: &str| lowered.tasks().iter().filter(|task| task.codelet == name).count();
        for recorded in step.graph.tasks() {
            assert_eq!(count(recorded.codelet.name), 4, "{}", recorded.codelet.name);
        }
        // Nothing is copied: every kernel finds its chunk as the one before left it.
        assert_eq!(count("assemble"), 0);
        // One reduction of the gradients in four parts, and of loss and hits.
        assert_eq!(count("reduce"), 4 + 1);
    }
}
