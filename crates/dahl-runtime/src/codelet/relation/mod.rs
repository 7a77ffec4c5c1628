//! Index relations: how the arguments of a codelet are indexed, in one line.
//!
//! Everything the runtime knows about an operation's data follows from this line: which axes may be split,
//! which part of each argument a tile touches (halos included), and what the shapes of the outputs are.
//! Recording calls [`Relation::infer`] and [`Relation::bind`], lowering calls [`Bound::tiles`] and
//! [`Bound::regions`].
//!
//! # Notation
//!
//! ```text
//! x[n,c,iy,ix]?0 w[k,c,ky,kx] b[k] -> y[n,k,oy,ox] += where iy = oy*s+ky-p, ix = ox*s+kx-p
//! ```
//!
//! - Before `->` stand the inputs, after it the outputs. An argument named on both sides is read and written.
//! - Each dimension is an *axis*. Axes of the same name are the same variable. `!` forbids to split an axis,
//!   wherever it is written. `*` is an index that depends on data: the whole dimension is read. `..` stands
//!   for any number of dimensions, the same for every argument that has it.
//! - `+=`, `max=`, `min=` after an output say how partial results are combined.
//! - `?0`, `?-inf`, `?skip` after an input give the value of reads outside of the array; without them such
//!   reads are an error when the relation is bound. Nothing is ever written outside: points that fall outside
//!   of an output are not part of the iteration (`?skip` may be written there, to say so).
//! - After `where` stand equations, `axis = axis*coefficient + … - constant`, and bounds, `axis < extent`.
//!   Names that are not axes are integer parameters, ordered by first mention. Parameters that multiply an
//!   axis or bound one must be at least 1, those that stand alone at least 0.
//!
//! # Windows
//!
//! An equation describes a sliding window: the axis on its left is the array under the window, the first axis
//! on its right the position of the window, the others are offsets inside. A negative constant is padding, on
//! both ends alike. The extent of the position is the largest for which no window reaches further than the
//! padding past the end (PyTorch's floor division), and shapes that disagree with it are refused.
//!
//! # Invariant
//!
//! Regions are exact: the region of an input is the bounding box of the elements that the points of the tile
//! read inside of the array, and the regions of an output over all tiles of a tiling cover it once per
//! reduction tile.
//!
//! # What a relation cannot say
//!
//! - An axis that an equation ties to an output axis is not split by itself; the output axis is.
//! - [`Relation::infer`] is ambiguous for the backward pass of strided windows, because several sizes of the
//!   image give the same number of windows. Layers therefore pass the shapes of the forward pass.
//! - A relation cannot see whether an output really can be combined: an argmax declared `max=` would be
//!   accepted. The conformance tests of kernels under random tilings find such mistakes.
//! - Kernels see regions, not tiles. So an axis that indexes no argument (the taps of a pooling window) is
//!   never split: nothing would tell the kernel which part of it is meant. There is no finish step either.
//!   Where tiles add up to a mean, each divides its own sum by the count of the whole array, which `extent()`
//!   of a view gives.

mod parse;
mod extents;
mod bind;
mod bound;
mod tile;
mod interval;

pub use bound::{Bound, BoundAxis, Split};
pub use tile::{Tile, TileSize};

use crate::error::Result;
use std::fmt;

/// The parsed form of a codelet's line.
#[derive(Clone, Debug)]
pub struct Relation {
    args: Vec<Arg>,
    n_inputs: usize,
    axes: Vec<String>,
    params: Vec<String>,
    equations: Vec<Equation>,
    bounds: Vec<Limit>,
}

impl Relation {
    /// Parses a line. Errors name the column, what was expected there and what was found.
    pub fn parse(line: &str) -> Result<Relation> {
        parse::parse(line)
    }

    /// The arguments in call order: those that are only read, as in the line, then the outputs, as in the
    /// line. An argument on both sides appears once, among the outputs.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// How many arguments are only read; they come first.
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// The names of the axes, in the order of their first mention; those of `..` have none.
    pub fn axes(&self) -> &[String] {
        &self.axes
    }

    /// The names of the integer parameters, in the order of their first mention.
    pub fn params(&self) -> &[String] {
        &self.params
    }

    /// The argument as it stands in the line, for error sentences.
    fn show(&self, arg: usize) -> String {
        let arg = &self.args[arg];
        let dims: Vec<&str> = arg.dims.iter().map(|dim| self.dim_name(*dim)).collect();
        format!("{}[{}]", arg.name, dims.join(","))
    }

    fn dim_name(&self, dim: Dim) -> &str {
        match dim {
            Dim::Axis(axis) => &self.axes[axis],
            Dim::Data => "*",
            Dim::Rest => "..",
        }
    }
}

/// One argument of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The name, as in the line.
    pub name: String,
    /// Whether it is read, written or both.
    pub mode: Mode,
    /// How partial results are combined, where they can be.
    pub accumulate: Option<Accumulate>,
    /// What reads outside of the array yield. Without meaning for outputs.
    pub outside: Outside,
    /// The axis of each dimension.
    dims: Vec<Dim>,
    /// The axes that this argument forbids to split.
    never: Vec<Dim>,
}

/// Whether an argument is read, written or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only read: named before the arrow.
    Read,
    /// Only written: named after the arrow.
    Write,
    /// Updated in place: named on both sides.
    ReadWrite,
}

/// How partial results of an output are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// `+=`: they are added.
    Add,
    /// `max=`: the largest counts.
    Max,
    /// `min=`: the smallest counts.
    Min,
}

/// What a read outside of an array yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Reads outside are refused when the relation is bound.
    Error,
    /// `?0`: zero.
    Zero,
    /// `?-inf`: minus infinity, the neutral element of a maximum.
    NegInf,
    /// `?skip`: the point does not contribute.
    Skip,
}

/// What indexes one dimension of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dim {
    /// The axis with this number.
    Axis(usize),
    /// An index that depends on data.
    Data,
    /// Any number of dimensions; at most once per argument.
    Rest,
}

/// `left = terms + constants`; every term has one axis and a positive coefficient.
#[derive(Clone, Debug)]
struct Equation {
    /// The defined axis.
    left: usize,
    /// Axis and the factors of its coefficient.
    terms: Vec<(usize, Vec<Factor>)>,
    /// Products without an axis: whether subtracted, and their factors.
    constants: Vec<(bool, Vec<Factor>)>,
    /// The equation as written, for error sentences.
    text: String,
}

/// `axis < extent`.
#[derive(Clone, Debug)]
struct Limit {
    axis: usize,
    extent: Factor,
}

/// A number in an equation or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    /// Written in the line.
    Int(i64),
    /// The parameter with this number.
    Param(usize),
}

impl fmt::Display for Accumulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accumulate::Add => "+=",
            Accumulate::Max => "max=",
            Accumulate::Min => "min=",
        })
    }
}

#[cfg(test)]
mod tests;
