//! Every backward codelet against the numbers: the derivative of its forward codelet by central differences,
//! in `f64`, on random small shapes, for every implementation.

use dahl::op;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::{Codelet, Draw, Needs};
use dahl_runtime::conformance::{Arg, Prepared, Settings};

const T: Dtype = Dtype::F64;
/// Random shapes per pair.
const ROUNDS: usize = 12;
/// Half the distance of a central difference: truncation and rounding errors are both about 1e-10 here.
const STEP: f64 = 1e-5;
/// How far a gradient may be from its central difference, relative to the largest.
const TOLERANCE: f64 = 1e-7;

/// An array: element type, extents, elements row by row.
#[derive(Clone)]
struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    fn new(shape: &[usize], mut value: impl FnMut() -> f64) -> Self {
        let data = (0..shape.iter().product()).map(|_| value()).collect();
        Array { dtype: T, shape: shape.to_vec(), data }
    }

    fn of(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    fn empty(shape: &[usize]) -> Self {
        Array::new(shape, || f64::NAN)
    }
}

/// Calls one implementation of a codelet on whole arrays; returns the outputs.
struct Caller<'a> {
    implementation: &'a str,
    ints: Vec<i64>,
    scalars: Vec<f64>,
}

impl Caller<'_> {
    fn call(&self, codelet: &Codelet, inputs: &[&Array], outputs: &[Array]) -> Vec<Array> {
        // One of several codelets that are tried together may have the reference only, beside lanes.
        let named = codelet.implementation(self.implementation, T);
        let implementation =
            named.or_else(|| codelet.implementation("reference", T)).expect("a listed implementation");
        let needs = implementation.needs;
        let arrays: Vec<Array> = inputs.iter().map(|&input| input.clone()).chain(outputs.to_vec()).collect();
        let args = arrays.iter().enumerate().map(|(i, array)| {
            let layout = match needs {
                Needs::Layouts(layouts) => layouts[i],
                Needs::Nothing => Layout::RowMajor,
            };
            let mut arg = Arg::whole(array.dtype, layout, &array.shape);
            arg.fill(&array.data);
            arg
        });
        let settings =
            Settings { n_inputs: inputs.len(), ints: &self.ints, scalars: &self.scalars, accumulate: false };
        let mut prepared = Prepared::new(codelet, implementation.name, T, args.collect(), &settings);
        prepared.run().expect("the kernel runs");
        let results = prepared.into_args().split_off(inputs.len());
        arrays[inputs.len()..]
            .iter()
            .zip(results)
            .map(|(array, result)| Array { data: result.values(), ..array.clone() })
            .collect()
    }

    /// The one output of a codelet that has one.
    fn one(&self, codelet: &Codelet, inputs: &[&Array], shape: &[usize]) -> Array {
        self.call(codelet, inputs, &[Array::empty(shape)]).remove(0)
    }
}

/// Runs `check` with random numbers for every implementation that the codelet has.
fn every_time(codelet: &Codelet, mut check: impl FnMut(&mut Caller<'_>, &mut Draw)) {
    for implementation in codelet.implementations.iter().filter(|i| i.dtype == T) {
        for seed in 0..ROUNDS {
            let mut caller =
                Caller { implementation: implementation.name, ints: Vec::new(), scalars: Vec::new() };
            check(&mut caller, &mut Draw::new(seed));
        }
    }
}

/// Compares `gradient` with the central differences of `Σ output · weights` as `input` changes.
fn compare(what: &str, input: &Array, weights: &Array, gradient: &Array, forward: impl Fn(&Array) -> Array) {
    assert_eq!(input.shape, gradient.shape, "{what}");
    let loss = |input: &Array| -> f64 {
        let output = forward(input);
        assert_eq!(output.shape, weights.shape, "{what}");
        output.data.iter().zip(&weights.data).map(|(a, b)| a * b).sum()
    };
    let scale = gradient.data.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
    for i in 0..input.data.len() {
        let moved = |by: f64| {
            let mut input = input.clone();
            input.data[i] += by;
            loss(&input)
        };
        let numeric = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        let error = (numeric - gradient.data[i]).abs();
        assert!(
            error <= TOLERANCE * scale,
            "{what}: the gradient of element {i} of {:?} is {}, but the difference quotient {numeric}",
            input.shape,
            gradient.data[i]
        );
    }
}

/// Extents of a sliding window: input, output, taps, stride, padding.
struct Windows {
    input: [usize; 2],
    output: [usize; 2],
    taps: [usize; 2],
    stride: usize,
    pad: usize,
}

impl Windows {
    fn draw(draw: &mut Draw, square: bool) -> Self {
        let (stride, pad) = (1 + draw.below(3), draw.below(3));
        let height = 1 + draw.below(3);
        let taps = [height, if square { height } else { 1 + draw.below(3) }];
        // Wide enough that vectorised kernels find pixels under all taps of a row.
        let input =
            [4, 12].map(|more| taps[0].max(taps[1]).saturating_sub(2 * pad).max(1) + draw.below(more));
        let output = [0, 1].map(|i| (input[i] + 2 * pad - taps[i]) / stride + 1);
        Windows { input, output, taps, stride, pad }
    }
}

/// Up to nine samples: one group and, now and then, one sample more.
fn samples(draw: &mut Draw) -> usize {
    if draw.below(4) == 0 { 9 } else { 1 + draw.below(3) }
}

#[test]
fn convolution() {
    every_time(&op::conv2d::CODELET, |caller, draw| {
        let (n, c, k) = (samples(draw), 1 + draw.below(3), 1 + draw.below(4));
        let windows = Windows::draw(draw, false);
        let ([iy, ix], [oy, ox], [ky, kx]) = (windows.input, windows.output, windows.taps);
        caller.ints = vec![windows.stride as i64, windows.pad as i64];
        let mut t = |shape: &[usize]| Array::new(shape, || draw.unit());
        let (x, w, b, dy) = (t(&[n, c, iy, ix]), t(&[k, c, ky, kx]), t(&[k]), t(&[n, k, oy, ox]));
        let y = |x: &Array, w: &Array, b: &Array| caller.one(&op::conv2d::CODELET, &[x, w, b], &dy.shape);
        let dx = caller.one(&op::conv2d_dx::CODELET, &[&dy, &w], &x.shape);
        compare("conv2d_dx", &x, &dy, &dx, |x| y(x, &w, &b));
        // Away from the kink.
        let mut apart = x.clone();
        apart.data.iter_mut().for_each(|value| *value += 0.1_f64.copysign(*value));
        let dx = caller.one(&op::relu_conv2d_dx::CODELET, &[&dy, &w, &apart], &x.shape);
        compare("relu_conv2d_dx", &apart, &dy, &dx, |x| {
            y(&caller.one(&op::relu::CODELET, &[x], &x.shape), &w, &b)
        });
        let dw = caller.one(&op::conv2d_dw::CODELET, &[&x, &dy], &w.shape);
        compare("conv2d_dw", &w, &dy, &dw, |w| y(&x, w, &b));
        let db = caller.one(&op::channel_sum::CODELET, &[&dy], &b.shape);
        compare("channel_sum", &b, &dy, &db, |b| y(&x, &w, b));
    });
}

#[test]
fn convolution_with_pool_and_rectifier() {
    every_time(&op::conv2d_relu_max_pool::CODELET, |caller, draw| {
        let (n, c, k) = (samples(draw), 1 + draw.below(3), 1 + draw.below(4));
        let mut windows = Windows::draw(draw, false);
        let (stride, size) = (1 + draw.below(3), 1 + draw.below(2));
        for i in 0..2 {
            // At least one window of the pool.
            while windows.output[i] < size {
                windows.output[i] += 1;
                windows.input[i] += windows.stride;
            }
            windows.output[i] = (windows.output[i] - size) / stride + 1;
        }
        let ([iy, ix], [oy, ox], [ky, kx]) = (windows.input, windows.output, windows.taps);
        caller.ints = [windows.stride, windows.pad, stride, size].map(|int| int as i64).to_vec();
        let mut t = |shape: &[usize]| Array::new(shape, || draw.unit());
        let (x, w, b, dy) = (t(&[n, c, iy, ix]), t(&[k, c, ky, kx]), t(&[k]), t(&[n, k, oy, ox]));
        let outputs = [Array::empty(&dy.shape), Array::empty(&dy.shape).of(Dtype::U8)];
        let forward =
            |w: &Array, b: &Array| caller.call(&op::conv2d_relu_max_pool::CODELET, &[&x, w, b], &outputs);
        let arg = forward(&w, &b).remove(1);
        let gradients = [Array::empty(&w.shape), Array::empty(&b.shape)];
        let gradients = caller.call(&op::conv2d_relu_max_pool_dw::CODELET, &[&x, &dy, &arg], &gradients);
        compare("conv2d_relu_max_pool_dw", &w, &dy, &gradients[0], |w| forward(w, &b).remove(0));
        compare("conv2d_relu_max_pool_dw, db", &b, &dy, &gradients[1], |b| forward(&w, b).remove(0));
    });
}

#[test]
fn dense() {
    every_time(&op::dense::CODELET, |caller, draw| {
        let (n, i, o) = (samples(draw), 1 + draw.below(6), 1 + draw.below(6));
        let mut t = |shape: &[usize]| Array::new(shape, || draw.unit());
        let (x, w, b, dy) = (t(&[n, i]), t(&[o, i]), t(&[o]), t(&[n, o]));
        let y = |x: &Array, w: &Array, b: &Array| caller.one(&op::dense::CODELET, &[x, w, b], &dy.shape);
        let dx = caller.one(&op::dense_dx::CODELET, &[&dy, &w], &x.shape);
        compare("dense_dx", &x, &dy, &dx, |x| y(x, &w, &b));
        let dw = caller.one(&op::dense_dw::CODELET, &[&x, &dy], &w.shape);
        compare("dense_dw", &w, &dy, &dw, |w| y(&x, w, &b));
        let db = caller.one(&op::dense_db::CODELET, &[&dy], &b.shape);
        compare("dense_db", &b, &dy, &db, |b| y(&x, &w, b));
    });
}

#[test]
fn pooling() {
    every_time(&op::max_pool::CODELET, |caller, draw| {
        let (n, c) = (samples(draw), 1 + draw.below(3));
        let windows = Windows::draw(draw, true);
        let ([iy, ix], [oy, ox]) = (windows.input, windows.output);
        caller.ints = vec![windows.stride as i64, windows.pad as i64, windows.taps[0] as i64];
        // No two pixels are closer than the step, so that no maximum changes place.
        let len = n * c * iy * ix;
        let mut order: Vec<usize> = (0..len).collect();
        (0..len).for_each(|i| order.swap(i, i + draw.below(len - i)));
        let mut order = order.into_iter();
        let x = Array::new(&[n, c, iy, ix], || order.next().expect("one per pixel") as f64 / len as f64);
        let dy = Array::new(&[n, c, oy, ox], || draw.unit());
        // A window beside the image has the maximum -inf, of which there is no difference.
        if windows.pad < windows.taps[0] {
            let places = Array::empty(&dy.shape).of(Dtype::U8);
            let pool = |x: &Array| {
                let outputs = [Array::empty(&dy.shape), places.clone()];
                caller.call(&op::max_pool::CODELET, &[x], &outputs)
            };
            let dx = caller.one(&op::max_pool_backward::CODELET, &[&pool(&x)[1], &dy], &x.shape);
            compare("max_pool_backward", &x, &dy, &dx, |x| pool(x).remove(0));
        }
        let dx = caller.one(&op::avg_pool_backward::CODELET, &[&dy], &x.shape);
        compare("avg_pool_backward", &x, &dy, &dx, |x| caller.one(&op::avg_pool::CODELET, &[x], &dy.shape));
    });
}

#[test]
fn rectifier() {
    every_time(&op::relu::CODELET, |caller, draw| {
        let shape = [samples(draw), 1 + draw.below(4), 1 + draw.below(4)];
        // Away from the kink.
        let x = Array::new(&shape, || if draw.below(2) == 0 { -1.5 } else { 1.5 } + draw.unit());
        let dy = Array::new(&shape, || draw.unit());
        let y = caller.one(&op::relu::CODELET, &[&x], &shape);
        let dx = caller.one(&op::relu_backward::CODELET, &[&y, &dy], &shape);
        compare("relu_backward", &x, &dy, &dx, |x| caller.one(&op::relu::CODELET, &[x], &shape));
        let outputs = [Array::empty(&shape), Array::empty(&shape).of(Dtype::U8)];
        let rectify = |x: &Array| caller.call(&op::relu_mask::CODELET, &[x], &outputs);
        let dx = caller.one(&op::relu_mask_backward::CODELET, &[&rectify(&x)[1], &dy], &shape);
        compare("relu_mask_backward", &x, &dy, &dx, |x| rectify(x).remove(0));
    });
}

#[test]
fn softmax_and_cross_entropy() {
    every_time(&op::softmax::CODELET, |caller, draw| {
        let (n, classes) = (samples(draw), 1 + draw.below(6));
        let x = Array::new(&[n, classes], || draw.unit() * 2.0);
        let dy = Array::new(&[n, classes], || draw.unit());
        let label = Array::new(&[n], || draw.below(classes) as f64).of(Dtype::U8);
        let softmax = |x: &Array| caller.one(&op::softmax::CODELET, &[x], &x.shape);
        let y = softmax(&x);
        let dx = caller.one(&op::softmax_backward::CODELET, &[&y, &dy], &x.shape);
        compare("softmax_backward", &x, &dy, &dx, softmax);
        let one = Array::new(&[], || 1.0);
        let p = Array::new(&[n, classes], || 1.2 + draw.unit());
        let dp = caller.one(&op::cross_entropy_backward::CODELET, &[&p, &label], &p.shape);
        compare("cross_entropy_backward", &p, &one, &dp, |p| {
            caller.one(&op::cross_entropy::CODELET, &[p, &label], &[])
        });
        let outputs = [Array::empty(&[]), Array::empty(&[]), Array::empty(&x.shape)];
        let both = |x: &Array| caller.call(&op::softmax_ce::CODELET, &[x, &label], &outputs);
        compare("softmax_ce", &x, &one, &both(&x)[2], |x| both(x).remove(0));
        // The two ways to the same gradient.
        let dp = caller.one(&op::cross_entropy_backward::CODELET, &[&y, &label], &x.shape);
        let dx = caller.one(&op::softmax_backward::CODELET, &[&y, &dp], &x.shape);
        for (a, b) in dx.data.iter().zip(&both(&x)[2].data) {
            assert!((a - b).abs() < 1e-14, "softmax and cross-entropy give {a}, both in one {b}");
        }
    });
}

#[test]
fn dropout() {
    every_time(&op::dropout::CODELET, |caller, draw| {
        let shape = [samples(draw), 1 + draw.below(4), 1 + draw.below(4)];
        caller.scalars = vec![0.4, draw.below(1000) as f64];
        let counter = Array::new(&[], || draw.below(1000) as f64).of(Dtype::U32);
        let x = Array::new(&shape, || draw.unit());
        let dy = Array::new(&shape, || draw.unit());
        let dx = caller.one(&op::dropout_backward::CODELET, &[&dy, &counter], &shape);
        compare("dropout_backward", &x, &dy, &dx, |x| {
            caller.one(&op::dropout::CODELET, &[x, &counter], &shape)
        });
    });
}

#[test]
fn batch_normalisation() {
    every_time(&op::batch_norm_normalise::CODELET, |caller, draw| {
        let shape = [samples(draw), 1 + draw.below(3), 2 + draw.below(3), 2 + draw.below(3)];
        let channels = [shape[1]];
        caller.scalars = vec![1e-3];
        let mut t = |shape: &[usize]| Array::new(shape, || draw.unit());
        let (x, dy, gamma, beta) = (t(&shape), t(&shape), t(&channels), t(&channels));
        let statistics = |x: &Array| {
            let mean = caller.one(&op::batch_norm_mean::CODELET, &[x], &channels);
            let var = caller.one(&op::batch_norm_square_sum::CODELET, &[x, &mean], &channels);
            (mean, var)
        };
        let forward = |x: &Array, gamma: &Array, beta: &Array| {
            let (mean, var) = statistics(x);
            caller.one(&op::batch_norm_normalise::CODELET, &[x, &mean, &var, gamma, beta], &shape)
        };
        let (mean, var) = statistics(&x);
        let outputs = [Array::empty(&channels), Array::empty(&channels)];
        let sums = caller.call(&op::batch_norm_backward_sums::CODELET, &[&x, &dy, &mean, &var], &outputs);
        let [dgamma, dbeta] = &sums[..] else { unreachable!("two sums") };
        let known = [&x, &dy, &mean, &var, &gamma, dgamma, dbeta];
        let dx = caller.one(&op::batch_norm_dx::CODELET, &known, &shape);
        compare("batch_norm_dx", &x, &dy, &dx, |x| forward(x, &gamma, &beta));
        compare("batch_norm_backward_sums: gamma", &gamma, &dy, dgamma, |gamma| forward(&x, gamma, &beta));
        compare("batch_norm_backward_sums: beta", &beta, &dy, dbeta, |beta| forward(&x, &gamma, beta));
    });
}

#[test]
fn backward_codelets_that_are_left_out_are_named() {
    let source = include_str!("gradients.rs");
    let is_backward = |name: &str| {
        name.contains("backward") || ["_dx", "_dw", "_db"].iter().any(|suffix| name.ends_with(suffix))
    };
    let is_compared = |name: &str| source.contains(&format!("compare(\"{name}"));
    let names = || op::CODELETS.iter().map(|codelet| codelet.name).filter(|name| is_backward(name));
    for name in names().filter(|name| !is_compared(name)) {
        println!("no numeric gradient: {name}");
    }
    assert!(names().filter(|name| is_compared(name)).count() >= 12);
}
