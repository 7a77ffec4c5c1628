//! A rectifier whose slope below zero is learnt, one for each channel: `y = x` above zero, else `a x`.
//!
//! The versions called `lanes` have samples side by side, 16 in `f32` and 8 in `f64`, as convolutions leave
//! them. The last group of a tile may be padded by lanes that hold anything: what is computed there harms
//! nobody, but sums leave them out.

use crate::{fast, reference};
use dahl::layer::{
    AnyLayer, Backward, Forward, Init, Kind, Layer, Parameter, Setting, Settings, Tape, Weights,
};
use dahl::op::Float;
use dahl::runtime::array::Layout::{self, Lanes, RowMajor};
use dahl::runtime::array::{Dtype, Region, Shape};
use dahl::runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};
use dahl::runtime::graph::{Fusion, TaskPattern, Var};
use dahl::{Error, Result, runtime};
use std::cmp::Ordering;
use std::sync::Arc;

const FORWARD_32: &[Layout] = &[Lanes(16), RowMajor, Lanes(16)];
const FORWARD_64: &[Layout] = &[Lanes(8), RowMajor, Lanes(8)];
const BACKWARD_32: &[Layout] = &[Lanes(16), RowMajor, Lanes(16), Lanes(16)];
const BACKWARD_64: &[Layout] = &[Lanes(8), RowMajor, Lanes(8), Lanes(8)];
const FUSED_32: &[Layout] = &[Lanes(16), RowMajor, Lanes(16), Lanes(16), RowMajor];
const FUSED_64: &[Layout] = &[Lanes(8), RowMajor, Lanes(8), Lanes(8), RowMajor];
const GRADIENT_32: &[Layout] = &[Lanes(16), Lanes(16), RowMajor];
const GRADIENT_64: &[Layout] = &[Lanes(8), Lanes(8), RowMajor];

/// `y = x` above zero, else `a x`.
pub static FORWARD: Codelet = Codelet::new(
    "prelu",
    "x[n,c,i,j] a[c] -> y[n,c,i,j]",
    1.0,
    &[
        reference(Dtype::F32, forward::<f32>),
        reference(Dtype::F64, forward::<f64>),
        fast("lanes", Dtype::F32, FORWARD_32, forward_lanes::<f32, 16>),
        fast("lanes", Dtype::F64, FORWARD_64, forward_lanes::<f64, 8>),
    ],
)
.in_place()
.samples(|draw| {
    let (images, channels) = images(draw);
    Sample::new(Tolerance::Exact).real(images).real(channels).real(images)
});

/// The gradient of `x`: `dy` where `x` is above zero, else `a dy`.
pub static BACKWARD: Codelet = Codelet::new(
    "prelu_backward",
    "x[n,c,i,j] a[c] dy[n,c,i,j] -> dx[n,c,i,j]",
    1.0,
    &[
        reference(Dtype::F32, backward::<f32>),
        reference(Dtype::F64, backward::<f64>),
        fast("lanes", Dtype::F32, BACKWARD_32, backward_lanes::<f32, 16>),
        fast("lanes", Dtype::F64, BACKWARD_64, backward_lanes::<f64, 8>),
    ],
)
.in_place()
.samples(|draw| {
    let (images, channels) = images(draw);
    Sample::new(Tolerance::Exact).real(images).real(channels).real(images).real(images)
});

/// The gradient of the slopes: the sums of `x dy` where `x` is not above zero.
pub static SLOPE_GRADIENT: Codelet = Codelet::new(
    "prelu_slope_gradient",
    "x[n,c,i,j] dy[n,c,i,j] -> da[c] +=",
    2.0,
    &[
        reference(Dtype::F32, slope_gradient::<f32>),
        reference(Dtype::F64, slope_gradient::<f64>),
        fast("lanes", Dtype::F32, GRADIENT_32, slope_gradient_lanes::<f32, 16>),
        fast("lanes", Dtype::F64, GRADIENT_64, slope_gradient_lanes::<f64, 8>),
    ],
)
.samples(|draw| {
    let (images, channels) = images(draw);
    // At most 37 samples of 81 pixels, each below 1.
    Sample::new(Tolerance::Scale(3000.0)).real(images).real(images).real(channels)
});

/// Both gradients in one task, which reads `x` and `dy` once.
pub static GRADIENTS: Codelet = Codelet::new(
    "prelu_gradients",
    "x[n,c,i,j] a[c] dy[n,c,i,j] -> dx[n,c,i,j] da[c] +=",
    3.0,
    &[
        reference(Dtype::F32, gradients::<f32>),
        reference(Dtype::F64, gradients::<f64>),
        fast("lanes", Dtype::F32, FUSED_32, gradients_lanes::<f32, 16>),
        fast("lanes", Dtype::F64, FUSED_64, gradients_lanes::<f64, 8>),
    ],
)
.in_place()
.samples(|draw| {
    let (images, channels) = images(draw);
    let sample = Sample::new(Tolerance::Scale(3000.0)).real(images).real(channels).real(images);
    sample.real(images).real(channels)
});

/// Where both gradients are wanted, one task computes them.
pub static FUSION: Fusion = Fusion {
    name: "prelu_gradients",
    given: &[],
    replaces: &[
        TaskPattern::new(&SLOPE_GRADIENT, "x dy -> da", ""),
        TaskPattern::new(&BACKWARD, "x a dy -> dx", ""),
    ],
    with: &[TaskPattern::new(&GRADIENTS, "x a dy -> dx da", "")],
    when: |_| true,
};

/// Extents to try: of a batch of images, and of a number per channel.
fn images(draw: &mut Draw) -> (Shape, Shape) {
    let [n, c, i, j] = [draw.n_samples(), draw.extent(), draw.extent(), draw.extent()];
    (Shape::new(&[n, c, i, j]), Shape::new(&[c]))
}

/// Whether the slope applies. A NaN goes through with it.
fn is_below<T: Float>(x: T) -> bool {
    x.partial_cmp(&T::default()) != Some(Ordering::Greater)
}

fn forward<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, mut y) = (call.input::<T>(0), call.input::<T>(1), call.output::<T>(0));
    for_each_pixel(y.region(), |index| {
        let value = x.at(index);
        y.set(index, if is_below(value) { a.at([index[1]]) * value } else { value });
    });
    Ok(())
}

fn backward<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, dy) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut dx = call.output::<T>(0);
    for_each_pixel(dx.region(), |index| {
        let gradient = dy.at(index);
        dx.set(index, if is_below(x.at(index)) { a.at([index[1]]) * gradient } else { gradient });
    });
    Ok(())
}

fn slope_gradient<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, dy, mut da) = (call.input::<T>(0), call.input::<T>(1), call.output::<T>(0));
    if !call.accumulate() {
        da.region().range(0).for_each(|c| da.set([c], T::default()));
    }
    for_each_pixel(x.region(), |index| {
        if is_below(x.at(index)) {
            let c = [index[1]];
            da.set(c, da.at(c) + x.at(index) * dy.at(index));
        }
    });
    Ok(())
}

fn gradients<T: Float>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, dy) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (mut dx, mut da) = (call.output::<T>(0), call.output::<T>(1));
    if !call.accumulate() {
        da.region().range(0).for_each(|c| da.set([c], T::default()));
    }
    for_each_pixel(dx.region(), |index| {
        let (x, gradient, c) = (x.at(index), dy.at(index), [index[1]]);
        if is_below(x) {
            da.set(c, da.at(c) + x * gradient);
        }
        dx.set(index, if is_below(x) { a.at(c) * gradient } else { gradient });
    });
    Ok(())
}

/// Every index of a batch of images, row by row.
fn for_each_pixel(region: &Region, mut f: impl FnMut([usize; 4])) {
    for n in region.range(0) {
        for c in region.range(1) {
            for i in region.range(2) {
                for j in region.range(3) {
                    f([n, c, i, j]);
                }
            }
        }
    }
}

/// Every piece of `L` samples in a batch of images that lies in lanes: where it lies, its channel, and how
/// many of its samples there are.
fn for_each_piece<const L: usize>(region: &Region, mut f: impl FnMut(usize, usize, usize)) {
    let shape = region.shape();
    let mut at = 0;
    for group in 0..shape[0].div_ceil(L) {
        let n_samples = L.min(shape[0] - group * L);
        for c in region.range(1) {
            for _ in 0..shape[2] * shape[3] {
                f(at, c, n_samples);
                at += 1;
            }
        }
    }
}

fn forward_lanes<T: Float, const L: usize>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, mut y) = (call.input::<T>(0), call.input::<T>(1), call.output::<T>(0));
    let (region, from) = (y.region(), x.pieces::<L>());
    let mut to = y.pieces::<L>();
    for_each_piece::<L>(region, |at, c, _| {
        let slope = a.at([c]);
        to.set(at, from.get(at).map(|x| if is_below(x) { slope * x } else { x }));
    });
    Ok(())
}

/// The gradients of `L` inputs.
fn scaled<T: Float, const L: usize>(slope: T, x: [T; L], mut dy: [T; L]) -> [T; L] {
    for (dy, x) in dy.iter_mut().zip(x) {
        *dy = if is_below(x) { slope * *dy } else { *dy };
    }
    dy
}

/// The sum of `x dy` where the slope applies, over the samples that there are.
fn sum_below<T: Float, const L: usize>(x: [T; L], dy: [T; L], n_samples: usize) -> T {
    let mut sum = T::default();
    for (x, dy) in x.into_iter().zip(dy).take(n_samples) {
        sum += if is_below(x) { x * dy } else { T::default() };
    }
    sum
}

fn backward_lanes<T: Float, const L: usize>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, dy) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let mut dx = call.output::<T>(0);
    let region = dx.region();
    let (x, dy, mut dx) = (x.pieces::<L>(), dy.pieces::<L>(), dx.pieces::<L>());
    for_each_piece::<L>(region, |at, c, _| dx.set(at, scaled(a.at([c]), x.get(at), dy.get(at))));
    Ok(())
}

fn slope_gradient_lanes<T: Float, const L: usize>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, dy, mut da) = (call.input::<T>(0), call.input::<T>(1), call.output::<T>(0));
    if !call.accumulate() {
        da.region().range(0).for_each(|c| da.set([c], T::default()));
    }
    let (region, x, dy) = (x.region(), x.pieces::<L>(), dy.pieces::<L>());
    for_each_piece::<L>(region, |at, c, n_samples| {
        da.set([c], da.at([c]) + sum_below(x.get(at), dy.get(at), n_samples));
    });
    Ok(())
}

fn gradients_lanes<T: Float, const L: usize>(call: &Call<'_>) -> runtime::Result<()> {
    let (x, a, dy) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (mut dx, mut da) = (call.output::<T>(0), call.output::<T>(1));
    if !call.accumulate() {
        da.region().range(0).for_each(|c| da.set([c], T::default()));
    }
    let region = dx.region();
    let (x, dy, mut dx) = (x.pieces::<L>(), dy.pieces::<L>(), dx.pieces::<L>());
    for_each_piece::<L>(region, |at, c, n_samples| {
        let (slope, x, dy) = (a.at([c]), x.get(at), dy.get(at));
        da.set([c], da.at([c]) + sum_below(x, dy, n_samples));
        dx.set(at, scaled(slope, x, dy));
    });
    Ok(())
}

/// A rectifier whose slope below zero is learnt, one for each channel of images or each number of vectors.
#[derive(Clone, Debug)]
pub struct Prelu {
    initial: f64,
}

impl Prelu {
    /// The slope before training, if nobody says otherwise: PyTorch's.
    const USUAL: f64 = 0.25;

    /// By which model files know it.
    pub const KIND: Kind = Kind::new("prelu", Prelu::read);

    /// With this slope before training.
    pub fn new(initial: f64) -> Self {
        Prelu { initial }
    }

    fn read(settings: &mut Settings<'_>) -> Result<AnyLayer> {
        Ok(Arc::new(Prelu::new(settings.number_or("initial", Prelu::USUAL)?)))
    }
}

impl Layer for Prelu {
    fn kind(&self) -> &'static str {
        Prelu::KIND.name
    }

    fn settings(&self) -> Vec<(&'static str, Setting<'_>)> {
        match self.initial == Prelu::USUAL {
            true => Vec::new(),
            false => vec![("initial", Setting::Number(self.initial))],
        }
    }

    fn output(&self, input: Shape) -> Result<Shape> {
        if !matches!(input.rank(), 1 | 3) {
            return Err(Error::setting(format!("prelu takes images or vectors, not {input}")));
        }
        if !(-1.0..=1.0).contains(&self.initial) {
            return Err(Error::setting(format!(
                "prelu begins with a slope from -1 to 1, not with {}",
                self.initial
            )));
        }
        Ok(input)
    }

    fn parameters(&self, input: Shape) -> Result<Vec<Parameter>> {
        Ok(vec![Parameter::new("weight", [input[0]], Init::Constant(self.initial))])
    }

    fn forward(&self, tape: &mut Tape<'_>, weights: &Weights<'_>, x: Var) -> Result<Forward> {
        // The backward pass looks at x, so it stays as it is.
        let y = tape.array("y", x.shape());
        tape.task(&FORWARD, &[as_images(x)?, weights.parameters[0]], &[as_images(y)?], &[])?;
        Ok(Forward::new(x, y))
    }

    fn backward(&self, tape: &mut Tape<'_>, pass: &Backward<'_>) -> Result<Option<Var>> {
        let (x, dy) = (as_images(pass.forward.x)?, as_images(pass.dy)?);
        tape.task(&SLOPE_GRADIENT, &[x, dy], &[pass.gradients[0]], &[])?;
        if !pass.wants_dx {
            return Ok(None);
        }
        let dx = tape.in_place(pass.dy, "dx");
        tape.task(&BACKWARD, &[x, pass.parameters[0], dy], &[as_images(dx)?], &[])?;
        Ok(Some(dx))
    }
}

/// A batch as images; vectors are images of one pixel.
fn as_images(var: Var) -> Result<Var> {
    match var.shape()[..] {
        [n, channels] => Ok(var.reshape([n, channels, 1, 1])?),
        _ => Ok(var),
    }
}
