//! Layers: what a network is made of. A layer records its forward and backward tasks on whole arrays and
//! knows nothing of tiles, threads or devices, nor of the layers around it.
//!
//! Model files name layers by their [`Kind`]; those that a reader of such files knows are [`Kinds`], which
//! hold the built-in ones and whatever a program adds. To add a built-in layer, add its file and its line in
//! `BUILTIN`; CONTRIBUTING.md goes through it step by step.

mod avg_pool;
mod batch_norm;
mod chain;
mod conv2d;
mod dense;
mod dropout;
mod flatten;
mod global_avg_pool;
mod kinds;
mod max_pool;
mod relu;
mod residual;
mod settings;
mod softmax;
mod tape;
mod window;

pub use avg_pool::AvgPool;
pub use batch_norm::BatchNorm;
pub use chain::{Chain, NamedLayer, Recording};
pub use conv2d::Conv2d;
pub use dense::Dense;
pub use dropout::Dropout;
pub use flatten::Flatten;
pub use global_avg_pool::GlobalAvgPool;
pub use kinds::{Kind, Kinds};
pub use max_pool::MaxPool;
pub use relu::Relu;
pub use residual::Residual;
pub(crate) use settings::{ModelText, write_layers};
pub use settings::{Setting, Settings};
pub use softmax::Softmax;
pub use tape::Tape;

use crate::error::Result;
use crate::op;
use dahl_runtime::array::Shape;
use dahl_runtime::graph::Var;
use std::fmt;
use std::sync::Arc;

/// A layer of any kind.
pub type AnyLayer = Arc<dyn Layer>;

/// Every kind of layer that is built in.
static BUILTIN: &[Kind] = &[
    Kind::new("avg_pool", |settings| Ok(Arc::new(AvgPool::read(settings)?))),
    Kind::new("batch_norm", |settings| Ok(Arc::new(BatchNorm::read(settings)?))),
    Kind::new("conv2d", |settings| Ok(Arc::new(Conv2d::read(settings)?))),
    Kind::new("dense", |settings| Ok(Arc::new(Dense::read(settings)?))),
    Kind::new("dropout", |settings| Ok(Arc::new(Dropout::read(settings)?))),
    Kind::new("flatten", |_| Ok(Arc::new(Flatten))),
    Kind::new("global_avg_pool", |_| Ok(Arc::new(GlobalAvgPool))),
    Kind::new("max_pool", |settings| Ok(Arc::new(MaxPool::read(settings)?))),
    Kind::new("relu", |_| Ok(Arc::new(Relu))),
    Kind::new("residual", |settings| Ok(Arc::new(Residual::read(settings)?))),
    Kind::new("softmax", |_| Ok(Arc::new(Softmax))),
];

/// Whether a network is trained or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Batch normalisation uses the statistics of the batch, dropout drops, and a backward pass may follow.
    Train,
    /// Batch normalisation uses its running statistics, dropout changes nothing, and there is no backward
    /// pass.
    Evaluate,
}

/// An array of numbers that a layer has: a parameter, which is trained, or a buffer, which is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name within the layer, as in PyTorch: `weight`, `bias`, `running_mean`; within a block
    /// `conv1.weight`.
    pub name: String,
    /// Its extents, in PyTorch's layout.
    pub shape: Shape,
    /// What it is before training.
    pub init: Init,
}

/// What a parameter is before training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Uniform within ±1/√`fan_in`, the number of inputs that one output depends on: PyTorch's default.
    Uniform {
        /// Number of inputs that one output depends on.
        fan_in: usize,
    },
    /// The same value everywhere.
    Constant(f64),
}

impl Parameter {
    /// A parameter of a layer.
    pub fn new(name: &str, shape: impl Into<Shape>, init: Init) -> Self {
        Parameter { name: name.to_string(), shape: shape.into(), init }
    }

    /// The same parameter, seen from outside of `layer`.
    fn within(mut self, layer: &str) -> Self {
        self.name = format!("{layer}.{}", self.name);
        self
    }
}

/// The arrays of a layer, in the order in which it lists them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Its parameters.
    pub parameters: &'a [Var],
    /// Its buffers.
    pub buffers: &'a [Var],
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
    /// What the chains inside of it left.
    pub inner: Vec<Recording>,
}

impl Forward {
    /// Of a layer that needs nothing but input and output.
    pub fn new(x: Var, y: Var) -> Self {
        Forward { x, y, saved: Vec::new(), inner: Vec::new() }
    }

    /// With these arrays for the backward pass.
    pub fn saving(mut self, saved: &[Var]) -> Self {
        self.saved = saved.to_vec();
        self
    }
}

/// One layer of a network.
///
/// It is appended by [`Sequential::layer`](crate::Sequential::layer), and by model files if its [`Kind`] is
/// among the [`Kinds`] that they are read with. Its gradients are compared with differences by
/// [`check::gradients`](crate::check::gradients).
pub trait Layer: fmt::Debug + Send + Sync {
    /// What it is, as in model files: `conv2d`. Checkpoints keep it too.
    fn kind(&self) -> &'static str;

    /// What its parameters are called after, as in PyTorch's examples: the first layer called `conv` has the
    /// parameter `conv1.weight`.
    fn name(&self) -> &'static str {
        self.kind()
    }

    /// Its settings as in model files, as far as they differ from what is usual; what it reads back.
    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        Vec::new()
    }

    /// The chains inside of it; their layers have names below its own and that of the branch, if it has one.
    fn branches(&self) -> Vec<(&'static str, &Chain)> {
        Vec::new()
    }

    /// The extents of its output for one sample, from those of its input.
    fn output(&self, input: Shape) -> Result<Shape>;

    /// Whether it may as well come after a maximum as before it, to the last bit of values and gradients: it
    /// maps every element by itself, never turns an order around, and where different inputs have the same
    /// output its gradient is 0, so that it does not matter which of them is the maximum. `false` is always
    /// right.
    fn is_monotone(&self) -> bool {
        false
    }

    /// Whether it takes maxima of its input.
    fn is_maximum(&self) -> bool {
        false
    }

    /// Whether its backward pass looks at its output, so that the next layer must not overwrite it.
    fn needs_output(&self) -> bool {
        false
    }

    /// Its parameters, in the order in which it uses them, for an input that [`Layer::output`] accepts.
    fn parameters(&self, _input: Shape) -> Result<Vec<Parameter>> {
        Ok(Vec::new())
    }

    /// What it keeps from step to step beside its parameters: running statistics.
    fn buffers(&self, _input: Shape) -> Result<Vec<Parameter>> {
        Ok(Vec::new())
    }

    /// Records the forward pass on a batch `x`, which it overwrites only where [`Tape::in_place`] says so.
    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward>;

    /// Records the gradients of the parameters, and that of the input if it is wanted, which it returns. Like
    /// `x`, the gradient `dy` is overwritten only where [`Tape::in_place`] says so.
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
    /// The gradient of its output.
    pub dy: Var,
    /// Whether the gradient of its input is wanted.
    pub wants_dx: bool,
}

/// The extents of a batch of `n` samples of this shape.
pub fn batched(n: usize, sample: Shape) -> Shape {
    Shape::new(&[&[n], &sample[..]].concat())
}

/// The extents of the samples in a batch.
pub fn sample(batch: Shape) -> Shape {
    Shape::new(&batch[1..])
}

/// The bias of a layer: its second parameter, or zeros where it has none.
fn bias(tape: &mut Tape<'_>, weights: &Weights<'_>, len: usize) -> Result<Var> {
    if let Some(&bias) = weights.parameters.get(1) {
        return Ok(bias);
    }
    let zeros = tape.array("no_bias", [len]);
    tape.task_with(&op::fill::CODELET, &[], &[zeros], &[0.0])?;
    Ok(zeros)
}
