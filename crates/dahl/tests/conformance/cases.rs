//! What conformance is tested on: for each codelet, shapes and contents of its arguments.

use crate::harness::Random;
use dahl::op;
use dahl_runtime::array::{Dtype, Region, Shape};
use dahl_runtime::codelet::Codelet;
use std::fmt;

/// The contents of one argument; the memory around it is up to the test.
#[derive(Clone)]
pub struct Array {
    /// The element type, or `None` for the one that the codelet computes in.
    pub dtype: Option<Dtype>,
    /// First index per dimension.
    lo: Vec<usize>,
    shape: Vec<usize>,
    /// Row by row.
    pub data: Vec<f64>,
}

impl Array {
    fn new(shape: &[usize], mut value: impl FnMut() -> f64) -> Self {
        let data = (0..shape.iter().product()).map(|_| value()).collect();
        Array { dtype: None, lo: vec![0; shape.len()], shape: shape.to_vec(), data }
    }

    fn of(mut self, dtype: Dtype) -> Self {
        self.dtype = Some(dtype);
        self
    }

    fn from(mut self, dim: usize, lo: usize) -> Self {
        self.lo[dim] = lo;
        self
    }

    /// Where it lies in the whole array.
    pub fn region(&self) -> Region {
        let ranges: Vec<_> = self.lo.iter().zip(&self.shape).map(|(&lo, &extent)| lo..lo + extent).collect();
        Region::new(&ranges)
    }

    /// The extents of the whole array: as far as this part reaches.
    pub fn extent(&self) -> Shape {
        Shape::new(self.region().hi())
    }
}

/// How results may differ from the reference.
#[derive(Clone, Copy)]
pub enum Check {
    /// Not at all.
    Exact,
    /// By rounding, relative to the sum of the magnitudes of the terms.
    SumOfTerms,
    /// By rounding, relative to this.
    Scale(f64),
}

/// One call.
#[derive(Clone)]
pub struct Case {
    /// Whose.
    pub codelet: &'static Codelet,
    /// Inputs.
    pub inputs: Vec<Array>,
    /// What the outputs hold beforehand.
    pub outputs: Vec<Array>,
    /// Integer parameters.
    pub ints: Vec<i64>,
    /// Whether it adds to the outputs.
    pub accumulate: bool,
    /// How to compare.
    pub check: Check,
    /// Whether there are infinities and NaN among the inputs.
    pub is_special: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.codelet.name)?;
        for array in self.inputs.iter().chain(&self.outputs) {
            write!(f, " {}", array.region())?;
        }
        write!(f, " {:?}{}", self.ints, if self.accumulate { " +=" } else { "" })?;
        write!(f, "{}", if self.is_special { " with infinities and NaN" } else { "" })
    }
}

/// Sample counts, and whether the call accumulates: one, a ragged group, full groups of either element type,
/// ragged after full ones, none.
const SAMPLES: [(usize, bool); 9] = [
    (1, false),
    (7, true),
    (8, false),
    (16, true),
    (17, false),
    (17, true),
    (37, false),
    (0, false),
    (0, true),
];

/// All cases; those with ragged groups also with infinities and NaN among their floating-point inputs.
pub fn all_cases() -> impl Iterator<Item = Case> {
    let mut random = Random(7);
    let (mut cases, mut special) = (Vec::new(), Vec::new());
    for (n, accumulate) in SAMPLES {
        let first = cases.len();
        windows(&mut cases, &mut random, n, accumulate);
        layers(&mut cases, &mut random, n, accumulate);
        if n == 7 || n == 17 {
            special.extend(cases[first..].iter().map(|case| with_special_values(case, &mut random)));
        }
    }
    cases.into_iter().chain(special)
}

/// (channels, kernels, height, width, size, stride, pad): odd, not square, of size 1, empty, and one of each
/// path: blocks of 8, 4, 2 and 1 channels, sizes 1 to 5, windows that overlap, leave gaps or miss the image.
const WINDOWS: [[usize; 7]; 12] = [
    [1, 8, 9, 11, 3, 1, 0],
    [2, 3, 7, 5, 3, 1, 1],
    [3, 13, 6, 9, 5, 1, 2],
    [1, 1, 1, 1, 1, 1, 0],
    [2, 4, 8, 6, 2, 2, 0],
    [1, 2, 7, 7, 2, 2, 1],
    [2, 5, 9, 7, 3, 2, 1],
    [1, 6, 8, 10, 4, 3, 2],
    [5, 1, 5, 6, 1, 2, 0],
    [30, 2, 4, 4, 3, 1, 1],
    [0, 2, 4, 4, 3, 1, 0],
    [2, 9, 3, 4, 5, 1, 2],
];

fn windows(cases: &mut Vec<Case>, random: &mut Random, n: usize, accumulate: bool) {
    for [c, k, height, width, size, stride, pad] in WINDOWS {
        let (oh, ow) = ((height + 2 * pad - size) / stride + 1, (width + 2 * pad - size) / stride + 1);
        let mut t = |shape: &[usize]| Array::new(shape, || random.unit());
        let (x, w, b) = (t(&[n, c, height, width]), t(&[k, c, size, size]), t(&[k]));
        let (y, pooled) = (t(&[n, k, oh, ow]), t(&[n, c, oh, ow]));
        let ints = [stride as i64, pad as i64];
        let pool_ints = [stride as i64, pad as i64, size as i64];
        let case = |codelet, inputs: &[&Array], outputs: &[&Array], ints: &[i64], check| Case {
            codelet,
            inputs: inputs.iter().map(|&array| array.clone()).collect(),
            outputs: outputs.iter().map(|&array| array.clone()).collect(),
            ints: ints.to_vec(),
            accumulate,
            check,
            is_special: false,
        };
        let sum = Check::SumOfTerms;
        cases.push(case(&op::conv2d::CODELET, &[&x, &w, &b], &[&y], &ints, sum));
        // Channels that do not start at 0: no bias.
        let (x_later, w_later) = (x.clone().from(1, 3), w.clone().from(1, 3));
        cases.push(case(&op::conv2d::CODELET, &[&x_later, &w_later, &b], &[&y], &ints, sum));
        cases.push(case(&op::conv2d_dw::CODELET, &[&x, &y], &[&w], &ints, sum));
        cases.push(case(&op::channel_sum::CODELET, &[&y], &[&b], &[], sum));
        cases.push(case(&op::relu::CODELET, &[&x], &[&x], &[], Check::Exact));
        cases.push(case(&op::relu_backward::CODELET, &[&x, &x], &[&x], &[], Check::Exact));
        // Few values, so that there are ties.
        let tied = Array::new(&[n, c, height, width], || random.below(4) as f64 - 1.0);
        let arg = Array::new(&[n, c, oh, ow], || random.below(size * size) as f64).of(Dtype::U8);
        cases.push(case(&op::max_pool::CODELET, &[&tied], &[&pooled, &arg], &pool_ints, Check::Exact));
        cases.push(case(&op::max_pool_backward::CODELET, &[&arg, &pooled], &[&x], &pool_ints, Check::Exact));
        // A part of the image with the windows that lie inside it: regions that start anywhere.
        let (x_part, y_part) = (x.clone().from(2, 4).from(3, 6), y.clone().from(2, 2).from(3, 3));
        cases.push(case(&op::conv2d::CODELET, &[&x_part, &w, &b], &[&y_part], &ints, sum));
        cases.push(case(&op::conv2d_dw::CODELET, &[&x_part, &y_part], &[&w], &ints, sum));
        let (arg_part, pooled_part) = (arg.from(2, 2).from(3, 3), pooled.from(2, 2).from(3, 3));
        let outputs = [&pooled_part, &arg_part];
        cases.push(case(&op::max_pool::CODELET, &[&x_part], &outputs, &pool_ints, Check::Exact));
        let inputs = [&arg_part, &pooled_part];
        cases.push(case(&op::max_pool_backward::CODELET, &inputs, &[&x_part], &pool_ints, Check::Exact));
    }
}

/// (inputs, outputs) of dense layers: every block size and its remainders.
const DENSE: [[usize; 2]; 8] = [[1, 1], [13, 10], [16, 12], [40, 3], [33, 25], [7, 13], [0, 4], [5, 0]];

fn layers(cases: &mut Vec<Case>, random: &mut Random, n: usize, accumulate: bool) {
    let case = |codelet, inputs: &[&Array], outputs: &[&Array], check| Case {
        codelet,
        inputs: inputs.iter().map(|&array| array.clone()).collect(),
        outputs: outputs.iter().map(|&array| array.clone()).collect(),
        ints: Vec::new(),
        accumulate,
        check,
        is_special: false,
    };
    for [i, o] in DENSE {
        let mut t = |shape: &[usize]| Array::new(shape, || random.unit());
        let (x, w, b, y) = (t(&[n, i]), t(&[o, i]), t(&[o]), t(&[n, o]));
        let sum = Check::SumOfTerms;
        cases.push(case(&op::dense::CODELET, &[&x, &w, &b], &[&y], sum));
        let (x_later, w_later) = (x.clone().from(1, 3), w.clone().from(1, 3));
        cases.push(case(&op::dense::CODELET, &[&x_later, &w_later, &b], &[&y], sum));
        cases.push(case(&op::dense_dx::CODELET, &[&y, &w], &[&x], sum));
        cases.push(case(&op::dense_dw::CODELET, &[&x, &y], &[&w], sum));
        cases.push(case(&op::dense_db::CODELET, &[&y], &[&b], sum));
        let rate = t(&[]);
        let flat = w_flat(&w, 5);
        cases.push(case(&op::sgd::CODELET, &[&b, &rate], &[&b], Check::Scale(2.0)));
        cases.push(case(&op::sgd::CODELET, &[&flat, &rate], &[&flat], Check::Scale(2.0)));
        if o > 0 {
            let logits = Array::new(&[n, o], || random.unit() * 10.0);
            let label = Array::new(&[n], || random.below(o) as f64).of(Dtype::U8);
            let (loss, correct) = (Array::new(&[], || 0.25), Array::new(&[], || 3.0));
            // A tile in the middle of a batch: the mean is over all of the batch.
            let (logits, label) = (logits.from(0, 32), label.from(0, 32));
            let dlogits = logits.clone();
            let outputs = [&loss, &correct, &dlogits];
            cases.push(case(&op::softmax_ce::CODELET, &[&logits, &label], &outputs, Check::Scale(20.0)));
        }
        let images = Array::new(&[9, 2, i, 3], || random.below(256) as f64).of(Dtype::U8);
        let labels = Array::new(&[9], || random.below(256) as f64).of(Dtype::U8);
        let index = Array::new(&[n], || random.below(9) as f64).of(Dtype::U32).from(0, 48);
        let loaded = Array::new(&[n, 2, i, 3], || 0.5).from(0, 48);
        cases.push(case(&op::load::CODELET, &[&images, &index], &[&loaded], Check::Exact));
        let label = Array::new(&[n], || 1.0).of(Dtype::U8).from(0, 48);
        cases.push(case(&op::load_labels::CODELET, &[&labels, &index], &[&label], Check::Exact));
    }
}

/// A matrix as a flat range that starts at `lo`.
fn w_flat(w: &Array, lo: usize) -> Array {
    Array { dtype: None, lo: vec![lo], shape: vec![w.data.len()], data: w.data.clone() }
}

/// The case with a few infinities and NaN in its floating-point inputs.
fn with_special_values(case: &Case, random: &mut Random) -> Case {
    let mut case = case.clone();
    case.is_special = true;
    for array in case.inputs.iter_mut().filter(|array| array.dtype.is_none() && !array.data.is_empty()) {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let at = random.below(array.data.len());
            array.data[at] = value;
        }
    }
    case
}
