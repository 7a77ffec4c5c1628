//! The graph of a step: load the batch, forward, loss, and for training backward and update.

use super::state::{Part, Pixels, State};
use crate::error::Result;
use crate::layer::{Mode, Tape};
use crate::loss::{Answers, Loss};
use crate::model::Sequential;
use crate::op;
use crate::op::Float;
use crate::optim::{Optimizer, Update};
use crate::random::Stream;
use dahl_runtime::array::Dtype;
use dahl_runtime::engine::{Ports, Store};
use dahl_runtime::graph::{Fusion, Graph, Prospect, Recorded, Role, Var, fuse};
use std::ops::RangeInclusive;

/// Steps that the program may be ahead of the workers: so many that it wakes up rarely, where steps are
/// short, and so few that whoever asks to stop need not wait for long, where they are long.
const DEPTH: RangeInclusive<usize> = 4..=64;

/// About what the steps that are ahead may compute: some hundredths of a second.
const FLOPS_AHEAD: f64 = 8e9;

/// Number of the stream that the counters of dropout come from.
const COUNTERS: u64 = 0xD0;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// Forward, backward, update.
    Train,
    /// The same, with logits and gradients as outputs, for comparison with other programs.
    TrainDumped,
    /// The same, with a copy of everything that is computed as an output, to see where a number went wrong.
    Diagnose,
    /// Forward only, as models are used after training.
    Evaluate,
    /// The same without labels, and the probability of each class as output.
    Predict,
}

impl StepKind {
    /// What a step of this kind for batches of `n` is called in plan files.
    pub fn name(self, n: usize) -> String {
        let kind = match self {
            StepKind::Train => "train",
            StepKind::TrainDumped => "train_dumped",
            StepKind::Diagnose => "diagnose",
            StepKind::Evaluate => "evaluate",
            StepKind::Predict => "predict",
        };
        format!("{kind}.{n}")
    }

    fn trains(self) -> bool {
        matches!(self, StepKind::Train | StepKind::TrainDumped | StepKind::Diagnose)
    }
}

/// What a step is recorded from.
#[derive(Clone, Copy)]
pub(super) struct Recipe<'a> {
    pub model: &'a Sequential,
    pub optimizer: &'a dyn Optimizer,
    pub loss: &'a dyn Loss,
    pub store: &'a Store,
    pub state: &'a State,
    pub part: Part,
    pub dtype: Dtype,
    /// The rules by which tasks are fused; none where they are not.
    pub fusions: &'a [&'static Fusion],
    /// What is known of the cut before it is made, for these rules.
    pub prospect: &'a Prospect,
}

/// A recorded step and its ports and outputs.
pub(super) struct Step {
    pub graph: Graph,
    /// Which images to take.
    index: Var,
    /// The images and labels themselves, where they do not lie in memory.
    streamed: Option<(Var, Var)>,
    rate: Option<Var>,
    /// Steps before this one, for optimisers that ask.
    number: Option<Var>,
    /// What dropout draws from.
    counter: Option<Var>,
    /// Mean loss and number of correct answers.
    pub metrics: Option<Var>,
    /// Logits and the gradients of each group, or probabilities, where they are asked for.
    pub dumped: Vec<Var>,
    /// A copy of everything that tasks wrote, in order, and what it is called, where that is looked at.
    pub exposed: Vec<(String, Var)>,
}

/// What changes from step to step, beside the images.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepInfo {
    /// Steps before this one.
    pub number: u64,
    /// The learning rate.
    pub rate: f64,
    /// The seed of the run.
    pub seed: u64,
}

impl StepInfo {
    /// For steps that do not train.
    pub const NONE: StepInfo = StepInfo { number: 0, rate: 0.0, seed: 0 };
}

impl Step {
    /// Records a step for batches of `n` images.
    pub fn record(recipe: Recipe<'_>, n: usize, kind: StepKind) -> Result<Step> {
        let depth = match (kind, recipe.state.pixels(recipe.part)) {
            // Everything is an output, and outputs have as many versions as steps may be under way.
            (StepKind::Diagnose, _) => 1,
            // The ports hold whole batches.
            (_, Pixels::Streamed) => *DEPTH.start(),
            (_, Pixels::Resident { .. }) => *DEPTH.end(),
        };
        let mut step = Step::record_fused(recipe, n, kind, depth)?;
        let flops: f64 = step.graph.tasks().iter().map(Recorded::flops).sum();
        step.graph.set_depth(depth.min(((FLOPS_AHEAD / flops) as usize).max(*DEPTH.start())));
        Ok(step)
    }

    /// Records a step and fuses its tasks, unless somebody wants to look at all that is computed.
    fn record_fused(recipe: Recipe<'_>, n: usize, kind: StepKind, depth: usize) -> Result<Step> {
        let step = Step::record_ahead(recipe, n, kind, depth)?;
        match kind {
            StepKind::Diagnose => Ok(step),
            _ => step.fused(recipe.fusions, recipe.prospect),
        }
    }

    /// The same step with fused tasks. Ports and outputs are never fused away.
    fn fused(mut self, rules: &[&'static Fusion], prospect: &Prospect) -> Result<Step> {
        if rules.is_empty() {
            return Ok(self);
        }
        let fused = fuse(std::mem::replace(&mut self.graph, Graph::new(1)), rules, prospect)?;
        let renumber = |var: &mut Var| *var = fused.var(*var).unwrap_or(*var);
        renumber(&mut self.index);
        if let Some((images, labels)) = &mut self.streamed {
            renumber(images);
            renumber(labels);
        }
        let some = [&mut self.rate, &mut self.number, &mut self.counter, &mut self.metrics];
        some.into_iter().flatten().for_each(renumber);
        self.dumped.iter_mut().for_each(renumber);
        self.graph = fused.graph;
        Ok(self)
    }

    fn record_ahead(recipe: Recipe<'_>, n: usize, kind: StepKind, depth: usize) -> Result<Step> {
        let Recipe { model, optimizer, loss, store, state, part, dtype, .. } = recipe;
        let pixels = state.pixels(part);
        let mut graph = Graph::new(depth);
        let weights: Vec<Var> =
            state.groups.iter().map(|group| store.record(&mut graph, group.weights)).collect();
        let statistics = state.statistics.map(|id| store.record(&mut graph, id));
        let index = graph.port("index", Dtype::U32, [n]);
        let (images, labels, streamed) = match *pixels {
            Pixels::Resident { images, labels } => {
                (store.record(&mut graph, images), store.record(&mut graph, labels), None)
            }
            Pixels::Streamed => {
                let images = graph.port("images", Dtype::U8, model.batch_shape(n));
                let labels = graph.port("labels", Dtype::U8, [n]);
                (images, labels, Some((images, labels)))
            }
        };
        let role = if kind == StepKind::TrainDumped { Role::Output } else { Role::Temporary };
        let mode = if kind.trains() { Mode::Train } else { Mode::Evaluate };
        let mut tape = Tape::new(&mut graph, dtype, mode);
        if kind == StepKind::Diagnose {
            tape.expose();
        }
        let x = tape.array("input", model.batch_shape(n));
        tape.beside_layers("load", |tape| {
            tape.graph().task(&op::load::CODELET, dtype, &[images, index], &[x], &[], &[255.0])
        })?;
        let recording = model.forward(&mut tape, &weights, statistics, x)?;
        let mut step = Step {
            graph: Graph::new(1),
            index,
            streamed,
            rate: None,
            number: None,
            counter: None,
            metrics: None,
            dumped: Vec::new(),
            exposed: Vec::new(),
        };
        let logits = recording.output;
        if kind == StepKind::Predict {
            let probabilities = tape.graph().output("probabilities", dtype, logits.shape());
            tape.beside_layers("output", |tape| loss.record_probabilities(tape, logits, probabilities))?;
            step.dumped.push(probabilities);
            step.graph = graph;
            return Ok(step);
        }
        let label = tape.array_of("label", Dtype::U8, [n]);
        tape.beside_layers("load", |tape| {
            tape.task(&op::load_labels::CODELET, &[labels, index], &[label], &[])
        })?;
        let metrics = tape.graph().output("metrics", dtype, [2]);
        step.metrics = Some(metrics);
        let answers =
            Answers { output: logits, label, loss: metrics.part(0, [])?, correct: metrics.part(1, [])? };
        let doutput = tape.beside_layers("loss", |tape| loss.record(tape, &answers))?;
        if kind.trains() {
            if kind == StepKind::TrainDumped {
                let copy = tape.graph().output("logits", dtype, logits.shape());
                tape.beside_layers("output", |tape| tape.task(&op::copy::CODELET, &[logits], &[copy], &[]))?;
                step.dumped.push(copy);
            }
            let rate = tape.graph().port("learning_rate", dtype, []);
            let mut gradients = Vec::new();
            for group in &state.groups {
                let name = format!("gradients{}", group.suffix);
                gradients.push(tape.graph().array(&name, dtype, [group.range.len()], role));
            }
            model.backward(&mut tape, &weights, &gradients, &recording, doutput)?;
            for ((group, &gradients), &weights) in state.groups.iter().zip(&gradients).zip(&weights) {
                let own = group.optimizer.iter().map(|&id| store.record(tape.graph(), id));
                let own: Vec<Var> = own.collect();
                let update = Update { gradients, weights, state: &own, rate };
                tape.beside_layers("update", |tape| optimizer.record(tape, &update))?;
            }
            step.rate = Some(rate);
            step.number = tape.step_number_port();
            if kind == StepKind::TrainDumped {
                step.dumped.extend(gradients);
            }
        }
        step.counter = tape.counter_port();
        step.exposed = tape.take_exposed();
        step.graph = graph;
        Ok(step)
    }

    /// Fills the ports for a batch of these images, but for the pixels of those that do not lie in memory.
    pub fn feed<T: Float>(&self, ports: &mut Ports<'_>, images: &[u32], info: StepInfo) {
        let index = ports.get_mut::<u32>(&self.index);
        match self.streamed {
            None => index.copy_from_slice(images),
            // The ports hold the images of this batch alone.
            Some(_) => index.iter_mut().enumerate().for_each(|(i, index)| *index = i as u32),
        }
        self.feed_numbers::<T>(ports, info);
    }

    /// Fills the ports of pixels and labels by `read`; `labels` is room for as many as there are.
    pub fn feed_pixels(
        &self,
        ports: &mut Ports<'_>,
        labels: &mut [u8],
        read: impl FnOnce(&mut [u8], &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let Some((pixels, port)) = &self.streamed else { return Ok(()) };
        read(ports.get_mut::<u8>(pixels), labels)?;
        ports.get_mut::<u8>(port).copy_from_slice(labels);
        Ok(())
    }

    fn feed_numbers<T: Float>(&self, ports: &mut Ports<'_>, info: StepInfo) {
        if let Some(rate) = &self.rate {
            ports.get_mut::<T>(rate)[0] = T::from_f64(info.rate);
        }
        if let Some(number) = &self.number {
            // After four billion steps every correction of a moment is long 1.
            ports.get_mut::<u32>(number)[0] = u32::try_from(info.number).unwrap_or(u32::MAX - 1);
        }
        if let Some(counter) = &self.counter {
            let bits = Stream::new(info.seed, COUNTERS).bits(info.number);
            ports.get_mut::<u32>(counter)[0] = (bits >> 32) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trainer;
    use crate::dataset::{Dataset, Split};
    use crate::optim::Sgd;
    use dahl_runtime::graph::{Cut, ScopeId, lower};
    use dahl_runtime::machine::Machine;

    /// A training step on batches of `n`, with nothing but zeros for images.
    fn recorded(model: Sequential, shape: [usize; 3], n: usize, fusion: bool) -> Step {
        recorded_as(model, shape, n, fusion, StepKind::Train)
    }

    /// A step of this kind, likewise.
    fn recorded_as(mut model: Sequential, shape: [usize; 3], n: usize, fusion: bool, kind: StepKind) -> Step {
        let split = Split::new(vec![0; n * shape.iter().product::<usize>()], vec![0; n]).unwrap();
        let classes = model.classes().unwrap();
        let (name, class_names) = ("zeros".to_string(), Vec::new());
        let data = Dataset { name, shape, classes, class_names, train: split.clone(), test: split };
        model.initialise(1).unwrap();
        let mut store = Store::new();
        let trainer = Trainer::new(&Machine::with_workers(1));
        let state = State::new::<f32>(&mut store, &trainer, &model, &data).unwrap();
        let (model, store, state) = (&model, &store, &state);
        let (optimizer, loss) = (&Sgd::PLAIN, &*crate::loss::usual(model));
        let (part, dtype) = (Part::Train, Dtype::F32);
        let fusions = if fusion { op::FUSIONS } else { &[] };
        let prospect = &op::default_cut().prospect();
        let recipe = Recipe { model, optimizer, loss, store, state, part, dtype, fusions, prospect };
        Step::record(recipe, n, kind).unwrap()
    }

    #[test]
    fn tasks_of_a_layer_name_the_line_that_appended_it() {
        let line = line!() + 1;
        let model = Sequential::new([1, 6, 6]).conv2d(2, 3).relu().flatten().dense(3);
        let step = recorded(model, [1, 6, 6], 4, true);
        for recorded in step.graph.tasks() {
            let (name, at) = (recorded.codelet.name, recorded.location);
            let is_step = name.starts_with("load") || ["softmax_ce", "sgd"].contains(&name);
            assert_eq!((at.file(), at.line()) == (file!(), line), !is_step, "{name} {at}");
        }
    }

    #[test]
    fn a_default_step_keeps_chunks_of_samples_whole_from_load_to_gradient() {
        for fusion in [false, true] {
            let step = recorded(Sequential::seed([1, 28, 28], 10), [1, 28, 28], 64, fusion);
            let has = |name: &str| step.graph.tasks().iter().any(|task| task.codelet.name == name);
            assert_eq!(has("conv2d"), !fusion);
            assert_eq!(has("conv2d_relu_max_pool_dw"), fusion);
            check_chunks(&step);
        }
    }

    #[test]
    fn gradients_of_many_weights_are_cut_along_their_rows_and_not_added_up() {
        let step = recorded(Sequential::builtin("mlp", [1, 28, 28], 10).unwrap(), [1, 28, 28], 128, true);
        let cut = Cut::heuristic(&step.graph, &op::default_cut()).unwrap();
        let lowered = lower(&step.graph, &cut).unwrap();
        let weights = |inputs: usize, outputs: usize| {
            let is_gradient = |task: &&dahl_runtime::graph::Task| {
                task.codelet == "dense_dw" && task.spec.args[2].extent[..] == [outputs, inputs]
            };
            let rows = |task: &dahl_runtime::graph::Task| {
                (task.spec.args[0].region.shape()[0], task.spec.args[2].region.shape()[0])
            };
            lowered.tasks().iter().filter(is_gradient).map(rows).collect::<Vec<_>>()
        };
        // 64 rows by all samples, where the parts of eight chunks would be 12 and 8 MB; chunks of 16 samples
        // for the small layer.
        assert_eq!(weights(784, 512), [(128, 64); 8]);
        assert_eq!(weights(512, 512), [(128, 64); 8]);
        assert_eq!(weights(512, 10), [(16, 10); 8]);
        let reduced = lowered.tasks().iter().filter(|task| task.codelet == "reduce");
        let elements: usize = reduced.map(|task| task.spec.args[1].region.len()).sum();
        // The biases, the last layer, loss and hits.
        assert_eq!(elements, 512 + 512 + 10 * 512 + 10 + 2);
        // Chunk by chunk, each copied by whoever computed it: both inputs whole, both gradients for each of
        // the tiles.
        let copies = lowered.tasks().iter().filter(|task| task.codelet == "assemble");
        assert_eq!(copies.clone().count(), 2 * 8 + 2 * 8 * 8);
        assert!(copies.clone().all(|task| task.spec.args[0].region.shape()[0] == 16 && task.tile.1 == 8));
        // One chunk has nothing to add up.
        let step = recorded(Sequential::builtin("mlp", [1, 28, 28], 10).unwrap(), [1, 28, 28], 16, true);
        let cut = Cut::heuristic(&step.graph, &op::default_cut()).unwrap();
        let lowered = lower(&step.graph, &cut).unwrap();
        assert!(lowered.tasks().iter().all(|task| !["assemble", "reduce"].contains(&task.codelet)));
    }

    /// What each task is for, as `codelet: scopes`, each once, in the order of the tasks.
    fn scopes<'a>(names: &[String], tasks: impl Iterator<Item = (&'a str, &'a Vec<ScopeId>)>) -> Vec<String> {
        let mut all = Vec::new();
        for (codelet, scopes) in tasks {
            let scopes: Vec<&str> = scopes.iter().map(|scope| names[scope.0].as_str()).collect();
            let line = format!("{codelet}: {}", scopes.join("+"));
            if !all.contains(&line) {
                all.push(line);
            }
        }
        all
    }

    fn recorded_scopes(step: &Step) -> Vec<String> {
        let tasks = step.graph.tasks().iter().map(|task| (task.codelet.name, &task.scopes));
        scopes(step.graph.scopes(), tasks)
    }

    /// Those of copies and sums that lowering inserts; tiles have those of their recorded task.
    fn inserted_scopes(step: &Step) -> Vec<String> {
        let cut = Cut::heuristic(&step.graph, &op::default_cut()).unwrap();
        let lowered = lower(&step.graph, &cut).unwrap();
        for task in lowered.tasks() {
            let origin = task.origin.map(|origin| &step.graph.tasks()[origin]);
            assert!(origin.is_none_or(|origin| origin.scopes == task.scopes), "{task:?}");
        }
        let inserted = lowered.tasks().iter().filter(|task| task.origin.is_none());
        scopes(lowered.scopes(), inserted.map(|task| (task.codelet, &task.scopes)))
    }

    #[test]
    fn tasks_of_lenet5_know_their_layers() {
        let model = || Sequential::builtin("lenet5", [1, 28, 28], 10).unwrap();
        let step = recorded(model(), [1, 28, 28], 64, false);
        let expected = "\
            load: load, conv2d: conv1, max_pool: pool1, relu: relu1, conv2d: conv2, max_pool: pool2, relu: relu2, \
            dense: fc1, relu: relu3, dense: fc2, relu: relu4, dense: fc3, load_labels: load, softmax_ce: loss, \
            dense_dw: fc3, dense_db: fc3, dense_dx: fc3, relu_backward: relu4, dense_dw: fc2, dense_db: fc2, \
            dense_dx: fc2, relu_backward: relu3, dense_dw: fc1, dense_db: fc1, dense_dx: fc1, \
            relu_backward: relu2, max_pool_backward: pool2, conv2d_dw: conv2, channel_sum: conv2, \
            conv2d_dx: conv2, relu_backward: relu1, max_pool_backward: pool1, conv2d_dw: conv1, \
            channel_sum: conv1, sgd: update";
        assert_eq!(recorded_scopes(&step).join(", "), expected);
        // Sums over up to 4096 neighbouring gradients, whatever the layers.
        let expected = "reduce: conv1+conv2+fc1, reduce: fc1, reduce: fc1+fc2, reduce: fc2, reduce: fc2+fc3, reduce: loss";
        assert_eq!(inserted_scopes(&step).join(", "), expected);

        // Fused tasks name the layers in the order of the network, whichever way they go through it.
        let fused = recorded_scopes(&recorded(model(), [1, 28, 28], 64, true));
        let changed: Vec<&str> =
            fused.iter().map(String::as_str).filter(|line| line.contains("pool")).collect();
        let expected = [
            "conv2d_relu_max_pool: conv1+relu1+pool1",
            "conv2d_relu_max_pool: conv2+relu2+pool2",
            "max_pool_backward: relu2+pool2",
            "conv2d_relu_max_pool_dw: conv2",
            "conv2d_relu_max_pool_dw: conv1+relu1+pool1",
        ];
        assert_eq!(changed, expected);
    }

    #[test]
    fn tasks_of_resnet8_know_their_layers_inside_of_blocks() {
        let model = Sequential::builtin("resnet8", [3, 32, 32], 10).unwrap();
        let layers: Vec<String> = model.summary().unwrap().into_iter().map(|row| row.name).collect();
        let step = recorded(model, [3, 32, 32], 64, true);
        let tasks = recorded_scopes(&step);
        for expected in [
            "conv2d: block2.shortcut.conv1",
            "batch_norm_normalise: block2.shortcut.bn1",
            "add: block2",
            "relu_conv2d_dx: block2.relu1+block2.conv2",
            "sgd: update",
        ] {
            assert!(tasks.iter().any(|line| line == expected), "{expected} in {tasks:?}");
        }
        let inserted = inserted_scopes(&step);
        for expected in
            ["assemble: block2.shortcut.conv1", "reduce: block2.shortcut.bn1", "reduce: fc1", "reduce: loss"]
        {
            assert!(inserted.iter().any(|line| line == expected), "{expected} in {inserted:?}");
        }
        // The names are those of `dahl model`, and everything that is no layer is known.
        let beside = ["load", "loss", "update"];
        for task in step.graph.tasks() {
            assert!(!task.scopes.is_empty(), "{}", task.codelet.name);
            for name in task.scopes.iter().map(|scope| &step.graph.scopes()[scope.0]) {
                assert!(layers.contains(name) || beside.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn every_task_of_every_kind_of_step_is_for_something() {
        for (kind, last) in [
            (StepKind::TrainDumped, "sgd: update"),
            (StepKind::Diagnose, "sgd: update"),
            (StepKind::Evaluate, "softmax_ce: loss"),
            (StepKind::Predict, "softmax: output"),
        ] {
            let step = recorded_as(Sequential::seed([1, 8, 8], 3), [1, 8, 8], 4, true, kind);
            let scopes = recorded_scopes(&step);
            assert!(scopes.iter().all(|line| !line.ends_with(": ")), "{kind:?} {scopes:?}");
            assert_eq!(scopes.last().map(String::as_str), Some(last), "{kind:?}");
        }
    }

    fn check_chunks(step: &Step) {
        let cut = Cut::heuristic(&step.graph, &op::default_cut()).unwrap();
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
