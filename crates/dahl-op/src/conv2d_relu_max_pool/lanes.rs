//! A call, and which algorithm computes it. Few samples are computed one at a time (`small_batch/`). For 5x5
//! taps, windows are the tiles of Winograd's algorithm (`winograd/`), and are pooled in registers. All others
//! are computed by the definition (`direct`). Either way every sum is what it would be in the convolution by
//! itself.

use super::checked_size;
use super::largest::largest_number;
use crate::algorithm::Algorithm;
use crate::convolve::{
    Axis, Convolution, Finish, PlaneSteps, RESIDENT, STACK_TAPS, WeightSteps, is_too_large,
};
use crate::padded::Span;
use crate::real::Real;
use crate::scratch::{self, first};
use crate::simd::Simd;
use crate::small_batch::{self, SampleOrder};
use crate::sums::are_finite;
use crate::window::Window;
use crate::winograd::target::{Target, Tile};
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};
use std::ops::Range;

/// Vectors of pixels that are copied with zeros around them: 256 KiB, which stay in the second cache.
const COPIED: usize = 4096;

/// What all blocks of a call share.
#[derive(Clone)]
pub(super) struct Pooled<'a, T: Real> {
    /// How samples lie in `x`.
    pub(super) order: SampleOrder,
    pub(super) x: &'a [T],
    pub(super) w: &'a [T],
    pub(super) b: &'a [T],
    pub(super) window: Window,
    pub(super) n_samples: usize,
    pub(super) n_channels: usize,
    pub(super) n_kernels: usize,
    /// Which rows and columns of the image `x` holds.
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// The taps of `w`.
    pub(super) kys: Range<usize>,
    pub(super) kxs: Range<usize>,
    /// Stride and size of the pool.
    pub(super) stride: usize,
    pub(super) size: usize,
    /// Which rows and columns `y` holds.
    pub(super) pys: Range<usize>,
    pub(super) pxs: Range<usize>,
}

pub(super) fn conv2d_relu_max_pool<T: Real>(call: &Call<'_>) -> Result<()> {
    run_or_reference::<T>(call, SampleOrder::Lanes)
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    run_or_reference::<T>(call, SampleOrder::Rows)
}

fn run_or_reference<T: Real>(call: &Call<'_>, order: SampleOrder) -> Result<()> {
    if run::<T>(call, order)? { Ok(()) } else { super::reference::<T>(call) }
}

/// Which algorithms a call takes.
pub(super) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    if is_too_large(spec) {
        return vec![Algorithm::Reference];
    }
    let form = Pooled::<T>::form(spec, order);
    let parts = order.parts::<T>(form.n_samples);
    parts.map(|samples| Pooled { n_samples: samples.len(), ..form.clone() }.algorithm()).collect()
}

/// Vectors of scratch that a call may take.
pub(super) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    if is_too_large(spec) {
        return 0;
    }
    let form = Pooled::<T>::form(spec, order);
    let parts = order.parts::<T>(form.n_samples);
    let of_part = |samples: Range<usize>| Pooled { n_samples: samples.len(), ..form.clone() }.scratch_len();
    parts.map(of_part).max().unwrap_or(0)
}

/// Returns whether it was computed; if not, the reference can.
fn run<T: Real>(call: &Call<'_>, order: SampleOrder) -> Result<bool> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    checked_size(call.int(3))?;
    if is_too_large(call.spec()) {
        return Ok(false);
    }
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let form = Pooled::<T>::form(call.spec(), order);
    let job = Pooled { x: x.contiguous(), w: w.contiguous(), b: b.contiguous(), ..form };
    let x_len = job.n_channels * job.rows.len() * job.columns.len();
    let y_len = job.n_kernels * job.pys.len() * job.pxs.len();
    let (y, arg, scratch) = (y.contiguous(), arg.contiguous(), scratch::of_call::<T>(call));
    let mut parts = order.parts::<T>(job.n_samples);
    Ok(parts.all(|samples| {
        let range = order.range::<T>(&samples, y_len);
        let x = &job.x[order.range::<T>(&samples, x_len)];
        let part = Pooled { x, n_samples: samples.len(), ..job.clone() };
        part.run(&mut y[range.clone()], &mut arg[range], scratch)
    }))
}

impl<T: Real> Pooled<'_, T> {
    /// A call without its data.
    fn form(spec: &CallSpec, order: SampleOrder) -> Self {
        let [x, w, y] = [0, 1, 3].map(|i| &spec.args[i].region);
        let [stride, pad, pool, size] = [0, 1, 2, 3].map(|i| spec.ints[i] as usize);
        Pooled {
            order,
            x: &[],
            w: &[],
            b: &[],
            window: Window { stride, pad },
            n_samples: y.shape()[0],
            n_channels: x.shape()[1],
            n_kernels: y.shape()[1],
            rows: x.range(2),
            columns: x.range(3),
            kys: w.range(2),
            kxs: w.range(3),
            stride: pool,
            size,
            pys: y.range(2),
            pxs: y.range(3),
        }
    }

    /// Which algorithm it takes, unless values are infinite or very large. Its data play no part.
    fn algorithm(&self) -> Algorithm {
        let convolution = self.convolution();
        // More channels are not added up in one pass.
        let is_small = self.n_channels * self.kys.len() * self.kxs.len() <= STACK_TAPS;
        if convolution.flat().is_some() {
            Algorithm::SmallBatch
        } else if self.order == SampleOrder::Rows {
            Algorithm::Reference
        } else if self.size == 2 && self.stride == 2 && is_small && convolution.suits_winograd() {
            Algorithm::Winograd5
        } else {
            Algorithm::Direct
        }
    }

    /// Vectors of scratch that it may take, whatever its data are.
    fn scratch_len(&self) -> usize {
        let convolution = self.convolution();
        let usual = match self.algorithm() {
            Algorithm::SmallBatch => convolution.flat().map_or(0, |flat| convolution.flat_len(&flat)),
            Algorithm::Winograd5 => convolution.winograd_len(),
            _ => 0,
        };
        // What is infinite or very large comes to the direct algorithm.
        if self.order == SampleOrder::Lanes { usual.max(self.copied_len(&self.spans())) } else { usual }
    }

    /// Vectors of pixels that the direct algorithm copies with zeros around them; none if they need none or
    /// are many.
    fn copied_len(&self, spans: &(Span, Span)) -> usize {
        let n_planes = self.n_samples.div_ceil(T::LANES) * self.n_channels;
        let n_copied = n_planes.saturating_mul(spans.0.len).saturating_mul(spans.1.len);
        let has_padding = !(spans.0.is_inside() && spans.1.is_inside());
        if has_padding && n_copied <= COPIED { n_copied } else { 0 }
    }

    /// All windows. Returns whether they were computed; if not, the reference can.
    fn run(&self, y: &mut [T], arg: &mut [u8], scratch: &mut [T::Lanes]) -> bool {
        let is_done = match self.algorithm() {
            Algorithm::SmallBatch => self.small_batch(y, arg, scratch),
            Algorithm::Winograd5 => {
                let windows = Windows { job: self, y: T::lanes_mut(y), arg: T::bytes_mut(arg) };
                self.convolution().winograd::<_, 5>(windows, scratch)
            }
            _ => false,
        };
        if is_done || self.order == SampleOrder::Rows {
            return is_done;
        }
        let (y, arg) = (T::lanes_mut(y), T::bytes_mut(arg));
        let spans = self.spans();
        let n_copied = self.copied_len(&spans);
        // An infinite weight times the zero of padding would be NaN.
        match n_copied > 0 && are_finite(self.w) {
            true => self.copied(&spans, first(scratch, n_copied)).direct(y, arg),
            false => self.direct(y, arg),
        }
        true
    }

    /// One sample at a time, unless a weight is not finite: says whether it did.
    fn small_batch(&self, y: &mut [T], arg: &mut [u8], scratch: &mut [T::Lanes]) -> bool {
        let convolution = &self.convolution();
        let Some(flat) = convolution.flat().filter(|flat| convolution.is_padding_safe(flat)) else {
            return false;
        };
        let (stride, size, n_windows) = (self.stride, self.size, [self.pys.len(), self.pxs.len()]);
        let (scratch, flat) = (first(scratch, convolution.flat_len(&flat)), &flat);
        T::dispatch(small_batch::Pool { convolution, flat, stride, size, n_windows, scratch, y, arg });
        true
    }

    /// The rows and columns of pixels under all windows.
    fn spans(&self) -> (Span, Span) {
        let span = |windows: &Range<usize>, taps, pixels| {
            let end = windows.end.saturating_sub(1) * self.stride + self.size;
            Span::new(self.window, &(windows.start * self.stride..end), taps, pixels)
        };
        (span(&self.pys, &self.kys, &self.rows), span(&self.pxs, &self.kxs, &self.columns))
    }

    /// The convolution of which these are the maxima.
    fn convolution(&self) -> Convolution<'_, T> {
        let outputs = |windows: &Range<usize>| {
            windows.start * self.stride..windows.end.saturating_sub(1) * self.stride + self.size
        };
        let rows = self.axis(&self.rows, &self.kys, &outputs(&self.pys));
        let columns = self.axis(&self.columns, &self.kxs, &outputs(&self.pxs));
        Convolution {
            order: self.order,
            x: self.x,
            is_turned: false,
            w: self.w,
            steps: WeightSteps::whole(self.n_channels, self.kys.len(), self.kxs.len()),
            bias: Some(self.b),
            accumulate: false,
            finish: Finish::Sum,
            n_samples: self.n_samples,
            n_inputs: self.n_channels,
            n_outputs: self.n_kernels,
            planes: PlaneSteps::whole(rows.outputs.len(), columns.outputs.len()),
            rows,
            columns,
            resident: RESIDENT,
        }
    }

    /// An axis of the convolution under some windows.
    #[inline(always)]
    pub(super) fn axis(&self, inputs: &Range<usize>, taps: &Range<usize>, outputs: &Range<usize>) -> Axis {
        Axis { window: self.window, inputs: inputs.clone(), taps: taps.clone(), outputs: outputs.clone() }
    }
}

/// Windows of two by two that are tiles of Winograd's algorithm.
struct Windows<'a, 'b, T: Real> {
    job: &'a Pooled<'b, T>,
    y: &'a mut [T::Lanes],
    arg: &'a mut [T::Bytes],
}

impl<'b, T: Real> Target<T> for Windows<'_, 'b, T> {
    type Local<'a>
        = Windows<'a, 'b, T>
    where
        Self: 'a;

    #[inline(always)]
    fn local(&mut self) -> Windows<'_, 'b, T> {
        Windows { job: self.job, y: &mut *self.y, arg: &mut *self.arg }
    }

    #[inline(always)]
    fn put<S: Simd<T>>(&mut self, s: S, tile: &Tile<'_>, [[a, b], [c, d]]: [[S::V; 2]; 2]) {
        let (n_rows, n_columns) = (self.job.pys.len(), self.job.pxs.len());
        let plane = tile.group * self.job.n_kernels + tile.output;
        let at = (plane * n_rows + tile.row / 2) * n_columns + tile.column / 2;
        // Of moderate values none is NaN.
        largest_number(s, [a, b, c, d], &mut self.y[at], &mut self.arg[at]);
    }
}
