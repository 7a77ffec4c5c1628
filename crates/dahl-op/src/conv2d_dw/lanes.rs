//! A register block of output channels by taps, lanes over samples: per output pixel one vector of `dy` per
//! channel and one of `x` per tap. Sums run lane by lane over the pixels of a group, then over groups, and
//! across lanes once at the end; the padding lanes of a ragged group are not added. 3x3 taps read 2 planes of
//! `dy` and one of `x` for 18 sums; 8 planes for 24 sums were limited by the caches. Few samples are computed
//! one at a time (`small_batch/`), and 5x5 taps by fewer multiplications (`winograd/`).

use super::flat::add_small_batch;
use super::form::{Form, has_whole};
use crate::algorithm::Algorithm;
use crate::convolve::Axis;
use crate::real::Real;
use crate::scratch;
use crate::simd::{Kernel, Simd};
use crate::small_batch::SampleOrder;
use crate::sums::across;
use crate::window::Window;
use crate::winograd::weight_gradient::Full;
use dahl_runtime::Result;
use dahl_runtime::codelet::{Call, CallSpec};
use std::ops::Range;

/// Which algorithms a call takes.
pub(super) fn algorithms<T: Real>(spec: &CallSpec, order: SampleOrder) -> Vec<Algorithm> {
    let form = form(spec, order);
    let parts = order.parts::<T>(form.n_samples);
    parts.map(|samples| form.algorithm::<T>(samples.len(), Algorithm::Direct)).collect()
}

/// Vectors of scratch that a call may take.
pub(super) fn scratch_len<T: Real>(spec: &CallSpec, order: SampleOrder) -> usize {
    let form = form(spec, order);
    let of_part = |samples: Range<usize>| {
        let algorithm = form.algorithm::<T>(samples.len(), Algorithm::Direct);
        form.scratch_len::<T, Full<'_, T>>(algorithm, samples.len())
    };
    order.parts::<T>(form.n_samples).map(of_part).max().unwrap_or(0)
}

/// What a call computes.
pub(super) fn form(spec: &CallSpec, order: SampleOrder) -> Form {
    let [x, dy, dw] = [0, 1, 2].map(|i| &spec.args[i].region);
    let window = Window { stride: spec.ints[0] as usize, pad: spec.ints[1] as usize };
    let [rows, columns] =
        [2, 3].map(|dim| Axis { window, inputs: x.range(dim), taps: dw.range(dim), outputs: dy.range(dim) });
    Form {
        order,
        n_samples: dy.shape()[0],
        channels: [dy.shape()[1], x.shape()[1]],
        rows,
        columns,
        weights: spec.args[2].extent,
        is_whole: has_whole(spec, [1, 2]),
    }
}

pub(super) fn conv2d_dw<T: Real>(call: &Call<'_>) -> Result<()> {
    let form = &form(call.spec(), SampleOrder::Lanes);
    let (x, dy) = (call.input::<T>(0), call.input::<T>(1));
    let (mut dw, scratch) = (call.output::<T>(0), scratch::of_call::<T>(call));
    let (x, dy, dw) = (x.contiguous(), dy.contiguous(), dw.contiguous());
    if !call.accumulate() {
        dw.fill(T::default());
    }
    let [n_kernels, n_channels] = form.channels;
    let x_len = n_channels * form.rows.inputs.len() * form.columns.inputs.len();
    let dy_len = n_kernels * form.rows.outputs.len() * form.columns.outputs.len();
    for samples in SampleOrder::Lanes.parts::<T>(form.n_samples) {
        let x = &x[SampleOrder::Lanes.range::<T>(&samples, x_len)];
        let dy = &dy[SampleOrder::Lanes.range::<T>(&samples, dy_len)];
        let is_done = match form.algorithm::<T>(samples.len(), Algorithm::Direct) {
            Algorithm::SmallBatch => add_small_batch(form, (x, dy, samples.len()), dw, scratch),
            Algorithm::Winograd5 => {
                let (height, width) = (form.rows.outputs.len(), form.columns.outputs.len());
                let full = Full { dy: T::lanes(dy), height, width };
                form.winograd(x, samples.len()).is_some_and(|gradient| gradient.add(&full, dw, scratch))
            }
            _ => false,
        };
        if !is_done {
            let (rows, columns) = (&form.rows, &form.columns);
            let job = Job::<T> {
                x: T::lanes(x),
                dy: T::lanes(dy),
                n_samples: samples.len(),
                n_channels,
                n_kernels,
                window: rows.window,
                rows: rows.inputs.clone(),
                columns: columns.inputs.clone(),
                oys: rows.outputs.clone(),
                oxs: columns.outputs.clone(),
            };
            T::dispatch(Direct { job, taps: (&rows.taps, &columns.taps), dw: &mut *dw });
        }
    }
    Ok(())
}

/// The arguments of a call, in lanes.
struct Job<'a, T: Real> {
    /// `x[c,iy,ix]` per group.
    x: &'a [T::Lanes],
    /// `dy[k,oy,ox]` per group.
    dy: &'a [T::Lanes],
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    window: Window,
    /// Which rows and columns `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// Which rows and columns `dy` holds.
    oys: Range<usize>,
    oxs: Range<usize>,
}

/// All gradients, by the definition.
struct Direct<'a, T: Real> {
    job: Job<'a, T>,
    /// Rows and columns of taps.
    taps: (&'a Range<usize>, &'a Range<usize>),
    dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for Direct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Direct { job, taps, dw } = self;
        // Input channels whose planes stay in the second cache while all output channels pass by.
        let plane = job.rows.len() * job.columns.len();
        let n_together = (RESIDENT / plane.max(1)).max(1);
        for first in (0..job.n_channels).step_by(n_together) {
            let channels = first..(first + n_together).min(job.n_channels);
            let mut k = 0;
            while k < job.n_kernels {
                k += job.kernels::<S>(s, k, channels.clone(), taps, dw);
            }
        }
    }
}

/// Vectors of `x` that are read again for every block of output channels: 256 KiB.
const RESIDENT: usize = 4096;

/// Which gradients a block covers: of input channel `c` and output channels from `k`, the taps from `ky` and
/// `kx` on.
#[derive(Clone, Copy)]
struct TapBlock {
    k: usize,
    c: usize,
    ky: usize,
    kx: usize,
    /// Whether the rows of the block are input channels instead of rows of taps.
    is_across: bool,
}

/// Where a block of results goes: taps of a row side by side, rows, or input channels of one tap, `row` and
/// output channels `kernel` apart.
struct Target<'a, T> {
    dw: &'a mut [T],
    row: usize,
    kernel: usize,
}

impl<T: Real> Job<'_, T> {
    /// The gradients of a few output channels from `k`, for some input channels. Returns how many.
    #[inline(always)]
    fn kernels<S: Simd<T>>(
        &self,
        s: S,
        k: usize,
        channels: Range<usize>,
        (kys, kxs): (&Range<usize>, &Range<usize>),
        dw: &mut [T],
    ) -> usize {
        let is_wide = const { S::ACCUMULATORS >= 24 };
        let left = self.n_kernels - k;
        // As many accumulators as the registers hold: output channels times taps. Three rows of taps at once
        // read two planes of `dy` where one row at a time would read eight. With few registers one channel
        // leaves room for its vector.
        let n_rows = match (kys.len(), kxs.len()) {
            (3, 3) if is_wide => 3,
            (2.., 3) if !is_wide => 2,
            _ => 1,
        };
        // Kernels of one tap have four input channels where others have rows of taps.
        let is_single = is_wide && kys.len() * kxs.len() == 1;
        let n_kernels = match kxs.len() {
            1 if is_single => [1, 4][usize::from(left >= 4)],
            3 if n_rows == 3 => [1, 2][usize::from(left >= 2)],
            3 if n_rows == 2 => 1,
            5 if is_wide => [1, 4][usize::from(left >= 4)],
            _ if is_wide && left >= 8 => 8,
            1 if left >= 4 => 4,
            _ if left >= 2 => 2,
            _ => 1,
        };
        let mut c = channels.start;
        while c < channels.end {
            let n_across = if is_single && channels.end - c >= 4 { 4 } else { 1 };
            for ky in kys.clone().step_by(n_rows) {
                let mut kx = kxs.start;
                while kx < kxs.end {
                    let n_taps = match kxs.end - kx {
                        5 if is_wide && kxs.len() == 5 => 5,
                        1 => 1,
                        2 | 4 => 2,
                        _ => 3,
                    };
                    let first = ((k * self.n_channels + c) * kys.len() + ky - kys.start) * kxs.len();
                    let target = Target {
                        dw: &mut dw[first + kx - kxs.start..],
                        row: kxs.len(),
                        kernel: self.n_channels * kys.len() * kxs.len(),
                    };
                    let place = TapBlock { k, c, ky, kx, is_across: n_across > 1 };
                    let n_rows = n_rows.min(kys.end - ky).max(n_across);
                    match (n_kernels, n_rows, n_taps) {
                        (4, 4, _) if is_wide => self.block::<S, 4, 4, 1>(s, place, target),
                        (_, 4, _) if is_wide => self.block::<S, 1, 4, 1>(s, place, target),
                        (2, 3, _) if is_wide => self.block::<S, 2, 3, 3>(s, place, target),
                        (_, 3, _) if is_wide => self.block::<S, 1, 3, 3>(s, place, target),
                        (4, _, 5) if is_wide => self.block::<S, 4, 1, 5>(s, place, target),
                        (_, _, 5) if is_wide => self.block::<S, 1, 1, 5>(s, place, target),
                        (_, 2, 3) if !is_wide => self.block::<S, 1, 2, 3>(s, place, target),
                        (8, _, 3) if is_wide => self.block::<S, 8, 1, 3>(s, place, target),
                        (2, _, 3) => self.block::<S, 2, 1, 3>(s, place, target),
                        (_, _, 3) => self.block::<S, 1, 1, 3>(s, place, target),
                        (8, _, 2) if is_wide => self.block::<S, 8, 1, 2>(s, place, target),
                        (2, _, 2) => self.block::<S, 2, 1, 2>(s, place, target),
                        (_, _, 2) => self.block::<S, 1, 1, 2>(s, place, target),
                        (8, ..) if is_wide => self.block::<S, 8, 1, 1>(s, place, target),
                        (4, ..) => self.block::<S, 4, 1, 1>(s, place, target),
                        (2, ..) => self.block::<S, 2, 1, 1>(s, place, target),
                        _ => self.block::<S, 1, 1, 1>(s, place, target),
                    }
                    kx += n_taps;
                }
            }
            c += n_across;
        }
        n_kernels
    }

    /// The gradients of `K` output channels and `Y` rows of `X` taps, for one input channel, or `Y` channels
    /// of one tap.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const Y: usize, const X: usize>(
        &self,
        s: S,
        TapBlock { k, c, ky, kx, is_across }: TapBlock,
        target: Target<'_, T>,
    ) {
        let Window { stride, pad } = self.window;
        let (height, width) = (self.rows.len(), self.columns.len());
        let (out_height, out_width) = (self.oys.len(), self.oxs.len());
        let interior = self.window.interior(&self.oxs, &(kx..kx + X), &self.columns);
        let interior = interior.start - self.oxs.start..interior.end - self.oxs.start;
        // Where the window of the first column begins; before the image, that is beyond any row's end.
        let left = (self.oxs.start * stride + kx).wrapping_sub(pad + self.columns.start);
        let mut totals = [[[T::ZERO_LANES; X]; Y]; K];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut sums = [[[s.zero(); X]; Y]; K];
            let x = &self.x[(group * self.n_channels + c) * height * width..];
            let dy = &self.dy[(group * self.n_kernels + k) * out_height * out_width..];
            let dy = &dy[..K * out_height * out_width];
            for oy in 0..out_height {
                // The row of `x` under each row of taps; empty where there is none.
                let mut under = [&x[..0]; Y];
                for r in 0..Y {
                    let (plane, tap) = if is_across { (r, ky) } else { (0, ky + r) };
                    if let Some(iy) = self.window.input(self.oys.start + oy, tap, &self.rows) {
                        under[r] = &x[(plane * height + iy - self.rows.start) * width..][..width];
                    }
                }
                let mut rows = [&dy[..0]; K];
                for i in 0..K {
                    rows[i] = &dy[(i * out_height + oy) * out_width..][..out_width];
                }
                for t in 0..interior.start {
                    border(s, &mut sums, under, rows, (left.wrapping_add(t * stride), t));
                }
                for t in interior.clone() {
                    let mut gradients = [s.zero(); K];
                    for i in 0..K {
                        gradients[i] = s.load(&rows[i][t]);
                    }
                    let at = left.wrapping_add(t * stride);
                    for r in 0..Y {
                        let Some(x) = under[r].get(at..).and_then(<[T::Lanes]>::first_chunk::<X>) else {
                            continue;
                        };
                        for j in 0..X {
                            let value = s.load(&x[j]);
                            for i in 0..K {
                                sums[i][r][j] = s.mul_add(gradients[i], value, sums[i][r][j]);
                            }
                        }
                    }
                }
                for t in interior.end..out_width {
                    border(s, &mut sums, under, rows, (left.wrapping_add(t * stride), t));
                }
            }
            let n_valid = self.n_samples - group * T::LANES;
            if n_valid < T::LANES {
                let valid = s.first(n_valid);
                for i in 0..K {
                    for r in 0..Y {
                        for j in 0..X {
                            sums[i][r][j] = s.select(valid, sums[i][r][j], s.zero());
                        }
                    }
                }
            }
            for i in 0..K {
                for r in 0..Y {
                    for j in 0..X {
                        let total = &mut totals[i][r][j];
                        s.store(s.add(s.load(total), sums[i][r][j]), total);
                    }
                }
            }
        }
        let mut results = [[[T::default(); X]; Y]; K];
        across(s, totals.as_flattened().as_flattened(), results.as_flattened_mut().as_flattened_mut());
        for i in 0..K {
            for r in 0..Y {
                for j in 0..X {
                    target.dw[i * target.kernel + r * target.row + j] += results[i][r][j];
                }
            }
        }
    }
}

/// One output pixel whose window, which begins at `at`, reaches over the border: only the taps inside the
/// image count.
#[inline(always)]
fn border<T: Real, S: Simd<T>, const K: usize, const Y: usize, const X: usize>(
    s: S,
    sums: &mut [[[S::V; X]; Y]; K],
    under: [&[T::Lanes]; Y],
    rows: [&[T::Lanes]; K],
    (at, t): (usize, usize),
) {
    let mut gradients = [s.zero(); K];
    for i in 0..K {
        gradients[i] = s.load(&rows[i][t]);
    }
    for r in 0..Y {
        for j in 0..X {
            let Some(value) = under[r].get(at.wrapping_add(j)) else { continue };
            let value = s.load(value);
            for i in 0..K {
                sums[i][r][j] = s.mul_add(gradients[i], value, sums[i][r][j]);
            }
        }
    }
}
