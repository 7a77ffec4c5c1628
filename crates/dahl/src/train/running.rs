//! Training, testing and using a model.

use super::fit::{self, fit};
use super::report::{Evaluation, Event, Report};
use super::state::Part;
use super::step::{StepInfo, StepKind};
use super::trainer::{CheckpointSettings, Trainer};
use super::workbench::Workbench;
use super::{FolderLock, saved};
use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::model::Sequential;
use crate::op::Float;
use dahl_runtime::shape::Dtype;
use std::ops::ControlFlow;

/// Does something in the element type of a trainer.
macro_rules! in_dtype {
    ($trainer:expr, $T:ident => $body:expr) => {
        match $trainer.dtype {
            Dtype::F32 => {
                type $T = f32;
                $body
            }
            Dtype::F64 => {
                type $T = f64;
                $body
            }
            other => Err(Error::setting(format!("training computes in f32 or f64, not in {other}"))),
        }
    };
}
pub(super) use in_dtype;

impl Trainer {
    /// Trains a model on a data set, from its weights or, if it has none, from initial ones drawn by the
    /// seed.
    pub fn fit(&self, model: &mut Sequential, data: &Dataset) -> Result<Report> {
        self.fit_with(model, data, |_| ControlFlow::Continue(()))
    }

    /// The same, telling about everything as soon as it happens. `Break` ends training after the steps that
    /// are under way; the model keeps what it has learned, and a checkpoint is written if there is a folder
    /// for it.
    pub fn fit_with(
        &self,
        model: &mut Sequential,
        data: &Dataset,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Report> {
        self.check(model, data)?;
        let _lock = self.locked()?;
        self.initialise(model)?;
        let planned = saved::with_plans(self);
        in_dtype!(self, T => fit::<T>(&planned, model, data, &mut on_event))
    }

    /// How well a model does on the test images.
    pub fn evaluate(&self, model: &Sequential, data: &Dataset) -> Result<Evaluation> {
        self.check(model, data)?;
        trained(model)?;
        in_dtype!(self, T => self.evaluate_in::<T>(model, data))
    }

    /// The probability of each class for each of these images, row by row. Images are bytes in CHW order, one
    /// after the other.
    pub fn predict(&self, model: &Sequential, images: &[u8]) -> Result<Vec<Vec<f64>>> {
        trained(model)?;
        let pixels = model.input().len();
        if pixels == 0 || images.is_empty() || !images.len().is_multiple_of(pixels) {
            let (n, input) = (images.len(), model.input());
            return Err(Error::setting(format!("{n} bytes are no images of {input}: {pixels} bytes each")));
        }
        let n = images.len() / pixels;
        let split = Split::new(images.to_vec(), vec![0; n])?;
        let shape = [model.input()[0], model.input()[1], model.input()[2]];
        let classes = model.classes()?;
        let (name, class_names) = ("images".to_string(), Vec::new());
        let data = Dataset { name, shape, classes, class_names, train: split.clone(), test: split };
        in_dtype!(self, T => self.predict_in::<T>(model, &data))
    }

    /// The lock of the folder of checkpoints, if there is one and the program has not taken it already.
    fn locked(&self) -> Result<Option<FolderLock>> {
        let Some(CheckpointSettings { dir, .. }) = &self.checkpoint else { return Ok(None) };
        match &self.lock {
            Some(lock) if lock.folder() == dir => Ok(None),
            _ => FolderLock::take(dir).map(Some),
        }
    }

    /// Draws initial weights for a model that has none.
    pub(super) fn initialise(&self, model: &mut Sequential) -> Result<()> {
        match model.weights() {
            Some(_) => Ok(()),
            None => model.initialise(self.seed),
        }
    }

    /// Refuses settings, data and models that do not go together.
    pub(super) fn check(&self, model: &Sequential, data: &Dataset) -> Result<()> {
        if self.batch == 0 {
            return Err(Error::setting("the batch must have at least one image"));
        }
        self.rate.check()?;
        self.optimizer.check()?;
        if model.input()[..] != data.shape {
            let (images, input) = (data.shape, model.input());
            return Err(Error::setting(format!(
                "{} has images of {images:?}, the model takes {input}",
                data.name
            )));
        }
        for (name, split) in [("training", &data.train), ("test", &data.test)] {
            let [channels, height, width] = data.shape;
            if split.is_empty() || split.image_bytes() != channels * height * width {
                let (n, bytes) = (split.len(), split.image_bytes());
                let message = format!("{}: {n} {name} images of {bytes} bytes cannot be used", data.name);
                return Err(Error::setting(message));
            }
            if let Some(label) = split.labels().iter().find(|&&label| usize::from(label) >= data.classes) {
                let message = format!("one of the {name} images is of class {label}, and classes go up to");
                let last = data.classes.saturating_sub(1);
                return Err(Error::setting(format!("{}: {message} {last}", data.name)));
            }
        }
        let classes = model.classes()?;
        if classes < data.classes {
            let message =
                format!("{} has {} classes, the model tells {classes} apart", data.name, data.classes);
            return Err(Error::setting(message));
        }
        Ok(())
    }

    fn evaluate_in<T: Float>(&self, model: &Sequential, data: &Dataset) -> Result<Evaluation> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut steps = run.prepare_all(Part::Test)?;
        let sums = fit::evaluate(&mut run, &mut steps)?;
        let (loss, accuracy) = sums.means();
        Ok(Evaluation { loss, accuracy, n_images: sums.n_images })
    }

    fn predict_in<T: Float>(&self, model: &Sequential, data: &Dataset) -> Result<Vec<Vec<f64>>> {
        let mut run = Workbench::<T>::new(self, model, data)?;
        let mut rows = Vec::new();
        let mut next = 0;
        for n in run.batches(Part::Test) {
            let mut prepared = run.prepare(Part::Test, n, StepKind::Predict)?;
            let probabilities = prepared.step.dumped[0];
            let (first, count) = (next, (data.test.len() - next) / n);
            prepared.run::<T>(
                &mut run.store,
                count as u64,
                |i, step, ports| {
                    let first = first + i as usize * n;
                    let indices: Vec<u32> = (first..first + n).map(|image| image as u32).collect();
                    step.feed::<T>(ports, &indices, StepInfo::NONE);
                    ControlFlow::Continue(())
                },
                |_, _, outputs| {
                    let values = outputs.get::<T>(&probabilities);
                    let row = |row: &[T]| row.iter().map(|value| value.widen()).collect();
                    rows.extend(values.chunks_exact(values.len() / n).map(row));
                    ControlFlow::Continue(())
                },
            )?;
            next += count * n;
        }
        Ok(rows)
    }
}

/// Refuses a model that cannot know anything yet.
fn trained(model: &Sequential) -> Result<()> {
    match model.weights() {
        Some(_) => Ok(()),
        None => Err(Error::setting("the model has no weights yet: train it, or load some")),
    }
}
