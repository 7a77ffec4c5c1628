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
    /// Whether an implementation suits a task: what a [`Family`] of implementations asks.
    pub suits: fn(&Implementation, &Work<'_>) -> bool,
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
        let suits = |_: &Implementation, _: &Work<'_>| true;
        let algorithms = |_: &Implementation, _: &CallSpec| String::new();
        let scratch = |_: &Implementation, _: &CallSpec| 0;
        Codelet {
            name,
            line,
            flops_per_point,
            implementations,
            in_place: false,
            sample: None,
            suits,
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

    /// The same codelet, some of whose implementations suit a task only where this says so. Whether a graph
    /// is computed by a [`Family`] of implementations may depend on it.
    pub const fn suits(mut self, suits: fn(&Implementation, &Work<'_>) -> bool) -> Self {
        self.suits = suits;
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

    /// The implementation called `name` for elements of `dtype` that cores of a CPU run.
    pub fn implementation(&self, name: &str, dtype: Dtype) -> Option<&'static Implementation> {
        self.of_code(CPU, dtype).find(|implementation| implementation.name == name)
    }

    /// The implementations of a code for elements of `dtype`, in the order of the list.
    pub fn of_code(&self, code: &str, dtype: Dtype) -> impl Iterator<Item = &'static Implementation> {
        self.implementations.iter().filter(move |i| i.code == code && i.dtype == dtype)
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

/// The code that CPU cores run.
pub const CPU: &str = "cpu";

/// One way to compute a codelet, on units of the kinds that run its code.
#[derive(Clone, Copy, Debug)]
pub struct Implementation {
    /// The name: `reference` for the scalar truth, and others for faster versions. No other implementation of
    /// the codelet for the same code and element type has it.
    pub name: &'static str,
    /// Rises with every change that may change bits; recorded in plans.
    pub version: u32,
    /// The floating-point element type it computes in.
    pub dtype: Dtype,
    /// What it asks of its arguments' memory.
    pub needs: Needs,
    /// The function.
    pub kernel: Kernel,
    /// The code it is written in, such as [`CPU`]: units whose kind runs this code execute it, and no others.
    pub code: &'static str,
    /// A family that it may be chosen by.
    pub family: Option<&'static Family>,
}

impl Implementation {
    /// An implementation that cores of a CPU run.
    pub const fn new(name: &'static str, version: u32, dtype: Dtype, needs: Needs, kernel: Kernel) -> Self {
        Implementation { name, version, dtype, needs, kernel, code: CPU, family: None }
    }

    /// The same, in another code.
    pub const fn in_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// The same, which a family may choose.
    pub const fn of_family(mut self, family: &'static Family) -> Self {
        self.family = Some(family);
        self
    }

    /// The name as plans and options write it: that of the code comes before it, unless cores of a CPU run
    /// it.
    pub fn written(&self) -> String {
        if self.code == CPU { self.name.to_string() } else { format!("{}:{}", self.code, self.name) }
    }

    /// The layout it needs an argument in, if it needs a certain one.
    pub fn need(&self, arg: usize) -> Option<Layout> {
        match self.needs {
            Needs::Nothing => None,
            Needs::Layouts(layouts) => layouts.get(arg).copied(),
        }
    }
}

impl PartialEq for Implementation {
    fn eq(&self, other: &Self) -> bool {
        (self.code, self.name, self.version, self.dtype)
            == (other.code, other.name, other.version, other.dtype)
    }
}

/// Implementations that compute all tasks of a graph or none, because a part of them would have to convert
/// what the others leave.
///
/// A family stands among the names of implementations that a cut prefers. If every task of the graph agrees,
/// those behind it in the list are passed over where they are none of the family.
#[derive(Debug)]
pub struct Family {
    /// The name by which a cut asks for it.
    pub name: &'static str,
    /// Whether a task is computed well by the family, or as well as otherwise.
    pub agrees: fn(&Codelet, &Work<'_>) -> bool,
    /// Whether an implementation belongs to it, also of codelets that do not know it.
    pub has: fn(&Implementation) -> bool,
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
