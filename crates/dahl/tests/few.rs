//! Batches that would leave most lanes empty: which of them are computed without, and to the same values.

use dahl::Trainer;
use dahl::dataset;
use dahl::layer::{Conv2d, Dropout};
use dahl::model::Sequential;
use dahl::tune::Subject;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::machine::Machine;

/// Whether some task of a step on batches of this size, cut by these implementations, works in lanes.
fn has_lanes(model: &Sequential, batch: usize, dtype: Dtype, names: &str) -> bool {
    let mut cut = dahl::op::default_cut();
    cut.set_impls(names).unwrap();
    let planned = Subject::new(model, batch, dtype).unwrap().plan(&cut, 1).unwrap();
    let mut layouts = planned.lowered.tasks().iter().flat_map(|task| &task.spec.args).map(|arg| arg.layout);
    layouts.any(|layout| matches!(layout, Layout::Lanes(_)))
}

#[test]
fn small_batches_are_computed_without_lanes_where_every_task_can_be() {
    let named = |name: &str, shape| Sequential::builtin(name, shape, 10).unwrap();
    for name in ["seed", "lenet5", "mlp"] {
        let model = named(name, [1, 28, 28]);
        for (batch, dtype, is_in_lanes) in [
            (1, Dtype::F32, false),
            (8, Dtype::F32, false),
            (9, Dtype::F32, true),
            (4, Dtype::F64, false),
            (5, Dtype::F64, true),
        ] {
            assert_eq!(has_lanes(&model, batch, dtype, "few"), is_in_lanes, "{name}, {batch}, {dtype}");
        }
        assert!(has_lanes(&model, 1, Dtype::F32, "lanes"), "{name}");
    }
    assert!(!has_lanes(&named("vggish", [3, 32, 32]), 1, Dtype::F32, "few"));
    // Its normalisation has lanes only, and its convolutions move by two.
    assert!(has_lanes(&named("resnet8", [3, 32, 32]), 1, Dtype::F32, "few"));
}

#[test]
fn the_values_are_those_of_lanes() {
    let conv = |filters, kernel, padding| Conv2d::new(filters, kernel).padding(padding);
    let deep = Sequential::new([1, 8, 8]).layer(conv(3, 1, 0)).relu().layer(conv(5, 3, 1)).relu();
    let deep = deep
        .layer(conv(4, 5, 2))
        .relu()
        .max_pool(2)
        .flatten()
        .dense(21)
        .relu()
        .layer(Dropout::new(0.3))
        .dense(10);
    let mut data = dataset::digits();
    data.train.truncate(40);
    data.test.truncate(4);
    for model in [deep, Sequential::seed([1, 8, 8], 10)] {
        for batch in [1, 3] {
            let weights = |names: &str| {
                let mut cut = dahl::op::default_cut();
                cut.set_impls(names).unwrap();
                assert_eq!(has_lanes(&model, batch, Dtype::F64, names), names == "lanes");
                let mut model = model.clone();
                let trainer = Trainer::new(&Machine::with_workers(2)).sgd(0.05).dtype(Dtype::F64);
                let report = trainer.batch(batch).cut(cut).fit(&mut model, &data).unwrap();
                let epoch = &report.epochs[0];
                let mut values = model.weights().unwrap().to_vec();
                values.extend([epoch.loss, epoch.test_loss, epoch.test_accuracy]);
                values
            };
            for (flat, lanes) in weights("few").into_iter().zip(weights("lanes")) {
                assert!((flat - lanes).abs() <= 1e-9 * lanes.abs().max(1.0), "{flat} {lanes}");
            }
        }
    }
}
