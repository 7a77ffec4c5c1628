//! Models: a chain of layers with its parameters in one flat array, and its running statistics in another.
//! While it is trained, the parameters of each group of layers have a flat array of their own.

mod builtin;
mod file;
mod summary;
mod tensors;

pub use builtin::Builtin;
pub use summary::SummaryRow;

use crate::error::{Error, Result};
use crate::layer::{
    Backward, Chain, Conv2d, Dense, Flatten, Forward, Init, Layer, MaxPool, Parameter, Recording, Relu, Tape,
    Weights, batched,
};
use crate::random::Stream;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;
use std::ops::Range;

/// A network of layers, each fed by the one before.
///
/// Weights are kept in `f64`, in which both element types are exact; training copies them in and out.
#[derive(Clone, Debug)]
pub struct Sequential {
    input: Shape,
    chain: Chain,
    weights: Option<Vec<f64>>,
    statistics: Option<Vec<f64>>,
}

/// A parameter of a model: a part of the flat array of all parameters. Likewise a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedParameter {
    /// The name, as in `conv1.weight`.
    pub name: String,
    /// First element in the flat array.
    pub offset: usize,
    /// Extents and initialisation.
    pub parameter: Parameter,
}

impl Sequential {
    /// A network without layers, for inputs of `[channels, height, width]`.
    pub fn new(input: [usize; 3]) -> Self {
        Sequential { input: Shape::new(&input), chain: Chain::new(), weights: None, statistics: None }
    }

    /// The small convolutional network that dahl was started with: convolution with eight 3×3 kernels, ReLU,
    /// 2×2 maximum, dense.
    #[track_caller]
    pub fn seed(input: [usize; 3], classes: usize) -> Self {
        Sequential::new(input).conv2d(8, 3).relu().max_pool(2).flatten().dense(classes)
    }

    /// The models that come with the program.
    pub const BUILTIN: &[Builtin] = builtin::BUILTIN;

    /// A model that comes with the program, by name, for inputs of this shape and this many classes.
    #[track_caller]
    pub fn builtin(name: &str, input: [usize; 3], classes: usize) -> Result<Self> {
        Builtin::named(name)?.model(Some(input), classes)
    }

    /// Appends a layer.
    #[track_caller]
    pub fn layer(mut self, layer: impl Layer + 'static) -> Self {
        self.chain = self.chain.layer(layer);
        // Those of a shorter model.
        (self.weights, self.statistics) = (None, None);
        self
    }

    /// Appends a convolution without padding.
    #[track_caller]
    pub fn conv2d(self, filters: usize, kernel: usize) -> Self {
        self.layer(Conv2d::new(filters, kernel))
    }

    /// Appends a rectifier.
    #[track_caller]
    pub fn relu(self) -> Self {
        self.layer(Relu)
    }

    /// Appends a maximum over squares that touch.
    #[track_caller]
    pub fn max_pool(self, window: usize) -> Self {
        self.layer(MaxPool::new(window))
    }

    /// Appends a change from images to vectors.
    #[track_caller]
    pub fn flatten(self) -> Self {
        self.layer(Flatten)
    }

    /// Appends a fully connected layer.
    #[track_caller]
    pub fn dense(self, outputs: usize) -> Self {
        self.layer(Dense::new(outputs))
    }

    /// The extents of one input.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// The layers.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The extents after each layer.
    pub fn shapes(&self) -> Result<Vec<Shape>> {
        Ok(self.chain.places(self.input)?.iter().map(|place| place.output).collect())
    }

    /// Number of classes: the extent of the last layer.
    pub fn classes(&self) -> Result<usize> {
        match self.shapes()?.last() {
            Some(shape) if shape.rank() == 1 => Ok(shape[0]),
            _ => Err(Error::setting("a classifier ends in a dense layer: add one")),
        }
    }

    /// Whether the outputs are probabilities, because the last layer is a softmax.
    pub fn ends_in_softmax(&self) -> bool {
        self.chain.layers().next_back().is_some_and(|layer| layer.kind() == "softmax")
    }

    /// All parameters, in the order in which they lie in the flat array.
    pub fn parameters(&self) -> Result<Vec<NamedParameter>> {
        Ok(named(self.chain.parameters(self.input)?))
    }

    /// All running statistics, in the order in which they lie in their flat array.
    pub fn buffers(&self) -> Result<Vec<NamedParameter>> {
        Ok(named(self.chain.buffers(self.input)?))
    }

    /// Number of parameters.
    pub fn n_weights(&self) -> Result<usize> {
        Ok(total(&self.parameters()?))
    }

    /// Number of running statistics.
    pub fn n_statistics(&self) -> Result<usize> {
        Ok(total(&self.buffers()?))
    }

    /// The weights, flat; none before [`Sequential::initialise`], [`Sequential::set_weights`] or training.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The running statistics, flat; there whenever the weights are.
    pub fn statistics(&self) -> Option<&[f64]> {
        self.statistics.as_deref()
    }

    /// Replaces all weights.
    pub fn set_weights(&mut self, weights: Vec<f64>) -> Result<()> {
        let expected = self.n_weights()?;
        if weights.len() != expected {
            return Err(Error::setting(format!("the model has {expected} weights, not {}", weights.len())));
        }
        if self.statistics.is_none() {
            self.statistics = Some(initial(&self.buffers()?, 0)?);
        }
        self.weights = Some(weights);
        Ok(())
    }

    /// Replaces all running statistics.
    pub fn set_statistics(&mut self, statistics: Vec<f64>) -> Result<()> {
        let expected = self.n_statistics()?;
        if statistics.len() != expected {
            let message = format!("the model has {expected} running statistics, not {}", statistics.len());
            return Err(Error::setting(message));
        }
        self.statistics = Some(statistics);
        Ok(())
    }

    /// Draws initial weights as PyTorch does by default (uniform within ±1/√fan_in; ones and zeros for batch
    /// normalisation), from a generator keyed by parameter and element: a seed gives the same weights on any
    /// machine, whatever else the model has.
    pub fn initialise(&mut self, seed: u64) -> Result<()> {
        self.weights = Some(initial(&self.parameters()?, seed)?);
        self.statistics = Some(initial(&self.buffers()?, seed)?);
        Ok(())
    }

    /// The weights of each group of layers, as ranges of all weights. `first_layers` are the layers, counted
    /// from 0, that begin a group; the first group begins with the first layer. Groups without weights are
    /// left out.
    pub(crate) fn groups(&self, first_layers: &[usize]) -> Result<Vec<Range<usize>>> {
        let n_layers = self.chain.layers().count();
        let mut starts = vec![0];
        for (i, &layer) in first_layers.iter().enumerate() {
            if layer == 0 || layer >= n_layers || first_layers[..i].last().is_some_and(|&last| last >= layer)
            {
                return Err(Error::setting(format!(
                    "layer {layer} cannot begin a group of layers: give numbers from 1 to below {n_layers}, the number \
                     of layers, in ascending order"
                )));
            }
            starts.push(self.chain.n_weights_before(layer, self.input)?);
        }
        let ends = starts[1..].iter().copied().chain([self.n_weights()?]);
        let ranges: Vec<Range<usize>> = starts.iter().zip(ends).map(|(&start, end)| start..end).collect();
        let has_any = ranges.iter().any(|range| !range.is_empty());
        Ok(if has_any {
            ranges.into_iter().filter(|range| !range.is_empty()).collect()
        } else {
            ranges[..1].to_vec()
        })
    }

    /// Records the forward pass. `weights` are flat arrays that together hold all weights, each those of
    /// whole layers; `statistics` is needed only by models that have any.
    pub(crate) fn forward(
        &self,
        tape: &mut Tape<'_>,
        weights: &[Var],
        statistics: Option<Var>,
        x: Var,
    ) -> Result<Recording> {
        let parameters = views(&self.parameters()?, weights)?;
        let buffers = match (self.buffers()?, statistics) {
            (buffers, Some(statistics)) => views(&buffers, &[statistics])?,
            (buffers, None) if buffers.is_empty() => Vec::new(),
            _ => return Err(Error::setting("the model has running statistics, and none are given")),
        };
        self.chain.forward(tape, &Weights { parameters: &parameters, buffers: &buffers }, x)
    }

    /// Records the backward pass from the gradient of the output into flat arrays of gradients.
    pub(crate) fn backward(
        &self,
        tape: &mut Tape<'_>,
        weights: &[Var],
        gradients: &[Var],
        recording: &Recording,
        doutput: Var,
    ) -> Result<()> {
        let all = self.parameters()?;
        let (parameters, gradients) = (&views(&all, weights)?[..], &views(&all, gradients)?[..]);
        let forward = &Forward::new(recording.input, recording.output);
        let pass = Backward { forward, parameters, gradients, dy: doutput, wants_dx: false };
        self.chain.backward(tape, &pass, recording)?;
        Ok(())
    }

    /// The extents of a batch of inputs.
    pub(crate) fn batch_shape(&self, n: usize) -> Shape {
        batched(n, self.input)
    }
}

/// Parameters one after the other in a flat array.
fn named(parameters: Vec<Parameter>) -> Vec<NamedParameter> {
    let mut offset = 0;
    let place = |parameter: Parameter| {
        let start = offset;
        offset += parameter.shape.len();
        NamedParameter { name: parameter.name.clone(), offset: start, parameter }
    };
    parameters.into_iter().map(place).collect()
}

/// The length of the flat array.
fn total(parameters: &[NamedParameter]) -> usize {
    parameters.last().map_or(0, |last| last.offset + last.parameter.shape.len())
}

/// Views of flat arrays that follow one another, one per parameter.
fn views(parameters: &[NamedParameter], flat: &[Var]) -> Result<Vec<Var>> {
    let (mut arrays, mut start) = (flat.iter().peekable(), 0);
    let view = |p: &NamedParameter| {
        while let Some(array) = arrays.next_if(|array| p.offset >= start + array.shape().len().max(1)) {
            start += array.shape().len();
        }
        let array =
            arrays.peek().ok_or_else(|| Error::setting(format!("there is no array for {}", p.name)))?;
        Ok(array.part(p.offset - start, p.parameter.shape)?)
    };
    parameters.iter().map(view).collect()
}

/// The flat array before training.
fn initial(parameters: &[NamedParameter], seed: u64) -> Result<Vec<f64>> {
    let (mut values, n) = (Vec::new(), total(parameters));
    values.try_reserve_exact(n).map_err(|_| {
        Error::setting(format!("the model has {n} weights, more than the memory holds: use smaller layers"))
    })?;
    for (number, NamedParameter { parameter, .. }) in parameters.iter().enumerate() {
        let stream = Stream::new(seed, number as u64);
        let value = |i: usize| match parameter.init {
            Init::Constant(value) => value,
            // Rounded to f32 so that both element types start from the same weights.
            Init::Uniform { fan_in } => {
                let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
                f64::from(((2.0 * stream.uniform(i as u64) - 1.0) * bound) as f32)
            }
        };
        values.extend((0..parameter.shape.len()).map(value));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_no_memory_holds_are_an_error() {
        // Each layer can be counted; all together have more bytes than addresses.
        let model = Sequential::new([1, 1 << 10, 1 << 9]).flatten();
        let mut model = (0..256).fold(model, |model, _| model.dense(1 << 19));
        let message = model.initialise(1).unwrap_err().to_string();
        assert!(message.contains("weights, more than the memory holds"), "{message}");
    }

    #[test]
    fn seed_has_the_parameters_of_its_pytorch_twin() {
        let model = Sequential::seed([1, 28, 28], 10);
        let names: Vec<(String, Shape)> =
            model.parameters().unwrap().into_iter().map(|p| (p.name, p.parameter.shape)).collect();
        let expected = [
            ("conv1.weight", Shape::new(&[8, 1, 3, 3])),
            ("conv1.bias", Shape::new(&[8])),
            ("fc1.weight", Shape::new(&[10, 1352])),
            ("fc1.bias", Shape::new(&[10])),
        ];
        assert_eq!(names, expected.map(|(name, shape)| (name.to_string(), shape)));
        assert_eq!(model.n_weights().unwrap(), 13_610);
    }

    #[test]
    fn a_layer_that_does_not_fit_is_a_sentence() {
        let model = Sequential::new([1, 2, 2]).conv2d(4, 3);
        assert!(model.shapes().unwrap_err().to_string().contains("does not fit images of [1,2,2]"));
        let model = Sequential::new([1, 8, 8]).dense(10);
        assert!(model.shapes().unwrap_err().to_string().contains("put a flatten before it"));
    }

    #[test]
    fn initial_weights_are_within_their_bounds_and_repeatable() {
        let mut model = Sequential::seed([1, 28, 28], 10);
        model.initialise(3).unwrap();
        let weights = model.weights().unwrap().to_vec();
        assert!(weights[..80].iter().all(|w| w.abs() <= 1.0 / 3.0));
        assert!(weights[80..].iter().all(|w| w.abs() <= 1.0 / 1352_f64.sqrt()));
        assert!(weights[..80].iter().any(|w| w.abs() > 0.3));
        model.initialise(3).unwrap();
        assert_eq!(model.weights().unwrap(), weights);
    }
}
