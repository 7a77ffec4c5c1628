//! Layers: what a network is made of. A layer records its forward and backward tasks on whole arrays and knows
//! nothing of tiles, threads or devices.
//!
//! To add a layer, add its file, and a method of [`Sequential`](crate::model::Sequential) that appends it.

mod conv2d;
mod dense;
mod flatten;
mod max_pool;
mod relu;

pub use conv2d::Conv2d;
pub use dense::Dense;
pub use flatten::Flatten;
pub use max_pool::MaxPool;
pub use relu::Relu;

use crate::error::Result;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::codelet::Codelet;
use dahl_runtime::graph::{Graph, Var};
use std::fmt;

/// A parameter that a layer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name within the layer, as in PyTorch: `weight` or `bias`.
    pub name: &'static str,
    /// Its extents, in PyTorch's layout.
    pub shape: Shape,
    /// Number of inputs that one output depends on; fixes the range of initial values.
    pub fan_in: usize,
}

/// What a layer leaves for its backward pass.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The input.
    pub x: Var,
    /// The output.
    pub y: Var,
    /// Whatever else it needs.
    pub saved: Vec<Var>,
}

/// One layer of a network.
pub trait Layer: fmt::Debug + Send + Sync {
    /// What it is called; layers with parameters are numbered by this name, as in `conv1.weight`.
    fn name(&self) -> &'static str;

    /// The extents of its output for one sample, from those of its input.
    fn output(&self, input: Shape) -> Result<Shape>;

    /// Whether it maps every element by itself and never turns an order around, so that it may as well come after a
    /// maximum as before it.
    fn is_monotone(&self) -> bool {
        false
    }

    /// Whether it takes maxima of its input.
    fn is_maximum(&self) -> bool {
        false
    }

    /// Its parameters, in the order in which it uses them.
    fn parameters(&self, _input: Shape) -> Vec<Parameter> {
        Vec::new()
    }

    /// Records the forward pass on a batch `x`.
    fn forward(&self, tape: &mut Tape<'_>, parameters: &[Var], x: Var) -> Result<Forward>;

    /// Records the gradients of the parameters, and that of the input if it is wanted, which it returns.
    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>>;
}

/// What a layer has for its backward pass.
#[derive(Clone, Copy, Debug)]
pub struct Backward<'a> {
    /// What its forward pass left.
    pub forward: &'a Forward,
    /// Its parameters.
    pub parameters: &'a [Var],
    /// Where the gradients of the parameters go.
    pub gradients: &'a [Var],
    /// The gradient of its output; may be overwritten.
    pub dy: Var,
    /// Whether the gradient of its input is wanted.
    pub wants_dx: bool,
}

/// A graph that is being recorded, in one element type.
pub struct Tape<'a> {
    graph: &'a mut Graph,
    dtype: Dtype,
    n_arrays: usize,
}

impl<'a> Tape<'a> {
    /// Records into `graph`.
    pub fn new(graph: &'a mut Graph, dtype: Dtype) -> Self {
        Tape { graph, dtype, n_arrays: 0 }
    }

    /// The element type that is computed in.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The graph.
    pub fn graph(&mut self) -> &mut Graph {
        self.graph
    }

    /// A temporary array of elements that are computed with.
    pub fn array(&mut self, name: &str, shape: impl Into<Shape>) -> Var {
        self.array_of(name, self.dtype, shape)
    }

    /// A temporary array of any element type.
    pub fn array_of(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>) -> Var {
        self.n_arrays += 1;
        self.graph.temporary(&format!("{name}{}", self.n_arrays), dtype, shape)
    }

    /// Records a task without floating-point parameters.
    #[track_caller]
    pub fn task(
        &mut self,
        codelet: &'static Codelet,
        inputs: &[Var],
        outputs: &[Var],
        ints: &[i64],
    ) -> Result<()> {
        Ok(self.graph.task(codelet, self.dtype, inputs, outputs, ints, &[])?)
    }
}

/// The extents of a batch of `n` samples of this shape.
pub fn batched(n: usize, sample: Shape) -> Shape {
    Shape::new(&[&[n], &sample[..]].concat())
}

/// The extents of the samples in a batch.
pub fn sample(batch: Shape) -> Shape {
    Shape::new(&batch[1..])
}
