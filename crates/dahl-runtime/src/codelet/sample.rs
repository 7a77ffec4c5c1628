//! Sample calls: what a codelet says about the arguments it can be tried on.
//!
//! A codelet's [`samples`](super::Codelet::samples) function draws shapes and parameters and says what kind
//! of values each argument holds. Everything that tries codelets out (conformance tests, benchmarks) is
//! driven by it alone, so that nothing else has to know a new codelet. Draws depend on their number only.

use crate::shape::{Dtype, Shape};
use std::ops::Range;

/// A source of random numbers for one sample; the same number gives the same sample everywhere.
#[derive(Clone, Debug)]
pub struct Draw {
    number: usize,
    state: u64,
}

/// Sample counts around the width of lane groups: one, ragged groups, full ones of either element type, none.
const SAMPLES: [usize; 9] = [1, 7, 8, 16, 17, 0, 37, 9, 2];

impl Draw {
    /// The source for sample `number`.
    pub fn new(number: usize) -> Self {
        Draw { number, state: (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// The next number in `0..n` (0 if `n` is 0).
    pub fn below(&mut self, n: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % n.max(1)
    }

    /// The next number from `lo` to `hi`, both included.
    pub fn between(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.below(hi - lo + 1)
    }

    /// The next value in -1..1, exact in `f32`.
    pub fn unit(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0
    }

    /// A number of samples: the extent of an axis that may lie in lanes. Successive samples go through 1,
    /// ragged and full groups, and 0.
    pub fn n_samples(&self) -> usize {
        SAMPLES[self.number % SAMPLES.len()]
    }

    /// A small extent: 1 to 9, now and then 0.
    pub fn extent(&mut self) -> usize {
        if self.below(16) == 0 { 0 } else { self.between(1, 9) }
    }

    /// A small extent that is at least 1: for axes of windows, and classes that labels pick from.
    pub fn full(&mut self) -> usize {
        self.between(1, 9)
    }

    /// An extent up to 40, so that blocks of vectors and their remainders occur; now and then 0.
    pub fn wide(&mut self) -> usize {
        if self.below(16) == 0 { 0 } else { self.between(1, 40) }
    }

    /// A shape of any rank, for arguments indexed by `..`.
    pub fn shape(&mut self) -> Shape {
        match self.below(5) {
            0 => Shape::new(&[]),
            1 => Shape::new(&[self.wide()]),
            2 => Shape::new(&[self.n_samples(), self.extent()]),
            3 => Shape::new(&[self.n_samples(), self.extent(), self.extent()]),
            _ => Shape::new(&[self.n_samples(), self.between(1, 3), self.extent(), self.extent()]),
        }
    }
}

/// How the results of other implementations, and of tiles put together, may differ from the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Not at all.
    Exact,
    /// By rounding, relative to the sum of the magnitudes of the terms. This is what the reference gives for
    /// the magnitudes of its arguments: right for sums of products.
    Sum,
    /// By rounding, relative to this magnitude.
    Scale(f64),
}

/// The values of a sample's argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers in -1..1, among them infinities and NaN where a test asks for them.
    Any,
    /// A handful of small integers, so that there are ties; otherwise as `Any`.
    Few,
    /// Numbers in this range and no others.
    Within(Range<f64>),
    /// Integers below this.
    Below(usize),
}

/// One argument of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleArg {
    /// Its extents.
    pub shape: Shape,
    /// Its element type, or none for the one that the implementation computes in.
    pub dtype: Option<Dtype>,
    /// What it holds.
    pub values: Values,
}

/// A call that a codelet can be tried on.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The arguments in call order: inputs, then outputs (and what is read and written).
    pub args: Vec<SampleArg>,
    /// Integer parameters.
    pub ints: Vec<i64>,
    /// Floating-point parameters.
    pub scalars: Vec<f64>,
    /// How results may differ.
    pub tolerance: Tolerance,
}

impl Sample {
    /// A sample without arguments yet.
    pub fn new(tolerance: Tolerance) -> Self {
        Sample { args: Vec::new(), ints: Vec::new(), scalars: Vec::new(), tolerance }
    }

    fn arg(mut self, shape: impl Into<Shape>, dtype: Option<Dtype>, values: Values) -> Self {
        self.args.push(SampleArg { shape: shape.into(), dtype, values });
        self
    }

    /// Adds an argument in the element type that is computed in.
    pub fn real(self, shape: impl Into<Shape>) -> Self {
        self.arg(shape, None, Values::Any)
    }

    /// Adds an argument in the element type that is computed in, with values in a range (for example
    /// variances, which are not negative). No infinities and NaN are tried.
    pub fn real_in(self, shape: impl Into<Shape>, values: Range<f64>) -> Self {
        self.arg(shape, None, Values::Within(values))
    }

    /// Adds an argument in the element type that is computed in, with many equal values.
    pub fn ties(self, shape: impl Into<Shape>) -> Self {
        self.arg(shape, None, Values::Few)
    }

    /// Adds an argument of integers below `n`: labels, places in a window, indices.
    pub fn below(self, dtype: Dtype, shape: impl Into<Shape>, n: usize) -> Self {
        self.arg(shape, Some(dtype), Values::Below(n))
    }

    /// With these integer parameters.
    pub fn ints(mut self, ints: &[usize]) -> Self {
        self.ints = ints.iter().map(|&int| int as i64).collect();
        self
    }

    /// With these floating-point parameters.
    pub fn scalars(mut self, scalars: &[f64]) -> Self {
        self.scalars = scalars.to_vec();
        self
    }
}
