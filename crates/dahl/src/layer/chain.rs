//! Layers one after the other: what a model consists of, and each branch of a residual block.
//!
//! A chain numbers its layers by name (`conv1`, `relu1`, `conv2`), hands each of them its share of the
//! parameters and buffers, and records them in order.
//!
//! A residual block has two chains inside, whose names begin with its own (`block1.conv1.weight`,
//! `block1.shortcut.conv1.weight`). Shapes, parameters and buffers follow from the input's shape whenever
//! they are asked for; nothing is stored twice. A maximum is recorded before a ReLU that precedes it
//! (`recorded_order`): the same bits, less work.

use super::{AnyLayer, Backward, Forward, Layer, Mode, Parameter, Tape, Weights};
use crate::error::{Error, Result};
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;
use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::Arc;

/// A list of layers, each fed by the one before.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    links: Vec<Link>,
}

/// A layer in its place.
#[derive(Clone, Debug)]
struct Link {
    layer: AnyLayer,
    /// The line of the program that appended it; errors in its tasks name it.
    line: &'static Location<'static>,
}

/// A layer of a chain with its name and the extents of one sample before and after it.
#[derive(Clone, Debug)]
pub struct NamedLayer<'a> {
    /// The layer.
    pub layer: &'a AnyLayer,
    /// Its name within the chain, as in `conv1`.
    pub name: String,
    /// The extents of its input.
    pub input: Shape,
    /// The extents of its output.
    pub output: Shape,
}

/// A recorded forward pass of a chain.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What each layer leaves for its backward pass, in the order of recording, with its number in the chain.
    passes: Vec<(usize, Forward)>,
    /// What the first layer was given.
    pub input: Var,
    /// The output of the last layer.
    pub output: Var,
}

impl Chain {
    /// A chain without layers, which changes nothing.
    pub fn new() -> Self {
        Chain::default()
    }

    /// Appends a layer.
    #[track_caller]
    pub fn layer(mut self, layer: impl Layer + 'static) -> Self {
        self.push(Arc::new(layer), Location::caller());
        self
    }

    /// Appends a layer on behalf of this line of the program.
    pub(crate) fn push(&mut self, layer: AnyLayer, line: &'static Location<'static>) {
        self.links.push(Link { layer, line });
    }

    /// The layers.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = &AnyLayer> {
        self.links.iter().map(|link| &link.layer)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The layers with their names and extents, for samples of this shape.
    pub fn places(&self, input: Shape) -> Result<Vec<NamedLayer<'_>>> {
        self.each_place(input)?.collect()
    }

    /// The same one by one, up to the first that does not fit.
    fn each_place(&self, input: Shape) -> Result<impl Iterator<Item = Result<NamedLayer<'_>>>> {
        let mut shape = bounded(input)?;
        let place = move |(layer, name): (_, String)| {
            let layer: &AnyLayer = layer;
            let input = shape;
            shape = layer.output(input).and_then(bounded).map_err(|error| error.in_layer(&name))?;
            Ok(NamedLayer { layer, name, input, output: shape })
        };
        Ok(self.layers().zip(self.names()).map(place))
    }

    /// The number of the first layer that does not fit, and why.
    pub(crate) fn misfit(&self, input: Shape) -> Option<(usize, Error)> {
        let places = match self.each_place(input) {
            Ok(places) => places,
            Err(error) => return Some((0, error)),
        };
        let fit = |place: Result<NamedLayer<'_>>| {
            let place = place?;
            place.own(place.layer.parameters(place.input)?)
        };
        places.map(fit).enumerate().find_map(|(number, own)| Some((number, own.err()?)))
    }

    /// The name of each layer: what it is called, and its number among those that are called the same.
    fn names(&self) -> Vec<String> {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let name = |layer: &AnyLayer| {
            let number = numbers.entry(layer.name()).or_default();
            *number += 1;
            format!("{}{number}", layer.name())
        };
        self.layers().map(name).collect()
    }

    /// The extents of the output for one sample.
    pub fn output(&self, input: Shape) -> Result<Shape> {
        Ok(self.places(input)?.last().map_or(input, |place| place.output))
    }

    /// The parameters of all layers, in order, with names such as `conv1.weight`.
    pub fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        self.collect(input, |place| place.layer.parameters(place.input))
    }

    /// The number of elements of all parameters of the layers before one.
    pub(crate) fn n_weights_before(&self, layer: usize, input: Shape) -> Result<usize> {
        let mut n = 0;
        for place in &self.places(input)?[..layer] {
            n += place.layer.parameters(place.input)?.iter().map(|own| own.shape.len()).sum::<usize>();
        }
        Ok(n)
    }

    /// The buffers of all layers, likewise.
    pub fn buffers(&self, input: Shape) -> Result<Vec<Parameter>> {
        self.collect(input, |place| place.layer.buffers(place.input))
    }

    fn collect(
        &self,
        input: Shape,
        of: impl Fn(&NamedLayer<'_>) -> Result<Vec<Parameter>>,
    ) -> Result<Vec<Parameter>> {
        let mut all = Vec::new();
        for place in self.places(input)? {
            all.extend(place.own(of(&place)?)?);
        }
        Ok(all)
    }

    /// The layers in the order in which they are recorded. A maximum goes before a monotone layer: values and
    /// gradients are the same to the last bit (a window whose maximum is negative has no gradient either
    /// way), and everything after the maximum is smaller. For `seed`, a quarter of the ReLU's work remains,
    /// and the output of the convolution is not needed again in the backward pass.
    fn recorded_order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.links.len());
        // The monotone layers since the last one that is not; whatever takes maxima goes before them.
        let mut waiting = VecDeque::new();
        for (at, layer) in self.layers().enumerate() {
            match (layer.is_maximum(), layer.is_monotone()) {
                (true, true) => waiting.push_front(at),
                (true, false) => order.push(at),
                (false, true) => waiting.push_back(at),
                (false, false) => {
                    order.extend(waiting.drain(..));
                    order.push(at);
                }
            }
        }
        order.extend(waiting);
        order
    }

    /// Records the forward pass on a batch `x`.
    pub fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Recording> {
        let places = self.places(super::sample(x.shape()))?;
        let parameters = shares(&places, |place| place.layer.parameters(place.input))?;
        let buffers = shares(&places, |place| place.layer.buffers(place.input))?;
        let mut recording = Recording { passes: Vec::new(), input: x, output: x };
        let mut n_announced = 0;
        for at in self.recorded_order() {
            let Link { layer, line } = &self.links[at];
            let own = Weights {
                parameters: &weights.parameters[parameters[at].clone()],
                buffers: &weights.buffers[buffers[at].clone()],
            };
            (n_announced..=at).for_each(|before| tape.announce(&places[before].name));
            n_announced = n_announced.max(at + 1);
            tape.enter(&places[at].name, line);
            let pass = layer.forward(tape, &own, recording.output)?;
            if tape.mode() == Mode::Train && layer.needs_output() {
                tape.keep(pass.y);
            }
            tape.leave();
            recording.output = pass.y;
            recording.passes.push((at, pass));
        }
        Ok(recording)
    }

    /// Records the backward pass from the gradient `dy` of the output: the gradients of all parameters, and
    /// that of the input if it is wanted, which is returned.
    pub fn backward(
        &self,
        tape: &mut Tape<'_>,
        pass: &Backward<'_>,
        recording: &Recording,
    ) -> Result<Option<Var>> {
        let places = self.places(super::sample(recording.input.shape()))?;
        let shares = shares(&places, |place| place.layer.parameters(place.input))?;
        // Nothing below the first layer with parameters needs a gradient, unless it is wanted.
        let has_parameters = |(at, _): &(usize, Forward)| !shares[*at].is_empty();
        let first = recording.passes.iter().position(has_parameters).unwrap_or(recording.passes.len());
        let first = if pass.wants_dx { 0 } else { first };
        let mut dy = pass.dy;
        for (position, (at, forward)) in recording.passes.iter().enumerate().skip(first).rev() {
            let Link { layer, line } = &self.links[*at];
            let wants_dx = pass.wants_dx || position > first;
            let (parameters, gradients) =
                (&pass.parameters[shares[*at].clone()], &pass.gradients[shares[*at].clone()]);
            tape.enter(&places[*at].name, line);
            let dx = layer.backward(tape, &Backward { forward, parameters, gradients, dy, wants_dx })?;
            tape.leave();
            match dx {
                Some(dx) => dy = dx,
                None => return Ok(None),
            }
        }
        Ok(pass.wants_dx.then_some(dy))
    }
}

impl NamedLayer<'_> {
    /// Parameters or buffers of this layer, as the chain calls them.
    fn own(&self, parameters: Vec<Parameter>) -> Result<Vec<Parameter>> {
        let own = |parameter: Parameter| {
            bounded(parameter.shape).map_err(|error| error.in_layer(&self.name))?;
            Ok(parameter.within(&self.name))
        };
        parameters.into_iter().map(own).collect()
    }
}

/// Which of the parameters (or buffers) of a chain each layer has.
fn shares(
    places: &[NamedLayer<'_>],
    of: impl Fn(&NamedLayer<'_>) -> Result<Vec<Parameter>>,
) -> Result<Vec<std::ops::Range<usize>>> {
    let mut end = 0;
    let share = |place| {
        let start = end;
        end += of(place)?.len();
        Ok(start..end)
    };
    places.iter().map(share).collect()
}

/// The shape, if a program can count its elements.
fn bounded(shape: Shape) -> Result<Shape> {
    let len = shape.iter().try_fold(1, |len: usize, extent| len.checked_mul(*extent));
    match len.filter(|&len| len <= MOST_ELEMENTS) {
        Some(_) => Ok(shape),
        None => Err(Error::setting(format!("an array of {shape} is too large for any memory"))),
    }
}

/// More elements than any machine has memory for, and few enough that sums and products with batches do not
/// overflow.
const MOST_ELEMENTS: usize = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer that has these properties and does nothing.
    #[derive(Debug)]
    struct Kind {
        is_maximum: bool,
        is_monotone: bool,
    }

    impl Layer for Kind {
        fn kind(&self) -> &'static str {
            "kind"
        }

        fn output(&self, input: Shape) -> Result<Shape> {
            Ok(input)
        }

        fn is_maximum(&self) -> bool {
            self.is_maximum
        }

        fn is_monotone(&self) -> bool {
            self.is_monotone
        }

        fn forward(&self, _: &mut Tape<'_>, _: &Weights<'_>, x: Var) -> Result<Forward> {
            Ok(Forward::new(x, x))
        }

        fn backward(&self, _: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
            Ok(Some(pass.dy))
        }
    }

    #[test]
    fn maxima_go_before_monotone_layers_as_if_neighbours_were_swapped() {
        const N: u32 = 6;
        for number in 0..4_usize.pow(N) {
            let kinds: Vec<usize> = (0..N).map(|i| number / 4_usize.pow(i) % 4).collect();
            let (maximum, monotone) = (|kind: usize| kind & 1 != 0, |kind: usize| kind & 2 != 0);
            let chain = kinds.iter().fold(Chain::new(), |chain, &kind| {
                chain.layer(Kind { is_maximum: maximum(kind), is_monotone: monotone(kind) })
            });
            let mut order: Vec<usize> = (0..kinds.len()).collect();
            for i in 1..order.len() {
                let mut at = i;
                while at > 0 && maximum(kinds[order[at]]) && monotone(kinds[order[at - 1]]) {
                    order.swap(at, at - 1);
                    at -= 1;
                }
            }
            assert_eq!(chain.recorded_order(), order, "{kinds:?}");
        }
    }

    #[test]
    fn layers_are_numbered_among_those_called_the_same() {
        let chain =
            Chain::new().layer(crate::layer::Relu).layer(crate::layer::Flatten).layer(crate::layer::Relu);
        assert_eq!(chain.names(), ["relu1", "flatten1", "relu2"]);
    }
}
