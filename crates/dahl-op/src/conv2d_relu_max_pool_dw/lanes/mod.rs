//! A call in lanes over samples, and which algorithm computes it. Few samples are computed one at a time
//! (`small_batch/`), 5x5 taps by fewer multiplications (`winograd/weight_gradient`), and the usual pools by
//! selecting pixels ([`pairs`]). What is left is computed by the definition (`direct`).

mod bias;
mod direct;
mod pairs;

use crate::algorithm::Algorithm;
use crate::conv2d_dw::form::{Form, has_whole};
use crate::conv2d_relu_max_pool::checked_size;
use crate::convolve::Axis;
use crate::real::Real;
use crate::scratch;
use crate::simd::{Kernel, Simd};
use crate::small_batch::{Flat, SampleOrder, Unpool};
use crate::sums::all_finite;
use crate::window::Window;
use crate::winograd::weight_gradient::Pooled;
use bias::Bias;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};
use direct::Direct;
use std::ops::Range;

/// The arguments of a call, in lanes.
#[derive(Clone)]
struct Job<'a, T: Real> {
    /// `x[c,iy,ix]` per group.
    x: &'a [T::Lanes],
    /// `dy[k,py,px]` and `arg[k,py,px]` per group.
    dy: &'a [T::Lanes],
    arg: &'a [T::Bytes],
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    window: Window,
    /// Which rows and columns `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// Stride and size of the pool.
    stride: usize,
    size: usize,
    /// Which rows and columns `dy` holds.
    pys: Range<usize>,
    pxs: Range<usize>,
    /// Columns of the convolution's output.
    out_width: usize,
}

/// Which algorithms a call takes.
pub(super) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    let (form, job) = (form(spec, order), Job::<T>::form(spec));
    let parts = order.parts::<T>(form.n_samples);
    parts.map(|samples| job.algorithm(&form, samples.len())).collect()
}

/// Vectors of scratch that a call may take.
pub(super) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    let (form, job) = (form(spec, order), Job::<T>::form(spec));
    // What is infinite or very large comes to the selection of pixels.
    let selection =
        if order == SampleOrder::Lanes && job.selects(&form) { job.pairs_len(form.taps()) } else { 0 };
    let of_part = |samples: Range<usize>| {
        let algorithm = job.algorithm(&form, samples.len());
        form.scratch_len::<T, Pooled<'_, T>>(algorithm, samples.len())
    };
    order.parts::<T>(form.n_samples).map(of_part).fold(selection, usize::max)
}

/// What a call computes: the gradient of the convolution by itself, with all of its output.
pub(super) fn form(spec: &CallSpec, order: SampleOrder) -> Form {
    let [x, dy, dw] = [0, 1, 3].map(|i| &spec.args[i].region);
    let window = Window { stride: spec.ints[0] as usize, pad: spec.ints[1] as usize };
    let [rows, columns] = [2, 3].map(|dim| {
        let covered = spec.args[0].extent[dim] + 2 * window.pad;
        let n_outputs = covered.saturating_sub(spec.args[3].extent[dim]) / window.stride.max(1) + 1;
        Axis { window, inputs: x.range(dim), taps: dw.range(dim), outputs: 0..n_outputs }
    });
    Form {
        order,
        n_samples: dy.shape()[0],
        channels: [spec.args[4].region.shape()[0], dw.shape()[1]],
        rows,
        columns,
        weights: spec.args[3].extent,
        is_whole: has_whole(spec, [1, 3]),
    }
}

pub(super) fn conv2d_relu_max_pool_dw<T: Real>(call: &Call<'_>) -> Result<()> {
    checked_size(call.int(3))?;
    let form = &form(call.spec(), SampleOrder::Lanes);
    let (x, dy, arg) = (call.input::<T>(0), call.input::<T>(1), call.input::<u8>(2));
    let (mut dw, mut db) = (call.output::<T>(0), call.output::<T>(1));
    let job = Job::<T> {
        x: T::lanes(x.contiguous()),
        dy: T::lanes(dy.contiguous()),
        arg: T::bytes(arg.contiguous()),
        ..Job::form(call.spec())
    };
    let has_bias = dw.region().lo()[1..] == [0, 0, 0];
    let (dw, db) = (dw.contiguous(), db.contiguous());
    if !call.accumulate() {
        dw.fill(T::default());
        db.fill(T::default());
    }
    let scratch = scratch::of_call::<T>(call);
    for samples in SampleOrder::Lanes.parts::<T>(job.n_samples) {
        job.part(samples).add(form, dw, scratch);
    }
    if has_bias {
        T::dispatch(Bias { job: &job, db });
    }
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// A call without its data.
    fn form(spec: &CallSpec) -> Self {
        let form = form(spec, SampleOrder::Lanes);
        let dy = &spec.args[1].region;
        Job {
            x: &[],
            dy: &[],
            arg: &[],
            n_samples: form.n_samples,
            n_channels: form.channels[1],
            n_kernels: form.channels[0],
            window: form.rows.window,
            stride: spec.ints[2] as usize,
            size: spec.ints[3] as usize,
            pys: dy.range(2),
            pxs: dy.range(3),
            out_width: form.columns.outputs.len(),
            rows: form.rows.inputs,
            columns: form.columns.inputs,
        }
    }

    /// Some samples of it.
    fn part(&self, samples: Range<usize>) -> Self {
        let groups = |len: usize| {
            let range = SampleOrder::Lanes.range::<T>(&samples, len);
            range.start / T::LANES..range.end / T::LANES
        };
        let windows = groups(self.n_kernels * self.pys.len() * self.pxs.len());
        Job {
            x: &self.x[groups(self.n_channels * self.rows.len() * self.columns.len())],
            dy: &self.dy[windows.clone()],
            arg: &self.arg[windows],
            n_samples: samples.len(),
            ..self.clone()
        }
    }

    /// Whether the pool has windows of two by two side by side.
    fn is_usual(&self) -> bool {
        self.size == 2 && self.stride == 2
    }

    /// Whether pixels are selected instead of gradients, if all are finite.
    fn selects(&self, form: &Form) -> bool {
        self.is_usual() && self.window.stride == 1 && self.has_room(form.taps())
    }

    /// Which algorithm so many samples take, unless values are infinite or very large. The data play no part.
    fn algorithm(&self, form: &Form, n_samples: usize) -> Algorithm {
        let other = if self.selects(form) { Algorithm::Selection } else { Algorithm::Direct };
        match form.algorithm::<T>(n_samples, other) {
            Algorithm::Winograd5 if !self.is_usual() => other,
            algorithm => algorithm,
        }
    }

    /// Adds the gradients of weights.
    fn add(&self, form: &Form, dw: &mut [T], scratch: &mut [T::Lanes]) {
        let is_done = match self.algorithm(form, self.n_samples) {
            Algorithm::SmallBatch => self.add_small_batch(form, dw, scratch),
            Algorithm::Winograd5 => self.add_winograd(form, dw, scratch),
            _ => false,
        };
        // What is very large or not finite comes here from above, too.
        if is_done {
        } else if self.selects(form) && T::dispatch(IsFinite(self)) {
            self.pairs(form.taps(), dw, scratch);
        } else {
            T::dispatch(Direct { job: self, taps: form.taps(), dw });
        }
    }

    fn add_small_batch(&self, form: &Form, dw: &mut [T], scratch: &mut [T::Lanes]) -> bool {
        let unpool = Unpool {
            dy: T::flat(self.dy),
            arg: T::flat_bytes(self.arg),
            n_kernels: self.n_kernels,
            height: self.pys.len(),
            width: self.pxs.len(),
            stride: self.stride,
            size: self.size,
        };
        let gradients =
            |flat: &Flat, sample, to: &mut [_]| unpool.spread(flat, SampleOrder::Lanes, sample, to);
        let gradient = form.small_batch(T::flat(self.x), self.n_samples);
        gradient.is_some_and(|gradient| gradient.add(gradients, |_, _| {}, dw, scratch))
    }

    fn add_winograd(&self, form: &Form, dw: &mut [T], scratch: &mut [T::Lanes]) -> bool {
        let pooled = Pooled { dy: self.dy, arg: self.arg, height: self.pys.len(), width: self.pxs.len() };
        let gradient = form.winograd(T::flat(self.x), self.n_samples);
        gradient.is_some_and(|gradient| gradient.add(&pooled, dw, scratch))
    }
}

/// Whether zeros may be left out: the full gradient has zeros between its values, and so has padding, and
/// infinite values times zero are NaN.
struct IsFinite<'a, 'b, T: Real>(&'a Job<'b, T>);

impl<T: Real> Kernel<T> for IsFinite<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        all_finite(s, self.0.x) && (self.0.window.pad == 0 || all_finite(s, self.0.dy))
    }
}
