//! Into whatever groups the layers are divided, each with flat arrays of its own: the same bits, the same
//! checkpoints.

use dahl::dataset::{self, Dataset, Split};
use dahl::model::Sequential;
use dahl::optim::{Adam, AnyOptimizer, Moments, Sgd};
use dahl::train::{Checkpoint, Schedule};
use dahl::{Result, Trainer};
use dahl_runtime::machine::Machine;
use std::sync::Arc;

/// A few images of this shape.
fn images(shape: [usize; 3]) -> Dataset {
    let split = |n: usize| {
        let pixels = (0..n * shape.iter().product::<usize>()).map(|i| (i * 7919 % 251) as u8).collect();
        Split::new(pixels, (0..n).map(|i| (i % 10) as u8).collect()).expect("as many labels as images")
    };
    let (train, test) = (split(40), split(8));
    Dataset { name: "waves".into(), shape, classes: 10, class_names: Vec::new(), train, test }
}

/// No groups, two, and one for every layer.
fn groupings(model: &Sequential) -> [Vec<usize>; 3] {
    let n = model.chain().layers().count();
    [Vec::new(), vec![n / 2], (1..n).collect()]
}

#[test]
fn every_model_trains_to_the_same_bits_in_any_groups() -> Result<()> {
    for builtin in Sequential::BUILTIN {
        let input = builtin.model(None, 10)?.input().to_vec();
        let data = images([input[0], input[1], input[2]]);
        let model = builtin.model(Some(data.shape), 10)?;
        // SGD keeps nothing, and Adam counts its steps.
        let optimizers: [AnyOptimizer; 2] = [Arc::new(Sgd::PLAIN), Arc::new(Adam(Moments::with_decay(0.01)))];
        for optimizer in optimizers {
            let mut trained = Vec::new();
            for groups in groupings(&model) {
                let trainer = Trainer::new(&Machine::with_workers(2)).sgd(0.01).optimizer(optimizer.clone());
                let trainer = trainer.batch(16).groups(&groups);
                let mut model = model.clone();
                let dump = trainer.first_step(&model, &data)?;
                let report = trainer.fit(&mut model, &data)?;
                let loss = report.epochs[0].loss.to_bits();
                let dumped: Vec<u64> = dump.gradients.iter().map(|value| value.to_bits()).collect();
                trained.push((
                    model.weights().map(<[f64]>::to_vec),
                    model.statistics().map(<[f64]>::to_vec),
                    loss,
                    dumped,
                ));
            }
            assert!(
                trained[0] == trained[1] && trained[0] == trained[2],
                "{} with {optimizer}",
                builtin.name
            );
        }
    }
    Ok(())
}

#[test]
fn each_group_has_its_own_arrays() -> Result<()> {
    let data = images([1, 28, 28]);
    let model = Sequential::builtin("lenet5", data.shape, 10)?;
    let trainer = Trainer::new(&Machine::with_workers(1)).batch(16).optimizer(Adam(Moments::with_decay(0.0)));
    for (groups, expected) in [(vec![], vec![61_706]), (vec![3], vec![156, 61_550])] {
        let planned = trainer.clone().groups(&groups).plan_step(&model, &data)?;
        let updates = planned.lowered.tasks().iter().filter(|task| task.codelet == "adam");
        let mut lengths: Vec<usize> = updates.map(|task| task.spec.args[3].extent[0]).collect();
        lengths.dedup();
        assert_eq!(lengths, expected);
        let n_states = trainer.clone().groups(&groups).make_plans(&model, &data)?.to_string();
        let n_states = n_states.lines().filter(|line| line.contains(" exp_avg")).count();
        // Both moments of each group, in the step for full batches and in that for the rest.
        assert_eq!(n_states, 2 * 2 * expected.len());
    }
    Ok(())
}

#[test]
fn checkpoints_are_the_same_in_any_groups_and_go_on_in_any_others() -> Result<()> {
    let mut data = dataset::digits();
    data.train.truncate(200);
    let model = || Sequential::new(data.shape).conv2d(4, 3).relu().max_pool(2).flatten().dense(10);
    let trainer = |groups: &[usize]| {
        let trainer = Trainer::new(&Machine::with_workers(2)).sgd(0.05).batch(48).epochs(2).groups(groups);
        trainer.optimizer(Sgd { momentum: 0.9, weight_decay: 1e-4, nesterov: false })
    };
    let mut whole = model();
    trainer(&[]).fit(&mut whole, &data)?;
    let mut tensors = Vec::new();
    for groups in groupings(&model()) {
        let folder =
            std::env::temp_dir().join(format!("dahl-groups-{}-{}", groups.len(), std::process::id()));
        let first = trainer(&groups).epochs(1).checkpoint(&folder, None).fit(&mut model(), &data);
        let loaded = first.and_then(|_| Checkpoint::load(&folder));
        let _ = std::fs::remove_dir_all(&folder);
        let checkpoint = loaded?.checkpoint;
        for others in groupings(&model()) {
            for schedule in [Schedule::Replay, Schedule::Eager] {
                let mut rest = model();
                let trainer = trainer(&others).schedule(schedule).resume(checkpoint.clone());
                trainer.fit(&mut rest, &data)?;
                assert_eq!(rest.weights(), whole.weights(), "from {groups:?} to {others:?}");
            }
        }
        tensors.push(checkpoint.tensors);
    }
    assert!(tensors.windows(2).all(|pair| pair[0] == pair[1]), "tensors differ");
    Ok(())
}

#[test]
fn groups_that_are_none_are_refused() {
    let data = images([1, 8, 8]);
    let model = Sequential::new(data.shape).flatten().dense(10);
    for groups in [&[0][..], &[2], &[1, 1]] {
        let trainer = Trainer::new(&Machine::with_workers(1)).groups(groups);
        let message = trainer.fit(&mut model.clone(), &data).unwrap_err().to_string();
        assert!(message.contains("cannot begin a group") && message.contains("below 2"), "{message}");
    }
    // The first group has no weights, and so no arrays.
    Trainer::new(&Machine::with_workers(1)).groups(&[1]).fit(&mut model.clone(), &data).expect("trained");
}
