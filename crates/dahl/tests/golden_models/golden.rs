//! The small files that `scripts/golden_models.py` makes: settings, batches and results of one training with
//! PyTorch.

use dahl::Trainer;
use dahl::dataset::{self, Dataset};
use dahl::model::{NamedParameter, Sequential};
use dahl::optim::{Adam, AdamW, AnyOptimizer, LearningRate, Moments, Sgd};
use dahl_runtime::machine::Machine;
use safetensors::SafeTensors;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Of tensors with more elements, this many are in the file.
const SAMPLES: usize = 64;

/// One golden file.
pub struct Golden {
    bytes: Vec<u8>,
    /// The options of `dahl train` that it stands for, by name.
    options: HashMap<String, String>,
}

/// What is known of a tensor: some of its elements, and the mean and the largest magnitude of all.
#[derive(Clone, Debug)]
pub struct Sample {
    pub elements: Vec<f64>,
    pub mean: f64,
    pub largest: f64,
}

impl Golden {
    /// Reads the file of a case.
    pub fn read(case: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/models");
        let bytes =
            std::fs::read(folder.join(format!("{case}.safetensors"))).expect("the golden file is there");
        let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("the golden file is readable");
        let arguments = metadata.metadata().as_ref().and_then(|entries| entries.get("arguments").cloned());
        let words: Vec<String> =
            arguments.expect("the file has its arguments").split(' ').map(str::to_string).collect();
        let option = |pair: &[String]| (pair[0].trim_start_matches('-').to_string(), pair[1].clone());
        let options = words.chunks_exact(2).map(option).collect();
        Golden { bytes, options }
    }

    fn option(&self, name: &str) -> &str {
        self.options.get(name).unwrap_or_else(|| panic!("the file has no --{name}"))
    }

    fn number(&self, name: &str) -> f64 {
        self.option(name).parse().expect("a number")
    }

    fn seed(&self) -> u64 {
        self.option("seed").parse().expect("a whole number")
    }

    /// The images.
    pub fn data(&self) -> Dataset {
        dataset::open(self.option("data"), &dataset::Options::default()).expect("data that need no file")
    }

    /// The model with its initial weights.
    pub fn model(&self, data: &Dataset) -> Sequential {
        let mut model =
            Sequential::builtin(self.option("model"), data.shape, data.classes).expect("a built-in model");
        model.initialise(self.seed()).expect("the model is sound");
        model
    }

    /// Two workers with the settings of the case.
    pub fn trainer(&self) -> Trainer {
        let weight_decay = self.number("weight-decay");
        let optimizer: AnyOptimizer = match self.option("optimizer") {
            "sgd" => Arc::new(Sgd { momentum: self.number("momentum"), weight_decay, nesterov: false }),
            "adam" => Arc::new(Adam(Moments::with_decay(weight_decay))),
            "adamw" => Arc::new(AdamW(Moments::with_decay(weight_decay))),
            other => panic!("no optimiser is called {other}"),
        };
        let trainer = Trainer::new(&Machine::with_workers(2)).optimizer(optimizer).seed(self.seed());
        trainer.learning_rate(LearningRate::constant(self.number("lr")))
    }

    /// The images of each step.
    pub fn batches(&self) -> Vec<Vec<u32>> {
        let tensors = self.tensors();
        let tensor = tensors.tensor("indices").expect("the batches are there");
        let words = tensor.data().chunks_exact(4).map(|word| word.try_into().expect("4 bytes"));
        let indices: Vec<u32> = words.map(u32::from_le_bytes).collect();
        indices.chunks(tensor.shape()[1]).map(<[u32]>::to_vec).collect()
    }

    /// A tensor of `f64`.
    pub fn floats(&self, name: &str) -> Vec<f64> {
        let tensors = self.tensors();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let words = tensor.data().chunks_exact(8).map(|word| word.try_into().expect("8 bytes"));
        words.map(f64::from_le_bytes).collect()
    }

    /// What the file has of a tensor.
    pub fn sample(&self, name: &str) -> Sample {
        let whole = self.floats(&format!("{name}.whole"));
        Sample { elements: self.floats(name), mean: whole[0], largest: whole[1] }
    }

    /// How many tensors have a name with this prefix, what is said of the whole not counted.
    pub fn count(&self, prefix: &str) -> usize {
        let names = self.tensors();
        let names = names.names();
        names.iter().filter(|name| name.starts_with(prefix) && !name.ends_with(".whole")).count()
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).expect("the golden file is readable")
    }
}

impl Sample {
    /// The same of one of dahl's tensors.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len().min(SAMPLES);
        let place = |i: usize| i * (values.len() - 1) / (n - 1).max(1);
        Sample {
            elements: (0..n).map(|i| values[place(i)]).collect(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            largest: values.iter().fold(0.0, |max, value| max.max(value.abs())),
        }
    }

    /// The largest difference from another sample, relative to that one's largest element. A NaN is far from
    /// anything.
    pub fn distance(&self, from: &Sample) -> f64 {
        assert_eq!(self.elements.len(), from.elements.len());
        let pairs = self.elements.iter().zip(&from.elements);
        let pairs = pairs.chain([(&self.mean, &from.mean), (&self.largest, &from.largest)]);
        worst(pairs.map(|(a, b)| (a - b).abs() / from.largest.max(f64::MIN_POSITIVE)))
    }
}

/// The largest of some distances; a NaN is larger than anything.
pub fn worst(distances: impl Iterator<Item = f64>) -> f64 {
    distances.fold(0.0, |worst, distance| if distance.is_nan() { f64::INFINITY } else { worst.max(distance) })
}

/// The part of a flat array that is a parameter.
pub fn part<'a>(flat: &'a [f64], named: &NamedParameter) -> &'a [f64] {
    &flat[named.offset..][..named.parameter.shape.len()]
}
