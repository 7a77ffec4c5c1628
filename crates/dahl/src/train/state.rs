//! The arrays that outlive steps: weights, statistics, what the optimiser keeps, and the images.

use super::Trainer;
use crate::dataset::{Dataset, Split};
use crate::error::Result;
use crate::model::Sequential;
use crate::op::Float;
use dahl_runtime::engine::Store;
use dahl_runtime::graph::StateId;

/// Which images a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Train,
    Test,
}

/// Where images are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pixels {
    /// In memory.
    Resident { images: StateId, labels: StateId },
    /// In files, read as they are needed.
    Streamed,
}

/// Where the arrays that outlive a step are.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub weights: StateId,
    /// Running statistics, if the model has any.
    pub statistics: Option<StateId>,
    /// What the optimiser keeps.
    pub optimizer: Vec<StateId>,
    pub train: Pixels,
    pub test: Pixels,
}

impl State {
    /// Puts a model and a data set into a store.
    pub fn new<T: Float>(
        store: &mut Store,
        trainer: &Trainer,
        model: &Sequential,
        data: &Dataset,
    ) -> Result<Self> {
        let mut add = |name: &str, len: usize, values: &[f64]| -> Result<StateId> {
            let id = store.add::<T>(name, [len])?;
            for (to, &from) in store.get_mut::<T>(id).iter_mut().zip(values) {
                *to = T::from_f64(from);
            }
            Ok(id)
        };
        let values = model.weights().unwrap_or(&[]);
        let weights = add("weights", values.len(), values)?;
        let statistics = match model.statistics() {
            Some(values) if !values.is_empty() => Some(add("statistics", values.len(), values)?),
            _ => None,
        };
        let names = trainer.optimizer.state_names().iter();
        let optimizer = names.map(|name| add(name, values.len(), &[])).collect::<Result<_>>()?;
        let train = pixels(store, "train", &data.train, data.shape)?;
        let test = pixels(store, "test", &data.test, data.shape)?;
        Ok(State { weights, statistics, optimizer, train, test })
    }

    pub fn pixels(&self, part: Part) -> &Pixels {
        match part {
            Part::Train => &self.train,
            Part::Test => &self.test,
        }
    }

    /// Everything that training changes.
    pub fn trained(&self) -> impl Iterator<Item = StateId> {
        [self.weights].into_iter().chain(self.statistics).chain(self.optimizer.iter().copied())
    }
}

fn pixels(store: &mut Store, name: &str, split: &Split, shape: [usize; 3]) -> Result<Pixels> {
    let Some([images, labels]) = split.shared() else { return Ok(Pixels::Streamed) };
    let [channels, height, width] = shape;
    let shape = [split.len(), channels, height, width];
    let images = store.share(&format!("{name}_images"), shape, images)?;
    let labels = store.share(&format!("{name}_labels"), [split.len()], labels)?;
    Ok(Pixels::Resident { images, labels })
}
