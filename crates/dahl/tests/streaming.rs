//! Training on images that are read ahead of their use: the same bits as from memory, on any number of
//! workers, and an error that names the file where an image is damaged.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dahl::Trainer;
use dahl::dataset::{self, Dataset, Options};
use dahl::model::Sequential;
use dahl::train::{Checkpoint, Event};
use dahl_runtime::machine::Machine;

const SPEC: &str = "synthetic:1x8x8x4:150";

fn open(spec: &str, memory_bytes: Option<u64>) -> Dataset {
    let options = Options { memory_bytes, shape: Some([1, 8, 8]), ..Options::default() };
    dataset::open(spec, &options).expect("the data set is whole")
}

fn model(data: &Dataset) -> Sequential {
    Sequential::seed(data.shape, data.classes)
}

/// Three epochs with batches that do not divide the images.
fn trainer(n_workers: usize) -> Trainer {
    Trainer::new(&Machine::with_workers(n_workers)).sgd(0.1).batch(32).epochs(3)
}

/// Everything that may not differ: weights, and losses of training and testing.
fn train(data: &Dataset, trainer: Trainer) -> (Vec<f64>, Vec<(f64, f64)>) {
    let mut model = model(data);
    let report = trainer.fit(&mut model, data).expect("training succeeds");
    let losses = report.epochs.iter().map(|epoch| (epoch.loss, epoch.test_loss)).collect();
    (model.weights().expect("trained").to_vec(), losses)
}

/// A folder of its own, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("streaming-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("made");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn images_in_memory_and_read_ahead_give_the_same_bits() {
    let resident = open(SPEC, None);
    let expected = train(&resident, trainer(1));
    assert!(expected.1[2].0 < expected.1[0].0, "it learns: {:?}", expected.1);
    let streamed = open(SPEC, Some(0));
    let half = open(SPEC, Some(streamed.test.n_bytes() * 2));
    assert!(streamed.train.resident().is_none() && streamed.test.resident().is_none());
    assert!(half.train.resident().is_none() && half.test.resident().is_some());
    for n_workers in [1, 2, 4] {
        assert_eq!(train(&streamed, trainer(n_workers)), expected, "{n_workers} workers");
    }
    assert_eq!(train(&half, trainer(2)), expected);
    // Batches that hold all images, and more than there are.
    for batch in [150, 1000] {
        let trainer = || trainer(2).batch(batch);
        assert_eq!(train(&streamed, trainer()), train(&resident, trainer()));
    }
}

#[test]
fn a_run_that_is_stopped_goes_on_to_the_same_bits() {
    let (resident, streamed) = (open(SPEC, None), open(SPEC, Some(0)));
    let expected = train(&resident, trainer(2));
    let folder = Folder::new("resume");
    let mut steps = 0;
    let mut first = model(&streamed);
    let report =
        trainer(2).checkpoint(&folder.0, None).fit_with(&mut first, &streamed, |event| match event {
            Event::Step(_) if steps == 6 => ControlFlow::Break(()),
            Event::Step(_) => {
                steps += 1;
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        });
    let report = report.expect("training stops in good order");
    assert!(report.is_stopped && report.n_steps < 15, "{} steps", report.n_steps);
    let checkpoint = || Checkpoint::load(&folder.0).expect("saved").checkpoint;
    assert_eq!(train(&streamed, trainer(2).resume(checkpoint())).0, expected.0);
    // Where the images lie, and the number of workers, is part of the plan that a checkpoint holds, but not
    // of the bits.
    for workers in [1, 2] {
        assert_eq!(train(&resident, trainer(workers).resume(checkpoint())).0, expected.0);
    }
}

#[test]
fn a_damaged_image_ends_training_with_its_name() {
    let folder = Folder::new("damaged");
    for i in 0..60 {
        let class = folder.0.join(["a", "b", "c"][i % 3]);
        fs::create_dir_all(&class).expect("made");
        fs::write(class.join(format!("{i:02}.pgm")), format!("P2 2 2 255 {i} 0 {} 9", 3 * i))
            .expect("written");
    }
    let spec = folder.0.to_str().expect("UTF-8");
    let data = open(spec, Some(0));
    train(&data, trainer(2).batch(8));
    fs::write(folder.0.join("b/13.pgm"), "P2 2 2 255 1").expect("written");
    let data = open(spec, Some(0));
    let error =
        trainer(2).batch(8).fit(&mut model(&data), &data).expect_err("an image is damaged").to_string();
    assert!(error.contains("b/13.pgm") && error.contains("a value was expected"), "{error}");
    // The last image of class c is for testing.
    fs::write(folder.0.join("b/13.pgm"), "P2 2 2 255 1 2 3 4").expect("written");
    fs::write(folder.0.join("c/53.pgm"), "").expect("written");
    let data = open(spec, Some(0));
    let place = (0..data.test.len()).map(|i| data.test.place(i)).find(|place| place.ends_with("c/53.pgm"));
    assert!(place.is_some(), "it is a test image");
    let error =
        trainer(2).batch(8).fit(&mut model(&data), &data).expect_err("an image is damaged").to_string();
    assert!(error.contains("c/53.pgm") && error.contains("empty"), "{error}");
}
