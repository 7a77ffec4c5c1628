//! Models: layers in sequence, with their parameters in one flat array.

use crate::error::{Error, Result};
use crate::layer::{
    Backward, Conv2d, Dense, Flatten, Forward, Layer, MaxPool, Parameter, Relu, Tape, batched,
};
use crate::random::Stream;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;
use std::panic::Location;
use std::sync::Arc;

/// A network of layers, each fed by the one before.
///
/// Weights are kept in `f64`, in which both element types are exact; training copies them in and out.
#[derive(Clone, Debug)]
pub struct Sequential {
    input: Shape,
    layers: Vec<Arc<dyn Layer>>,
    /// The lines of the program that appended the layers; errors in their tasks name them.
    lines: Vec<&'static Location<'static>>,
    weights: Option<Vec<f64>>,
}

/// A parameter of a model: a part of the flat array of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedParameter {
    /// The name, as in `conv1.weight`.
    pub name: String,
    /// First element in the flat array.
    pub offset: usize,
    /// Extents and initialisation.
    pub parameter: Parameter,
    /// The layer it belongs to.
    layer: usize,
}

/// A recorded forward pass.
pub(crate) struct Recording {
    /// What each layer leaves for its backward pass, in the order of recording, with the layer's number.
    passes: Vec<(usize, Forward)>,
    /// The output of the last layer.
    pub output: Var,
}

impl Sequential {
    /// A network without layers, for inputs of `[channels, height, width]`.
    pub fn new(input: [usize; 3]) -> Self {
        Sequential { input: Shape::new(&input), layers: Vec::new(), lines: Vec::new(), weights: None }
    }

    /// The small convolutional network that dahl was started with: convolution with eight 3×3 kernels, ReLU,
    /// 2×2 maximum, dense.
    #[track_caller]
    pub fn seed(input: [usize; 3], classes: usize) -> Self {
        Sequential::new(input).conv2d(8, 3).relu().max_pool(2).flatten().dense(classes)
    }

    #[track_caller]
    fn with(mut self, layer: impl Layer + 'static) -> Self {
        self.layers.push(Arc::new(layer));
        self.lines.push(Location::caller());
        self
    }

    /// Appends a convolution without padding.
    #[track_caller]
    pub fn conv2d(self, filters: usize, kernel: usize) -> Self {
        self.with(Conv2d { filters, kernel, stride: 1, padding: 0 })
    }

    /// Appends a rectifier.
    #[track_caller]
    pub fn relu(self) -> Self {
        self.with(Relu)
    }

    /// Appends a maximum over squares.
    #[track_caller]
    pub fn max_pool(self, window: usize) -> Self {
        self.with(MaxPool { window })
    }

    /// Appends a change from images to vectors.
    #[track_caller]
    pub fn flatten(self) -> Self {
        self.with(Flatten)
    }

    /// Appends a fully connected layer.
    #[track_caller]
    pub fn dense(self, outputs: usize) -> Self {
        self.with(Dense { outputs })
    }

    /// The extents of one input.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// The extents after each layer.
    pub fn shapes(&self) -> Result<Vec<Shape>> {
        let mut shape = self.input;
        let mut after = |layer: &Arc<dyn Layer>| {
            shape = layer.output(shape)?;
            Ok(shape)
        };
        self.layers.iter().map(&mut after).collect()
    }

    /// Number of classes: the extent of the last layer.
    pub fn classes(&self) -> Result<usize> {
        match self.shapes()?.last() {
            Some(shape) if shape.rank() == 1 => Ok(shape[0]),
            _ => Err(Error::setting("a classifier ends in a dense layer: add one")),
        }
    }

    /// All parameters, in the order in which they lie in the flat array.
    pub fn parameters(&self) -> Result<Vec<NamedParameter>> {
        let mut parameters = Vec::new();
        let (mut shape, mut offset) = (self.input, 0);
        let mut numbers: Vec<&'static str> = Vec::new();
        for (layer_index, layer) in self.layers.iter().enumerate() {
            let output = layer.output(shape)?;
            let own = layer.parameters(shape);
            if !own.is_empty() {
                numbers.push(layer.name());
            }
            let number = numbers.iter().filter(|&&name| name == layer.name()).count();
            for parameter in own {
                let name = format!("{}{number}.{}", layer.name(), parameter.name);
                let len = parameter.shape.len();
                parameters.push(NamedParameter { name, offset, parameter, layer: layer_index });
                offset += len;
            }
            shape = output;
        }
        Ok(parameters)
    }

    /// Number of parameters.
    pub fn n_weights(&self) -> Result<usize> {
        Ok(self.parameters()?.last().map_or(0, |p| p.offset + p.parameter.shape.len()))
    }

    /// The weights, flat; none before [`Sequential::initialise`], [`Sequential::set_weights`] or training.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Replaces all weights.
    pub fn set_weights(&mut self, weights: Vec<f64>) -> Result<()> {
        let expected = self.n_weights()?;
        if weights.len() != expected {
            return Err(Error::setting(format!("the model has {expected} weights, not {}", weights.len())));
        }
        self.weights = Some(weights);
        Ok(())
    }

    /// Draws initial weights as PyTorch does by default (uniform within ±1/√fan_in), from a generator keyed by
    /// parameter and element: a seed gives the same weights on any machine, whatever else the model has.
    pub fn initialise(&mut self, seed: u64) -> Result<()> {
        let mut weights = vec![0.0; self.n_weights()?];
        for (stream, named) in self.parameters()?.iter().enumerate() {
            let stream = Stream::new(seed, stream as u64);
            let bound = 1.0 / (named.parameter.fan_in.max(1) as f64).sqrt();
            let len = named.parameter.shape.len();
            for (i, weight) in weights[named.offset..named.offset + len].iter_mut().enumerate() {
                // Rounded to f32 so that both element types start from the same weights.
                *weight = f64::from(((2.0 * stream.uniform(i as u64) - 1.0) * bound) as f32);
            }
        }
        self.weights = Some(weights);
        Ok(())
    }

    /// Views of a flat array, one per parameter.
    fn views(&self, flat: Var) -> Result<Vec<(usize, Var)>> {
        let view = |p: &NamedParameter| Ok((p.layer, flat.part(p.offset, p.parameter.shape)?));
        self.parameters()?.iter().map(view).collect()
    }

    /// The layers in the order in which they are recorded. A maximum goes before a monotone layer: values and
    /// gradients are the same to the last bit (a window whose maximum is negative has no gradient either way), and
    /// everything after the maximum is smaller. For `seed`, a quarter of the ReLU's work remains, and the output of
    /// the convolution is not needed again in the backward pass.
    fn recorded_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.layers.len()).collect();
        for i in 1..order.len() {
            let mut at = i;
            while at > 0 && self.layers[order[at]].is_maximum() && self.layers[order[at - 1]].is_monotone() {
                order.swap(at, at - 1);
                at -= 1;
            }
        }
        order
    }

    /// Records the forward pass.
    pub(crate) fn forward(&self, tape: &mut Tape<'_>, weights: Var, x: Var) -> Result<Recording> {
        let views = self.views(weights)?;
        let mut recording = Recording { passes: Vec::new(), output: x };
        for layer in self.recorded_order() {
            tape.graph().record_at(Some(self.lines[layer]));
            let pass = self.layers[layer].forward(tape, &of_layer(&views, layer), recording.output)?;
            recording.output = pass.y;
            recording.passes.push((layer, pass));
        }
        tape.graph().record_at(None);
        Ok(recording)
    }

    /// Records the backward pass from the gradient of the output into the flat array of gradients.
    pub(crate) fn backward(
        &self,
        tape: &mut Tape<'_>,
        weights: Var,
        gradients: Var,
        recording: &Recording,
        doutput: Var,
    ) -> Result<()> {
        let (weights, gradients) = (self.views(weights)?, self.views(gradients)?);
        // Nothing below the first layer with parameters needs a gradient.
        let has_parameters = |(layer, _): &(usize, Forward)| weights.iter().any(|(of, _)| of == layer);
        let first = recording.passes.iter().position(has_parameters).unwrap_or(recording.passes.len());
        let mut dy = doutput;
        for (position, (layer, pass)) in recording.passes.iter().enumerate().skip(first).rev() {
            tape.graph().record_at(Some(self.lines[*layer]));
            let (parameters, gradients) = (of_layer(&weights, *layer), of_layer(&gradients, *layer));
            let (parameters, gradients, wants_dx) = (&parameters[..], &gradients[..], position > first);
            let pass = Backward { forward: pass, parameters, gradients, dy, wants_dx };
            match self.layers[*layer].backward(tape, &pass)? {
                Some(dx) => dy = dx,
                None => break,
            }
        }
        tape.graph().record_at(None);
        Ok(())
    }

    /// The extents of a batch of inputs.
    pub(crate) fn batch_shape(&self, n: usize) -> Shape {
        batched(n, self.input)
    }
}

fn of_layer(views: &[(usize, Var)], layer: usize) -> Vec<Var> {
    views.iter().filter(|(of, _)| *of == layer).map(|(_, var)| *var).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
