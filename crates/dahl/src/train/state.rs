//! The arrays that outlive steps: weights, statistics, what the optimiser keeps, and the images.

use super::Trainer;
use crate::dataset::{Dataset, Split};
use crate::error::Result;
use crate::model::{NamedParameter, Sequential};
use crate::op::Float;
use dahl_runtime::engine::Store;
use dahl_runtime::graph::StateId;
use std::ops::Range;

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

/// The weights of a group of layers, and what the optimiser keeps about them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Which of all weights they are.
    pub range: Range<usize>,
    pub weights: StateId,
    /// What the optimiser keeps.
    pub optimizer: Vec<StateId>,
    /// What follows the names of its arrays.
    pub suffix: String,
}

impl Group {
    /// The parameters among these that belong to the group, with their places in its arrays.
    pub fn own(&self, parameters: &[NamedParameter]) -> Vec<NamedParameter> {
        let is_own = |named: &&NamedParameter| self.range.contains(&named.offset);
        let own = parameters.iter().filter(is_own).cloned();
        own.map(|named| NamedParameter { offset: named.offset - self.range.start, ..named }).collect()
    }
}

/// Where the arrays that outlive a step are.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Weights and what the optimiser keeps, in the order of the layers.
    pub groups: Vec<Group>,
    /// Running statistics, if the model has any.
    pub statistics: Option<StateId>,
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
        let ranges = model.groups(&trainer.groups)?;
        let suffix = |i: usize| if ranges.len() > 1 { format!(".{i}") } else { String::new() };
        let mut weights = Vec::new();
        for (i, range) in ranges.iter().enumerate() {
            let values = values.get(range.clone()).unwrap_or(&[]);
            weights.push(add(&format!("weights{}", suffix(i)), range.len(), values)?);
        }
        let statistics = match model.statistics() {
            Some(values) if !values.is_empty() => Some(add("statistics", values.len(), values)?),
            _ => None,
        };
        let mut groups = Vec::new();
        for (i, (weights, range)) in weights.into_iter().zip(&ranges).enumerate() {
            let names = trainer.optimizer.state_names().into_iter();
            let optimizer = names.map(|name| add(&format!("{name}{}", suffix(i)), range.len(), &[]));
            let optimizer = optimizer.collect::<Result<_>>()?;
            groups.push(Group { range: range.clone(), weights, optimizer, suffix: suffix(i) });
        }
        let train = pixels(store, "train", &data.train, data.shape)?;
        let test = pixels(store, "test", &data.test, data.shape)?;
        Ok(State { groups, statistics, train, test })
    }

    pub fn pixels(&self, part: Part) -> &Pixels {
        match part {
            Part::Train => &self.train,
            Part::Test => &self.test,
        }
    }

    /// Everything that training changes.
    pub fn trained(&self) -> impl Iterator<Item = StateId> {
        let weights = self.groups.iter().map(|group| group.weights);
        let optimizer = self.groups.iter().flat_map(|group| group.optimizer.iter().copied());
        weights.chain(self.statistics).chain(optimizer)
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
