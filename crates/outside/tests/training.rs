//! A network of this crate's layer learns this crate's images by its optimiser and loss: in both element
//! types, to the same bits on any number of workers and under every schedule, and on from a checkpoint.

use dahl::dataset::{Dataset, Options};
use dahl::optim::LearningRate;
use dahl::prelude::*;
use dahl::runtime::plan::PlanFile;
use dahl::train::{Checkpoint, Event, Report, Schedule};
use dahl_outside::{FUSIONS, Prelu, RmsProp, Shapes, SquaredError, kinds, newest_first};
use std::ops::ControlFlow;
use std::path::PathBuf;

const BATCH: usize = 32;

fn model(data: &Dataset) -> Sequential {
    let model = Sequential::new(data.shape).conv2d(8, 3).layer(Prelu::new(0.25)).max_pool(2);
    model.flatten().dense(24).layer(Prelu::new(0.1)).dense(data.classes)
}

fn trainer(workers: usize, dtype: Dtype) -> Trainer {
    let trainer = Trainer::new(&Machine::with_workers(workers)).dtype(dtype).batch(BATCH).epochs(12);
    trainer.optimizer(RmsProp::default()).learning_rate(LearningRate::constant(0.003)).loss(SquaredError)
}

/// What a run came to, to the last bit.
fn bits(model: &Sequential, report: &Report) -> Vec<u64> {
    let epochs = report.epochs.iter().flat_map(|epoch| [epoch.loss, epoch.test_loss, epoch.test_accuracy]);
    epochs.chain(model.weights().unwrap_or_default().iter().copied()).map(f64::to_bits).collect()
}

/// A folder of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dahl-outside-{name}-{}", std::process::id()));
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn it_learns_to_the_same_bits_under_every_schedule_on_any_number_of_workers() -> dahl::Result<()> {
    let data = Shapes::dataset(600);
    for dtype in [Dtype::F32, Dtype::F64] {
        let mut first = None;
        for workers in [1, 2] {
            let trainer = trainer(workers, dtype);
            let own = ("newest_first", trainer.clone().scheduler(newest_first()));
            let trainers =
                Schedule::ALL.map(|schedule| (schedule.name(), trainer.clone().schedule(schedule)));
            for (schedule, trainer) in trainers.into_iter().chain([own]) {
                let mut model = model(&data);
                let report = trainer.fit(&mut model, &data)?;
                let (begin, end) = (&report.epochs[0], &report.epochs[11]);
                assert!(end.loss < 0.5 * begin.loss, "{dtype}: {} to {}", begin.loss, end.loss);
                assert!(end.test_accuracy > 0.9, "{dtype}: {}", end.test_accuracy);
                let bits = bits(&model, &report);
                assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "{dtype} {workers} {schedule}");
            }
        }
    }
    Ok(())
}

#[test]
fn fused_tasks_have_the_bits_of_separate_ones() -> dahl::Result<()> {
    FUSIONS.iter().try_for_each(|rule| rule.check())?;
    let data = Shapes::dataset(96);
    for dtype in [Dtype::F32, Dtype::F64] {
        let separate = trainer(2, dtype).epochs(2);
        let fused = separate.clone().fusions(&FUSIONS);
        let mut runs = Vec::new();
        for (trainer, n_fused) in [(&separate, 0), (&fused, 2)] {
            let mut model = model(&data);
            let plans = trainer.make_plans(&model, &data)?.to_string();
            let is_fused = |line: &&str| line.starts_with("task ") && line.contains("prelu_gradients");
            // One for each layer, in the one step that trains.
            assert_eq!(plans.lines().filter(is_fused).count(), n_fused, "{plans}");
            let report = trainer.fit(&mut model, &data)?;
            runs.push(bits(&model, &report));
        }
        assert_eq!(runs[0], runs[1], "{dtype}");
    }
    Ok(())
}

#[test]
fn images_in_memory_and_images_that_are_drawn_as_they_are_used_are_the_same() -> dahl::Result<()> {
    let streamed = Shapes::dataset(96);
    let kept = streamed.clone().kept(&Options::default(), &|_, _| ())?;
    assert!(streamed.train.resident().is_none() && kept.train.resident().is_some());
    let run = |data: &Dataset| -> dahl::Result<Vec<u64>> {
        let mut model = model(data);
        let report = trainer(2, Dtype::F32).epochs(2).fit(&mut model, data)?;
        Ok(bits(&model, &report))
    };
    assert_eq!(run(&streamed)?, run(&kept)?);
    Ok(())
}

#[test]
fn it_goes_on_from_a_checkpoint_as_if_it_had_never_stopped() -> dahl::Result<()> {
    let (data, folder) = (Shapes::dataset(200), Folder::new("resume"));
    let trainer = trainer(2, Dtype::F32).epochs(3);
    let mut whole = model(&data);
    trainer.fit(&mut whole, &data)?;

    // Stopped in the second epoch, and taken up by one worker.
    let mut stopped = model(&data);
    let mut n_steps = 0;
    trainer.clone().checkpoint(&folder.0, Some(1)).fit_with(&mut stopped, &data, |event| {
        n_steps += usize::from(matches!(event, Event::Step(_)));
        if n_steps < 9 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let checkpoint = Checkpoint::load(&folder.0)?.checkpoint;
    assert!((9..21).contains(&checkpoint.step), "{}", checkpoint.step);
    assert_eq!(checkpoint.settings["optimizer"], "rmsprop kept 0.9 eps 0.00000001");
    assert_eq!(checkpoint.settings["loss"], "squared error");
    let state = checkpoint.tensors.get("optimizer.square_avg.prelu1.weight").expect("what RMSprop keeps");
    assert!(state.to_f64()?.iter().any(|&value| value != 0.0));

    let resume = |trainer: Trainer| {
        let mut model = checkpoint.untrained_model(&kinds()?)?;
        let report = trainer.resume(checkpoint.clone()).fit(&mut model, &data)?;
        Ok::<_, dahl::Error>((model, report))
    };
    let (resumed, _) = resume(crate::trainer(1, Dtype::F32).epochs(3))?;
    assert_eq!(resumed.weights(), whole.weights());

    // Another optimiser or loss is another run.
    let error = resume(trainer.clone().sgd(0.003)).unwrap_err().to_string();
    assert!(error.contains("optimizer was 'rmsprop kept 0.9 eps 0.00000001', now it is 'sgd'"), "{error}");
    let usual = Trainer::new(&Machine::with_workers(1)).batch(BATCH).epochs(3).optimizer(RmsProp::default());
    let error = resume(usual.learning_rate(LearningRate::constant(0.003))).unwrap_err().to_string();
    assert!(error.contains("loss was 'squared error', now it is 'softmax cross-entropy'"), "{error}");

    // The loss counts for evaluation, too, and answers are probabilities by whatever it was trained with.
    let evaluation = trainer.evaluate(&whole, &data)?;
    let usual = Trainer::new(&Machine::with_workers(1)).evaluate(&whole, &data)?;
    assert_eq!(evaluation.accuracy, usual.accuracy);
    assert_ne!(evaluation.loss, usual.loss);
    let rows = trainer.predict(&whole, &data.test.image(0)?)?;
    assert!((rows[0].iter().sum::<f64>() - 1.0).abs() < 1e-5, "{rows:?}");
    Ok(())
}

#[test]
fn plans_and_checkpoints_name_the_scheduler() -> dahl::Result<()> {
    let (data, folder) = (Shapes::dataset(96), Folder::new("scheduler"));
    let trainer = trainer(2, Dtype::F32).scheduler(newest_first()).epochs(2);
    let mut whole = model(&data);
    trainer.clone().fit(&mut whole, &data)?;

    // In a plan file, which is executed by whoever provides the scheduler.
    let text = trainer.make_plans(&model(&data), &data)?.to_string();
    assert!(text.contains("\norder newest_first\n"), "{text}");
    let mut plans = PlanFile::parse("plan", &text)?;
    let error = crate::trainer(2, Dtype::F32).plan(plans.clone()).fit(&mut model(&data), &data).unwrap_err();
    assert!(error.to_string().contains("nobody provides a scheduler 'newest_first'"), "{error}");
    plans.provide(newest_first());
    let mut planned = model(&data);
    crate::trainer(2, Dtype::F32).epochs(2).plan(plans).fit(&mut planned, &data)?;
    assert_eq!(planned.weights(), whole.weights());

    // In a checkpoint, from which a run goes on with it or without.
    let mut first = model(&data);
    trainer.clone().epochs(1).checkpoint(&folder.0, None).fit(&mut first, &data)?;
    let checkpoint = Checkpoint::load(&folder.0)?.checkpoint;
    assert_eq!(checkpoint.settings["note.schedule"], "newest_first");
    for trainer in [trainer, crate::trainer(1, Dtype::F32).epochs(2)] {
        let mut resumed = model(&data);
        trainer.resume(checkpoint.clone()).fit(&mut resumed, &data)?;
        assert_eq!(resumed.weights(), whole.weights());
    }
    Ok(())
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_runs() {
    let data = Shapes::dataset(64);
    let optimizer = RmsProp { kept: 1.5, ..RmsProp::default() };
    let error = trainer(1, Dtype::F32).optimizer(optimizer).fit(&mut model(&data), &data).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rmsprop kept 1.5 eps 0.00000001: expected a share below 1 and an eps above 0"
    );
}
