//! Codelets: one operation each, with its index relation, its cost and its implementations.
//!
//! A codelet is a static value. Its [`relation`] line says how its arguments are indexed, and everything the
//! runtime does with it (splitting, halos, dependencies, transfers) follows from that line. Kernels receive a
//! [`Call`]: views of tile buffers, the region to compute and the parameters, and know nothing else.

pub mod builtin;
mod spec;
mod call;
mod view;
mod pieces;
mod map;
pub mod relation;
mod sample;

pub use call::Call;
pub use pieces::{Pieces, PiecesMut};
pub use sample::{Draw, Sample, SampleArg, Tolerance, Values};
pub use spec::{ArgSpec, CallSpec};
pub use view::{View, ViewMut, for_each_index};

use crate::error::Result;
use crate::shape::{Dtype, Layout, Shape};
use crate::sync::OnceLock;
use relation::Relation;
use std::fmt;

/// One operation: what it is called, how it is indexed, what it costs, and who can compute it.
pub struct Codelet {
    /// The name, as in plans, performance models and traces.
    pub name: &'static str,
    /// The index relation, for example `x[n,i] w[o,i] b[o] -> y[n,o] +=`.
    pub line: &'static str,
    /// Floating-point operations per point of the iteration space (a multiply-add counts 2).
    pub flops_per_point: f64,
    /// The implementations, the scalar reference first.
    pub implementations: &'static [Implementation],
    /// Whether an output may be the same memory as an input: its kernels read through [`Call::map`] or a
    /// sibling, by element or by [`Pieces`], and read nothing that they have overwritten. Slices of memory
    /// that is both are refused.
    pub in_place: bool,
    /// Draws calls that the codelet can be tried on: what conformance tests go by.
    pub sample: Option<fn(&mut Draw) -> Sample>,
    /// Whether `flat`, which has samples one after another, may compute a task whose samples are too few for
    /// lanes.
    pub few: fn(&Work<'_>) -> bool,
    /// Which algorithms an implementation takes for a call, where its kernel chooses by itself; empty where
    /// it does not.
    pub algorithms: fn(&Implementation, &CallSpec) -> String,
    /// How many bytes of [scratch](Call::scratch) an implementation needs for a call.
    pub scratch: fn(&Implementation, &CallSpec) -> usize,
    /// The parsed line.
    parsed: OnceLock<Relation>,
}

impl Codelet {
    /// A codelet in a `static`.
    pub const fn new(
        name: &'static str,
        line: &'static str,
        flops_per_point: f64,
        implementations: &'static [Implementation],
    ) -> Self {
        let parsed = OnceLock::new();
        let few = |_: &Work<'_>| true;
        let algorithms = |_: &Implementation, _: &CallSpec| String::new();
        let scratch = |_: &Implementation, _: &CallSpec| 0;
        Codelet {
            name,
            line,
            flops_per_point,
            implementations,
            in_place: false,
            sample: None,
            few,
            algorithms,
            scratch,
            parsed,
        }
    }

    /// The same codelet, with a function that draws sample calls.
    pub const fn samples(mut self, sample: fn(&mut Draw) -> Sample) -> Self {
        self.sample = Some(sample);
        self
    }

    /// The same codelet, whose `flat` implementation is only taken for few samples where this says so.
    pub const fn few(mut self, suits: fn(&Work<'_>) -> bool) -> Self {
        self.few = suits;
        self
    }

    /// The same codelet, whose kernels choose algorithms by themselves, and this says which: times of
    /// different ones are kept apart. It goes by what does not change from run to run, as kernels do; where
    /// they look at values, for example whether all are finite, it says what is taken for usual ones.
    pub const fn algorithms(mut self, algorithms: fn(&Implementation, &CallSpec) -> String) -> Self {
        self.algorithms = algorithms;
        self
    }

    /// The same codelet, whose kernels need memory while they run: this says how many bytes. A kernel gets as
    /// many, from whoever calls it, and no more, so it should take its sizes from the same function. It goes
    /// by shapes, regions, layouts and integers alone, not by scalars or values: what is needed is known, and
    /// there, before the first step.
    pub const fn scratch(mut self, scratch: fn(&Implementation, &CallSpec) -> usize) -> Self {
        self.scratch = scratch;
        self
    }

    /// The same codelet, whose output may be the same view as an input.
    pub const fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// The parsed index relation.
    ///
    /// # Panics
    /// If the line does not parse: that is a mistake in the program, and a test parses every listed codelet.
    pub fn relation(&self) -> &Relation {
        self.parsed.get_or_init(|| match Relation::parse(self.line) {
            Ok(relation) => relation,
            Err(error) => panic!("codelet {}: {error}", self.name),
        })
    }

    /// The implementation called `name` for elements of `dtype`.
    pub fn implementation(&self, name: &str, dtype: Dtype) -> Option<&'static Implementation> {
        self.implementations.iter().find(|i| i.name == name && i.dtype == dtype)
    }
}

impl fmt::Debug for Codelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.line)
    }
}

/// A task before it is cut: what a codelet may be asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The element type it computes in.
    pub dtype: Dtype,
    /// The extents of its arguments, in call order.
    pub shapes: &'a [Shape],
    /// Integer parameters.
    pub ints: &'a [i64],
}

/// A kernel: computes the output regions of one call from its inputs.
pub type Kernel = fn(&Call<'_>) -> Result<()>;

/// One way to compute a codelet.
#[derive(Debug)]
pub struct Implementation {
    /// The name: `reference` for the scalar truth, `lanes` for the sample-lane version, `flat` for the
    /// row-major one, …
    pub name: &'static str,
    /// Rises with every change that may change bits; recorded in plans.
    pub version: u32,
    /// The floating-point element type it computes in.
    pub dtype: Dtype,
    /// What it asks of its arguments' memory.
    pub needs: Needs,
    /// The function.
    pub kernel: Kernel,
}

/// What an implementation asks of the memory of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any layout, any window of a larger tile: the kernel goes through [`View::at`].
    Nothing,
    /// These layouts, in argument order, and each region contiguous: a lanes argument covers its whole tile,
    /// a row-major argument a contiguous range.
    Layouts(&'static [Layout]),
}
