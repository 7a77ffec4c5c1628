//! Training as a whole: interrupted runs, numbers that go wrong, optimisers, prediction.

use dahl::dataset::{self, Dataset};
use dahl::layer::Conv2d;
use dahl::model::Sequential;
use dahl::optim::{Adam, AdamW, AnyOptimizer, Decay, LearningRate, Moments, Sgd};
use dahl::train::{Checkpoint, Event, FolderLock, Report};
use dahl::{Result, Trainer};
use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::machine::Machine;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

/// A folder of its own for a test, removed when it is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dahl-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn digits() -> Dataset {
    let mut data = dataset::digits();
    data.train.truncate(333);
    data
}

/// Two convolutions, so that one has to hand a gradient on.
fn model(data: &Dataset) -> Sequential {
    let model = Sequential::new(data.shape).layer(Conv2d::new(4, 3).padding(1)).relu().conv2d(6, 3);
    model.relu().max_pool(2).flatten().dense(data.classes)
}

/// Everything a trainer can keep between steps, and a rate that changes with every one.
fn trainer(workers: usize, dtype: Dtype) -> Trainer {
    let rate = LearningRate { base: 0.003, warm_up: 5, decay: Decay::Cosine { floor: 0.0001 } };
    let trainer = Trainer::new(&Machine::with_workers(workers)).dtype(dtype).batch(50).epochs(3);
    trainer.optimizer(AdamW(Moments::with_decay(0.01))).learning_rate(rate)
}

/// The loss and test accuracy of each epoch, by bits.
fn bits(report: &Report) -> Vec<(usize, u64, u64)> {
    let of = |epoch: &dahl::train::Epoch| (epoch.epoch, epoch.loss.to_bits(), epoch.test_accuracy.to_bits());
    report.epochs.iter().map(of).collect()
}

#[test]
fn a_run_that_is_stopped_anywhere_goes_on_to_the_same_bits() -> Result<()> {
    let data = digits();
    for dtype in [Dtype::F32, Dtype::F64] {
        let mut whole = model(&data);
        let expected = trainer(2, dtype).fit(&mut whole, &data)?;
        assert_eq!(expected.n_steps, 3 * 7);
        // In the middle, after the last full batch, after the rest, at the end of an epoch, before the end.
        for stop_at in [1, 6, 7, 8, 13, 14, 20] {
            let folder = Folder::new(&format!("stop-{dtype}-{stop_at}"));
            let mut steps = 0;
            let mut first = model(&data);
            let trainer = trainer(2, dtype).checkpoint(&folder.0, Some(4));
            let report = trainer.fit_with(&mut first, &data, |event| {
                steps += u64::from(matches!(event, Event::Step(_)));
                if steps >= stop_at { ControlFlow::Break(()) } else { GO_ON }
            })?;
            assert!(report.is_stopped && report.n_steps >= stop_at, "{stop_at}: {report:?}");
            let loaded = Checkpoint::load(&folder.0)?;
            assert_eq!(loaded.checkpoint.step, report.n_steps);
            // Another number of workers plans anew, which bits do not depend on.
            for workers in [1, 2] {
                let mut second = model(&data);
                let trainer = self::trainer(workers, dtype).resume(loaded.checkpoint.clone());
                let rest = trainer.fit(&mut second, &data)?;
                assert_eq!(second.weights(), whole.weights(), "{dtype} stopped at {stop_at}");
                let (ended, all) = (bits(&rest), bits(&expected));
                assert_eq!(ended, all[all.len() - ended.len()..]);
            }
        }
    }
    Ok(())
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_every_difference() -> Result<()> {
    let data = digits();
    let folder = Folder::new("other");
    let first = trainer(1, Dtype::F32).max_steps(Some(2)).checkpoint(&folder.0, None);
    // The rate depends on the number of steps, so a run that is cut short is another run.
    first.fit(&mut model(&data), &data)?;
    let checkpoint = Checkpoint::load(&folder.0)?.checkpoint;
    let other = trainer(1, Dtype::F32).batch(40).seed(7).optimizer(Sgd::PLAIN).resume(checkpoint);
    let message = other.fit(&mut model(&data), &data).unwrap_err().to_string();
    for part in ["batch was '50', now it is '40'", "seed was '1'", "optimizer was 'adamw", "steps in all"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    // What another optimiser keeps is missing for every parameter; some are named, and all are counted.
    let folder = Folder::new("other-optimizer");
    let sgd = trainer(1, Dtype::F32).max_steps(Some(2)).optimizer(Sgd::PLAIN);
    sgd.checkpoint(&folder.0, None).fit(&mut model(&data), &data)?;
    let other = trainer(1, Dtype::F32).resume(Checkpoint::load(&folder.0)?.checkpoint);
    let message = other.fit(&mut model(&data), &data).unwrap_err().to_string();
    assert_eq!(message.matches("is missing").count(), 3, "{message}");
    assert!(message.contains("; 9 more tensors are missing or others;"), "{message}");
    Ok(())
}

#[test]
fn a_loss_that_is_not_finite_names_step_layer_and_tensor() {
    let data = digits();
    let plain = |rate: f64| Trainer::new(&Machine::with_workers(2)).batch(50).epochs(40).sgd(rate);
    let message = plain(1e30).fit(&mut model(&data), &data).unwrap_err().to_string();
    assert!(message.contains("at step 2 (epoch 1, batch 2)"), "{message}");
    assert!(message.contains("is conv2.y") && message.contains("in step 2"), "{message}");
    // Weights that are wrong from the start are said to be.
    let mut broken = model(&data);
    broken.initialise(1).unwrap();
    let mut weights = broken.weights().unwrap().to_vec();
    let fc = broken.parameters().unwrap().into_iter().find(|p| p.name == "fc1.weight").unwrap();
    weights[fc.offset + 3] = f64::NAN;
    broken.set_weights(weights).unwrap();
    let message = plain(0.1).fit(&mut broken, &data).unwrap_err().to_string();
    assert!(message.contains("fc1.weight") && message.contains("before step 1"), "{message}");
}

#[test]
fn a_loss_that_is_finite_and_astronomical_ends_a_run_too() {
    let data = dataset::digits();
    let fit = |rate: f64| {
        let mut model = Sequential::seed(data.shape, data.classes);
        Trainer::new(&Machine::with_workers(2)).epochs(2).sgd(rate).fit(&mut model, &data)
    };
    let message = fit(1e10).unwrap_err().to_string();
    for part in
        ["in epoch 1", "on the test images", "guessing gives 2.30", "smaller learning rate than 10000000000"]
    {
        assert!(message.contains(part), "{part} in {message}");
    }
    // Bad as it is, nobody can know that nothing will come of it.
    assert_eq!(fit(100.0).unwrap().epochs.len(), 2);
}

#[test]
fn an_update_that_overflows_is_told_although_no_loss_did() {
    let data = digits();
    // One step, whose loss is that of the initial weights.
    let trainer =
        Trainer::new(&Machine::with_workers(1)).batch(50).max_steps(Some(1)).sgd(1e300).dtype(Dtype::F64);
    let trainer = trainer.learning_rate(LearningRate::constant(f64::MAX));
    let message = trainer.fit(&mut model(&data), &data).unwrap_err().to_string();
    assert!(message.contains("not finite") || message.contains("loss on the test images"), "{message}");
    let batches: Vec<Vec<u32>> = vec![(0..50).collect(); 3];
    let message =
        trainer.max_steps(None).replay_batches(&mut model(&data), &data, &batches).unwrap_err().to_string();
    assert!(message.contains("at step 2"), "{message}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_does_not_cost_what_was_learned() -> Result<()> {
    let data = digits();
    let folder = Folder::new("file");
    for every in [None, Some(3)] {
        let mut unsaved = model(&data);
        let trainer = trainer(1, Dtype::F32).epochs(1);
        let saving = trainer.clone().checkpoint(&folder.0, every);
        // The folder is there when the run begins.
        let trained = saving.fit_with(&mut unsaved, &data, |_| {
            if folder.0.is_dir() {
                std::fs::remove_dir_all(&folder.0).unwrap();
                std::fs::write(&folder.0, "in the way").unwrap();
            }
            GO_ON
        });
        let message = trained.unwrap_err();
        assert!(message.to_string().contains(&folder.0.display().to_string()), "{message}");
        // Where it is not, no step is made.
        let mut untouched = model(&data);
        let message = saving.fit(&mut untouched, &data).unwrap_err().to_string();
        assert!(message.contains("a file is in its place") && untouched.weights().is_none(), "{message}");
        std::fs::remove_file(&folder.0).unwrap();
        let mut learned = model(&data);
        trainer.max_steps(every).fit(&mut learned, &data)?;
        // The learning rate depends on the number of steps, so that only whole epochs can be compared.
        assert!(unsaved.weights().is_some() && (every.is_some() || unsaved.weights() == learned.weights()));
    }
    Ok(())
}

#[test]
fn two_trainers_do_not_save_into_one_folder() -> Result<()> {
    let data = digits();
    let folder = Folder::new("two");
    let saving = trainer(1, Dtype::F32).max_steps(Some(2)).checkpoint(&folder.0, None);
    let mut refused = 0;
    saving.fit_with(&mut model(&data), &data, |_| {
        let message = saving.fit(&mut model(&data), &data).unwrap_err().to_string();
        assert!(message.contains("another run saves into this folder"), "{message}");
        refused += 1;
        GO_ON
    })?;
    assert!(refused > 0);
    // One after the other they do, also with a lock that was taken before.
    let lock = FolderLock::take(&folder.0)?;
    assert!(saving.fit(&mut model(&data), &data).is_err());
    saving.clone().lock(lock).fit(&mut model(&data), &data)?;
    saving.fit(&mut model(&data), &data)?;
    Ok(())
}

#[test]
fn a_label_beyond_the_classes_is_refused() {
    let mut data = digits();
    data.classes = 9;
    let message = trainer(1, Dtype::F32).fit(&mut model(&data), &data).unwrap_err().to_string();
    assert!(message.contains("of class 9") && message.contains("go up to 8"), "{message}");
}

#[test]
fn a_run_goes_on_as_it_was_cut() -> Result<()> {
    let data = digits();
    let folder = Folder::new("cut");
    let first = trainer(2, Dtype::F32);
    first.clone().checkpoint(&folder.0, None).fit_with(&mut model(&data), &data, |event| match event {
        Event::Epoch(_) => ControlFlow::Break(()),
        _ => GO_ON,
    })?;
    let checkpoint = Checkpoint::load(&folder.0)?.checkpoint;
    let tilings = vec![vec![("n".to_string(), TileSize::Size(32))]];
    let other = CutOptions { tilings, ..dahl::op::default_cut() };
    // The plan of the checkpoint says how tasks are cut; on another machine nobody does.
    first.clone().cut(other.clone()).resume(checkpoint.clone()).fit(&mut model(&data), &data)?;
    let elsewhere = trainer(3, Dtype::F32).cut(other).resume(checkpoint.clone());
    let message = elsewhere.fit(&mut model(&data), &data).unwrap_err().to_string();
    assert!(message.contains("cut was"), "{message}");
    // A machine on which the plan cannot be executed plans anew.
    let machine = Machine::with_workers(2).with_test_unit();
    let mut there = model(&data);
    let rate = LearningRate { base: 0.003, warm_up: 5, decay: Decay::Cosine { floor: 0.0001 } };
    let trainer = Trainer::new(&machine).batch(50).epochs(3).learning_rate(rate);
    trainer.optimizer(AdamW(Moments::with_decay(0.01))).resume(checkpoint).fit(&mut there, &data)?;
    let mut whole = model(&data);
    first.fit(&mut whole, &data)?;
    assert_eq!(there.weights(), whole.weights());
    Ok(())
}

#[test]
fn the_same_bits_on_any_number_of_workers_for_every_optimiser() -> Result<()> {
    let data = digits();
    let optimizers: [AnyOptimizer; 4] = [
        Arc::new(Sgd::PLAIN),
        Arc::new(Sgd { momentum: 0.9, weight_decay: 0.001, nesterov: true }),
        Arc::new(Adam(Moments::with_decay(0.001))),
        Arc::new(AdamW(Moments::with_decay(0.001))),
    ];
    for optimizer in optimizers {
        let mut results = Vec::new();
        for workers in [1, 2, 4] {
            let mut model = model(&data);
            let trainer = trainer(workers, Dtype::F32).optimizer(optimizer.clone()).epochs(2);
            let report = trainer.fit(&mut model, &data)?;
            results.push((model.weights().map(<[f64]>::to_vec), bits(&report)));
        }
        assert!(results.iter().all(|result| *result == results[0]), "{optimizer}");
    }
    Ok(())
}

#[test]
fn predictions_agree_with_the_evaluation() -> Result<()> {
    let data = digits();
    let mut model = model(&data);
    let trainer = trainer(2, Dtype::F32).epochs(8);
    let report = trainer.fit(&mut model, &data)?;
    let evaluation = trainer.evaluate(&model, &data)?;
    assert_eq!(evaluation.accuracy, report.epochs[7].test_accuracy);
    let images = data.test.resident().unwrap_or_default();
    let rows = trainer.predict(&model, images)?;
    assert_eq!(rows.len(), data.test.len());
    let largest = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let correct = |(row, label): (&Vec<f64>, &u8)| largest(row) == Some(usize::from(*label));
    let n_correct = rows.iter().zip(data.test.labels()).filter(|&pair| correct(pair)).count();
    assert_eq!(n_correct as f64 / rows.len() as f64, evaluation.accuracy);
    assert!(rows.iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-5));
    assert!(trainer.predict(&model, &images[..63]).is_err());
    Ok(())
}
