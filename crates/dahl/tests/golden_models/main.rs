//! The built-in models against PyTorch: losses, first gradients, final weights, running statistics and
//! evaluation, from the same initial weights and batches.
//!
//! Both sides draw initial weights, synthetic images and dropout from the same generator, so the files in
//! `tests/golden/models` hold only settings, batches and results. `scripts/golden_models.py` makes them.
//! `.ci/full` does the same with the command `dahl`, whole tensors and Fashion-MNIST (`scripts/parity.py`).

mod golden;

use dahl::dataset::Dataset;
use dahl::model::Sequential;
use dahl::train::{Schedule, StepDump};
use dahl_runtime::array::Dtype;
use dahl_runtime::graph::CutOptions;
use golden::{Golden, Sample, part, worst};

/// A training with dahl, to be compared with a golden file.
struct Training {
    golden: Golden,
    data: Dataset,
    model: Sequential,
    dump: StepDump,
}

impl Training {
    /// The case in its golden file, or the first steps of it.
    fn new(case: &str, dtype: Dtype, cut: CutOptions, schedule: Schedule, steps: usize) -> Self {
        let golden = Golden::read(case);
        let data = golden.data();
        let mut model = golden.model(&data);
        check_start(&golden, &model);
        let mut batches = golden.batches();
        assert!(batches.len() >= 50, "{} steps", batches.len());
        batches.truncate(steps);
        let trainer = golden.trainer().dtype(dtype).cut(cut).schedule(schedule);
        let dump = trainer.replay_batches(&mut model, &data, &batches).expect("training works");
        Training { golden, data, model, dump }
    }

    /// The largest relative difference of a loss.
    fn losses(&self) -> f64 {
        let theirs = self.golden.floats("losses");
        worst(self.dump.losses.iter().zip(&theirs).map(|(a, b)| (a - b).abs() / b.abs()))
    }

    fn logits(&self) -> f64 {
        let theirs = self.golden.floats("logits");
        assert_eq!(self.dump.logits.len(), theirs.len());
        let largest = worst(theirs.iter().map(|value| value.abs()));
        worst(self.dump.logits.iter().zip(&theirs).map(|(a, b)| (a - b).abs() / largest))
    }

    /// The largest difference of a gradient in the first step, relative to the largest element of its
    /// parameter's gradient.
    fn gradients(&self) -> f64 {
        let parameters = self.model.parameters().expect("the model is sound");
        assert_eq!(parameters.len(), self.golden.count("grad."));
        worst(parameters.iter().map(|named| {
            let ours = Sample::of(part(&self.dump.gradients, named));
            ours.distance(&self.golden.sample(&format!("grad.{}", named.name)))
        }))
    }

    /// The same of the parameters and running statistics at the end.
    fn last(&self) -> f64 {
        let (parameters, buffers) = (self.model.parameters(), self.model.buffers());
        let (parameters, buffers) = (parameters.expect("sound"), buffers.expect("sound"));
        assert_eq!(parameters.len() + buffers.len(), self.golden.count("final."));
        let weights = self.model.weights().expect("trained");
        let statistics = self.model.statistics().unwrap_or_default();
        let parts = parameters.iter().map(|named| (named, part(weights, named)));
        let parts = parts.chain(buffers.iter().map(|named| (named, part(statistics, named))));
        worst(parts.map(|(named, ours)| {
            Sample::of(ours).distance(&self.golden.sample(&format!("final.{}", named.name)))
        }))
    }

    /// Loss and accuracy over the test images, in evaluation mode.
    fn evaluation(&self) -> f64 {
        let trainer = self.golden.trainer().dtype(Dtype::F64);
        let ours = trainer.evaluate(&self.model, &self.data).expect("evaluation works");
        let theirs = self.golden.floats("test");
        worst([(ours.loss - theirs[0]).abs() / theirs[0], (ours.accuracy - theirs[1]).abs()].into_iter())
    }

    fn check_f64(&self, what: &str) {
        let (loss, logits, gradient) = (self.losses(), self.logits(), self.gradients());
        println!("{what}: loss {loss:.1e} logits {logits:.1e} gradient {gradient:.1e}");
        assert!(loss < 1e-9, "{what}: losses differ by {loss:e}");
        assert!(logits < 1e-12, "{what}: first logits differ by {logits:e}");
        assert!(gradient < 1e-12, "{what}: first gradients differ by {gradient:e}");
        if self.dump.losses.len() == self.golden.floats("losses").len() {
            let (last, evaluation) = (self.last(), self.evaluation());
            println!("{what}: final weights {last:.1e} evaluation {evaluation:.1e}");
            assert!(last < 1e-8, "{what}: final weights differ by {last:e}");
            assert!(evaluation < 1e-9, "{what}: evaluation differs by {evaluation:e}");
        }
    }

    /// In `f32`, losses are at most three times as far from PyTorch's in `f64` as PyTorch's own in `f32` are,
    /// both taken at their farthest.
    fn check_f32(&self, what: &str) {
        let exact = self.golden.floats("losses");
        let far = |losses: &[f64]| worst(losses.iter().zip(&exact).map(|(a, b)| (a - b).abs()));
        let (ours, theirs) = (far(&self.dump.losses), far(&self.golden.floats("losses_f32")));
        let gradient = self.gradients();
        println!("{what}: loss {ours:.1e}, PyTorch {theirs:.1e}, gradient {gradient:.1e}");
        assert!(ours <= 3.0 * theirs, "{what}: losses are off by {ours:e}, PyTorch's by {theirs:e}");
        assert!(gradient < 1e-5, "{what}: first gradients differ by {gradient:e}");
    }
}

/// Initial weights follow from the seed, to the last bit.
fn check_start(golden: &Golden, model: &Sequential) {
    let weights = model.weights().expect("initial weights");
    for named in model.parameters().expect("the model is sound") {
        let theirs = golden.sample(&format!("init.{}", named.name));
        let ours = Sample::of(part(weights, &named));
        assert_eq!((&ours.elements, ours.largest), (&theirs.elements, theirs.largest), "{}", named.name);
    }
}

/// Scalar loops in place of everything fast.
fn references() -> CutOptions {
    CutOptions { implementations: vec!["reference".into()], ..dahl::op::default_cut() }
}

/// All of a case with the fast implementations in both element types, and its first step with the references.
fn check(case: &str) {
    let fast = dahl::op::default_cut();
    Training::new(case, Dtype::F64, fast.clone(), Schedule::Replay, usize::MAX).check_f64(case);
    Training::new(case, Dtype::F64, references(), Schedule::Replay, 1)
        .check_f64(&format!("{case} references"));
    Training::new(case, Dtype::F32, fast, Schedule::Replay, usize::MAX).check_f32(&format!("{case} f32"));
}

#[test]
fn seed_on_the_digits_with_every_implementation_and_schedule() {
    let case = "seed_digits";
    for (name, cut) in [("fast", dahl::op::default_cut()), ("references", references())] {
        for schedule in Schedule::ALL {
            let what = format!("{case} {name} {schedule:?}");
            Training::new(case, Dtype::F64, cut.clone(), schedule, usize::MAX).check_f64(&what);
        }
        Training::new(case, Dtype::F32, cut, Schedule::Replay, usize::MAX)
            .check_f32(&format!("{case} {name} f32"));
    }
}

#[test]
fn lenet5_with_adam() {
    check("lenet5");
}

#[test]
fn vggish_with_momentum() {
    check("vggish");
}

#[test]
fn resnet8_with_batch_normalisation_momentum_and_weight_decay() {
    check("resnet8");
}

#[test]
fn mlp_with_adamw_and_dropout() {
    check("mlp");
}
