//! The models that come with the program learn: from fixed batches, with all kinds of layers in one step.

use dahl::Trainer;
use dahl::dataset;
use dahl::model::Sequential;
use dahl_runtime::array::Dtype;
use dahl_runtime::machine::Machine;

/// Losses of a model on the same 24 digits again and again.
fn losses(name: &str, dtype: Dtype, workers: usize, steps: usize) -> (Vec<f64>, Sequential) {
    let data = dataset::digits();
    let mut model = Sequential::builtin(name, data.shape, data.classes).expect("it takes images of 8×8");
    let trainer = Trainer::new(&Machine::with_workers(workers)).dtype(dtype).sgd(0.1).seed(3);
    let batches = vec![(0..24).collect::<Vec<u32>>(); steps];
    let dump = trainer.replay_batches(&mut model, &data, &batches).expect("trained");
    (dump.losses, model)
}

#[test]
fn models_learn_a_batch_by_heart() {
    // A plain stack of convolutions begins slowly.
    for (name, goal) in [("seed", 0.7), ("vggish", 1.0), ("resnet8", 0.3), ("mlp", 0.7)] {
        let (losses, _) = losses(name, Dtype::F32, 2, 100);
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        // Ten classes, and nothing is known yet.
        assert!((1.8..3.0).contains(&first), "{name}: {first}");
        assert!(last < goal * first, "{name}: from {first} to {last}");
    }
}

#[test]
fn bits_do_not_depend_on_workers() {
    for name in ["resnet8", "mlp"] {
        for dtype in [Dtype::F32, Dtype::F64] {
            let (one, first) = losses(name, dtype, 1, 3);
            let (three, second) = losses(name, dtype, 3, 3);
            assert_eq!(one, three, "{name}");
            assert_eq!(first.weights(), second.weights(), "{name}");
            assert_eq!(first.statistics(), second.statistics(), "{name}");
            let moved =
                first.statistics().expect("there").iter().filter(|&&value| value != 0.0 && value != 1.0);
            assert_eq!(moved.count() > 0, name == "resnet8");
        }
    }
}
