//! Lanes over samples. The usual squares of 2 side by side are computed in registers: four sums for each of a block of output
//! channels, then their maxima. Other pools, and windows at the border, take their values from a strip of memory that stays
//! in the first cache, into which the convolution's own kernel writes. Small images are copied with zeros around them, so that no
//! window of theirs is at the border. Few samples are computed one at a time (`few`). For 5x5 taps, windows are the tiles of a convolution by fewer
//! multiplications (`op/convolve/reduced`). Either way every sum is what it would be in the convolution by itself.
//!
//! Per tap of a window and 4 channels: 16 multiply-adds and 8 loads, of which a core with AVX-512 does one each per cycle. Per
//! window and channel of `seed`: 36 multiply-adds and about 14 other operations. 18 µs for 16 samples were measured where
//! the multiply-adds alone need 13, and the convolution by itself 17.

use super::checked_size;
use super::few::Few;
use crate::convolve::block::{Band, Taps};
use crate::convolve::reduced::{Target, Tile};
use crate::convolve::{Axis, Convolution, Finish, PlaneSteps, RESIDENT, STACK_TAPS, WeightSteps};
use crate::flat::Order;
use crate::max_pool::lanes::{better, candidate};
use crate::padded::{Span, copy_inside};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::are_finite;
use crate::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

/// Vectors of the convolution's output that are held at a time: 16 KiB, half of the first cache.
const STRIP: usize = 256;

/// What all blocks of a call share.
#[derive(Clone)]
struct Pooled<'a, T: Real> {
    /// How samples lie in `x`.
    order: Order,
    x: &'a [T],
    w: &'a [T],
    b: &'a [T],
    window: Window,
    n_samples: usize,
    n_channels: usize,
    n_kernels: usize,
    /// Which rows and columns of the image `x` holds.
    rows: Range<usize>,
    columns: Range<usize>,
    /// The taps of `w`.
    kys: Range<usize>,
    kxs: Range<usize>,
    /// Stride and size of the pool.
    stride: usize,
    size: usize,
    /// Which rows and columns `y` holds.
    pys: Range<usize>,
    pxs: Range<usize>,
}

pub(super) fn conv2d_relu_max_pool<T: Real>(call: &Call<'_>) -> Result<()> {
    run_or_reference::<T>(call, Order::Lanes)
}

pub(super) fn flat<T: Real>(call: &Call<'_>) -> Result<()> {
    run_or_reference::<T>(call, Order::Rows)
}

fn run_or_reference<T: Real>(call: &Call<'_>, order: Order) -> Result<()> {
    if run::<T>(call, order)? { Ok(()) } else { super::reference::<T>(call) }
}

/// Returns whether there is a way to compute it.
fn run<T: Real>(call: &Call<'_>, order: Order) -> Result<bool> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let size = checked_size(call.int(3))?;
    if w.region().range(2).len() * w.region().range(3).len() > STACK_TAPS {
        // No network has kernels of more than 16x16.
        return Ok(false);
    }
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let job = Pooled::<T> {
        order,
        x: x.contiguous(),
        w: w.contiguous(),
        b: b.contiguous(),
        window: Window { stride: call.int(0), pad: call.int(1) },
        n_samples: y.region().shape()[0],
        n_channels: x.region().shape()[1],
        n_kernels: y.region().shape()[1],
        rows: x.region().range(2),
        columns: x.region().range(3),
        kys: w.region().range(2),
        kxs: w.region().range(3),
        stride: call.int(2),
        size,
        pys: y.region().range(2),
        pxs: y.region().range(3),
    };
    let x_len = job.n_channels * job.rows.len() * job.columns.len();
    let y_len = job.n_kernels * job.pys.len() * job.pxs.len();
    let (y, arg) = (y.contiguous(), arg.contiguous());
    let mut parts = order.parts::<T>(job.n_samples);
    Ok(parts.all(|samples| {
        let range = order.range::<T>(&samples, y_len);
        let x = &job.x[order.range::<T>(&samples, x_len)];
        let part = Pooled { x, n_samples: samples.len(), ..job.clone() };
        all_windows(part, &mut y[range.clone()], &mut arg[range])
    }))
}

/// All windows. Returns whether there is a way to compute them.
fn all_windows<T: Real>(job: Pooled<'_, T>, y: &mut [T], arg: &mut [u8]) -> bool {
    let span = |windows: &Range<usize>, taps, pixels| {
        let end = windows.end.saturating_sub(1) * job.stride + job.size;
        Span::new(job.window, &(windows.start * job.stride..end), taps, pixels)
    };
    let spans = (span(&job.pys, &job.kys, &job.rows), span(&job.pxs, &job.kxs, &job.columns));
    let convolution = job.convolution();
    if let Some(flat) = convolution.flat() {
        let n_windows = [job.pys.len(), job.pxs.len()];
        T::scratch(convolution.flat_len(&flat), |scratch| {
            let (convolution, flat) = (&convolution, &flat);
            T::dispatch(Few {
                convolution,
                flat,
                stride: job.stride,
                size: job.size,
                n_windows,
                scratch,
                y,
                arg,
            })
        });
        return true;
    }
    if job.order == Order::Rows {
        return false;
    }
    let (y, arg) = (T::lanes_mut(y), T::bytes_mut(arg));
    // More channels are not added up in one pass.
    let is_small = convolution.n_inputs * job.kys.len() * job.kxs.len() <= STACK_TAPS;
    if job.size == 2 && job.stride == 2 && is_small && convolution.is_reducible() {
        let is_done = convolution.reduce::<_, 5>(Windows { job: &job, y: &mut *y, arg: &mut *arg });
        if is_done {
            return true;
        }
    }
    let n_planes = job.n_samples.div_ceil(T::LANES) * job.n_channels;
    let n_copied = n_planes.saturating_mul(spans.0.len).saturating_mul(spans.1.len);
    let has_padding = !(spans.0.is_inside() && spans.1.is_inside());
    // An infinite weight times the zero of padding would be NaN.
    let is_copied = has_padding && n_copied <= COPIED && are_finite(job.w);
    T::scratch(if is_copied { n_copied } else { 0 }, |copied| match job.kxs.len() {
        3 => T::dispatch(Run::<T, 3> { job, spans, copied, y, arg }),
        5 => T::dispatch(Run::<T, 5> { job, spans, copied, y, arg }),
        _ => T::dispatch(Run::<T, 0> { job, spans, copied, y, arg }),
    });
    true
}

/// Windows of two by two that are tiles of a convolution by fewer multiplications.
struct Windows<'a, 'b, T: Real> {
    job: &'a Pooled<'b, T>,
    y: &'a mut [T::Lanes],
    arg: &'a mut [T::Bytes],
}

impl<T: Real> Target<T> for Windows<'_, '_, T> {
    #[inline(always)]
    fn put<S: Simd<T>>(&mut self, s: S, tile: &Tile<'_>, [[a, b], [c, d]]: [[S::V; 2]; 2]) {
        let (n_rows, n_columns) = (self.job.pys.len(), self.job.pxs.len());
        let plane = tile.group * self.job.n_kernels + tile.output;
        let at = (plane * n_rows + tile.row / 2) * n_columns + tile.column / 2;
        // Of moderate values none is NaN.
        largest_number(s, [a, b, c, d], &mut self.y[at], &mut self.arg[at]);
    }
}

/// Vectors of pixels that are copied with zeros around them: 256 KiB, which stay in the second cache.
const COPIED: usize = 4096;

/// Kernels are `W` wide, or of any width if `W` is 0.
struct Run<'a, T: Real, const W: usize> {
    job: Pooled<'a, T>,
    /// The rows and columns of pixels under all windows.
    spans: (Span, Span),
    /// Room for them; none if they are not copied.
    copied: &'a mut [T::Lanes],
    y: &'a mut [T::Lanes],
    arg: &'a mut [T::Bytes],
}

impl<T: Real, const W: usize> Kernel<T> for Run<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Run { mut job, spans, copied, y, arg } = self;
        if !copied.is_empty() {
            let from = T::lanes(job.x).chunks_exact((job.rows.len() * job.columns.len()).max(1));
            for (from, to) in from.zip(copied.chunks_exact_mut(spans.0.len * spans.1.len)) {
                copy_inside(s, (&spans.0, &spans.1), from, to);
            }
            // The same windows, on an image whose first pixel is the first one that they cover.
            let Window { stride, .. } = job.window;
            let [top, left] = [(&job.pys, &job.kys), (&job.pxs, &job.kxs)]
                .map(|(windows, taps)| windows.start * job.stride * stride + taps.start);
            job.x = T::flat(copied);
            job.window = Window { stride, pad: 0 };
            (job.rows, job.columns) = (top..top + spans.0.len, left..left + spans.1.len);
        }
        job.all::<S, W>(s, y, arg);
    }
}

impl<T: Real> Pooled<'_, T> {
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

    /// All outputs; kernels are `W` wide, or of any width if `W` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const W: usize>(&self, s: S, y: &mut [T::Lanes], arg: &mut [T::Bytes]) {
        // One window of every channel of a block must fit into the strip.
        let most = STRIP / (self.size * self.size).max(1);
        let mut k = 0;
        while k < self.n_kernels {
            k += match (self.n_kernels - k).min(most) {
                6 if S::ACCUMULATORS >= 24 => self.kernels::<S, 6, 4, W>(s, k, y, arg),
                4.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 4, 6, W>(s, k, y, arg),
                2.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 2, 8, 0>(s, k, y, arg),
                1 if S::ACCUMULATORS >= 24 => self.kernels::<S, 1, 8, 0>(s, k, y, arg),
                2.. => self.kernels::<S, 2, 3, W>(s, k, y, arg),
                _ => self.kernels::<S, 1, 4, 0>(s, k, y, arg),
            };
        }
    }

    /// All outputs of `K` output channels from `k`. Returns `K`.
    #[inline(always)]
    fn kernels<S: Simd<T>, const K: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        k: usize,
        y: &mut [T::Lanes],
        arg: &mut [T::Bytes],
    ) -> usize {
        let mut stack = [[T::default(); K]; STACK_TAPS];
        let mut strip = [T::ZERO_LANES; STRIP];
        let per_channel = self.kys.len() * self.kxs.len();
        let per_batch = STACK_TAPS / per_channel.max(1);
        let x_len = self.n_channels * self.rows.len() * self.columns.len();
        let mut bias = [T::default(); K];
        bias.copy_from_slice(&self.b[k..k + K]);
        // As many windows side by side as the strip has room for.
        let columns = STRIP / (K * self.size);
        let most_windows = (columns - self.size) / self.stride + 1;
        let is_one_batch = self.n_channels <= per_batch;
        if is_one_batch {
            self.pack(k, 0..self.n_channels, &mut stack);
        }
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            for py in self.pys.clone() {
                let oys = py * self.stride..py * self.stride + self.size;
                let x = &T::lanes(self.x)[group * x_len..][..x_len];
                let whole = if is_one_batch { self.whole_windows(&oys) } else { self.pxs.end..self.pxs.end };
                let mut px = self.pxs.start;
                while px < self.pxs.end {
                    if whole.contains(&px) {
                        let row = ((group * self.n_kernels + k) * self.pys.len() + py - self.pys.start)
                            * self.pxs.len();
                        for px in whole.clone() {
                            let out = row + px - self.pxs.start;
                            self.window::<S, K, W>(
                                s,
                                x,
                                (oys.start, px),
                                (&stack, &bias),
                                &mut y[out..],
                                &mut arg[out..],
                            );
                        }
                        px = whole.end;
                        continue;
                    }
                    let end = if px < whole.start { whole.start } else { self.pxs.end };
                    let pxs = px..(px + most_windows).min(end);
                    let oxs = px * self.stride..(pxs.end - 1) * self.stride + self.size;
                    let columns = self.axis(&self.columns, &self.kxs, &oxs);
                    let band = Band {
                        x,
                        rows: self.axis(&self.rows, &self.kys, &oys),
                        columns: &columns,
                        planes: PlaneSteps::whole(oys.len(), oxs.len()),
                    };
                    let mut first = 0;
                    while first < self.n_channels.max(1) {
                        let channels = first..(first + per_batch).min(self.n_channels);
                        if !is_one_batch {
                            self.pack(k, channels.clone(), &mut stack);
                        }
                        let weights = &stack[..channels.len() * per_channel];
                        let taps = Taps {
                            weights,
                            channels,
                            bias: (first == 0).then_some(bias),
                            add: first > 0,
                            finish: Finish::Sum,
                        };
                        band.all::<S, K, X, W>(s, &taps, &mut strip);
                        first += per_batch;
                    }
                    for i in 0..K {
                        let plane = &strip[i * self.size * oxs.len()..][..self.size * oxs.len()];
                        let row = ((group * self.n_kernels + k + i) * self.pys.len() + py - self.pys.start)
                            * self.pxs.len();
                        let out = row + px - self.pxs.start..row + pxs.end - self.pxs.start;
                        self.pool(s, plane, oxs.len(), &mut y[out.clone()], &mut arg[out]);
                    }
                    px = pxs.end;
                }
            }
        }
        K
    }

    /// Which windows of a row are computed in registers: squares of 2 side by side, whose taps all lie inside the image.
    #[inline(always)]
    fn whole_windows(&self, oys: &Range<usize>) -> Range<usize> {
        let nowhere = self.pxs.end..self.pxs.end;
        let is_row = oys.clone().all(|oy| self.window.taps(oy, &self.kys, &self.rows) == self.kys);
        if self.size != 2 || self.stride != 2 || !is_row {
            return nowhere;
        }
        let all = self.pxs.start * 2..self.pxs.end * 2;
        let columns = self.window.interior(&all, &self.kxs, &self.columns);
        let windows = columns.start.div_ceil(2)..columns.end / 2;
        if windows.is_empty() { nowhere } else { windows }
    }

    /// One window of `K` channels: four sums each, and their maximum.
    #[inline(always)]
    fn window<S: Simd<T>, const K: usize, const W: usize>(
        &self,
        s: S,
        x: &[T::Lanes],
        (oy, px): (usize, usize),
        (weights, bias): (&[[T; K]], &[T; K]),
        y: &mut [T::Lanes],
        arg: &mut [T::Bytes],
    ) {
        let Window { stride, pad } = self.window;
        let (height, width) = (self.rows.len(), self.columns.len());
        let n_taps = if W > 0 { W } else { self.kxs.len() };
        let left = px * 2 * stride + self.kxs.start - pad - self.columns.start;
        let top = oy * stride + self.kys.start - pad - self.rows.start;
        let mut sums = [[s.zero(); 4]; K];
        for i in 0..K {
            sums[i] = [s.splat(bias[i]); 4];
        }
        let mut weights = weights;
        for c in 0..self.n_channels {
            for ky in 0..self.kys.len() {
                let rows = &x[(c * height + top + ky) * width..];
                let (upper, lower) =
                    (&rows[left..width], &rows[stride * width + left..stride * width + width]);
                let (upper, lower) = (&upper[..n_taps + stride], &lower[..n_taps + stride]);
                let (here, rest) = weights.split_at(n_taps);
                for kx in 0..n_taps {
                    let values = [
                        s.load(&upper[kx]),
                        s.load(&upper[kx + stride]),
                        s.load(&lower[kx]),
                        s.load(&lower[kx + stride]),
                    ];
                    for i in 0..K {
                        let weight = s.splat(here[kx][i]);
                        for q in 0..4 {
                            sums[i][q] = s.mul_add(weight, values[q], sums[i][q]);
                        }
                    }
                }
                weights = rest;
            }
        }
        let plane = self.pys.len() * self.pxs.len();
        for i in 0..K {
            largest(s, sums[i], &mut y[i * plane], &mut arg[i * plane]);
        }
    }

    /// Puts the weights of some input channels for `K` output channels side by side.
    #[inline(always)]
    fn pack<const K: usize>(&self, k: usize, channels: Range<usize>, stack: &mut [[T; K]; STACK_TAPS]) {
        let per_channel = self.kys.len() * self.kxs.len();
        let len = channels.len() * per_channel;
        for i in 0..K {
            let from = &self.w[((k + i) * self.n_channels + channels.start) * per_channel..][..len];
            for (to, &weight) in stack[..len].iter_mut().zip(from) {
                to[i] = weight;
            }
        }
    }

    /// An axis of the convolution under some windows.
    #[inline(always)]
    fn axis(&self, inputs: &Range<usize>, taps: &Range<usize>, outputs: &Range<usize>) -> Axis {
        Axis { window: self.window, inputs: inputs.clone(), taps: taps.clone(), outputs: outputs.clone() }
    }

    /// The maxima of one row of windows, rectified, and their places; `plane` has rows of `width`.
    #[inline(always)]
    fn pool<S: Simd<T>>(
        &self,
        s: S,
        plane: &[T::Lanes],
        width: usize,
        y: &mut [T::Lanes],
        arg: &mut [T::Bytes],
    ) {
        let none = s.splat_bytes((self.size * self.size) as u8);
        if self.size == 2 && self.stride == 2 {
            let (top, bottom) = plane.split_at(width);
            let windows = top.as_chunks::<2>().0.iter().zip(bottom.as_chunks::<2>().0);
            for ((top, bottom), (y, arg)) in windows.zip(y.iter_mut().zip(arg)) {
                let values = [&top[0], &top[1], &bottom[0], &bottom[1]].map(
                    #[inline(always)]
                    |value| s.load(value),
                );
                largest(s, values, y, arg);
            }
            return;
        }
        for (i, (y, arg)) in y.iter_mut().zip(arg).enumerate() {
            let mut best = candidate(s, &plane[i * self.stride], 0);
            for place in 1..self.size * self.size {
                let at = place / self.size * width + i * self.stride + place % self.size;
                best = better(s, best, candidate(s, &plane[at], place));
            }
            rectify(s, best, none, y, arg);
        }
    }
}

/// Writes the maximum of a window, or zero if that is larger, and its place, or `none` if it is not positive.
#[inline(always)]
fn rectify<T: Real, S: Simd<T>>(
    s: S,
    (maximum, place): (S::V, S::B),
    none: S::B,
    y: &mut T::Lanes,
    arg: &mut T::Bytes,
) {
    let rectified = s.max(s.zero(), maximum);
    s.store(rectified, y);
    s.store_bytes(s.select_bytes(s.gt(rectified, s.zero()), place, none), arg);
}

/// Writes the largest of the four values of a window, or zero if that is larger, and its place, or 4 if it is not positive.
#[inline(always)]
pub(super) fn largest<T: Real, S: Simd<T>>(s: S, values: [S::V; 4], y: &mut T::Lanes, arg: &mut T::Bytes) {
    let [a, b, c, d] = values;
    let none = s.splat_bytes(4);
    if s.any_nan(a, b) || s.any_nan(c, d) {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|place| s.splat_bytes(place));
        let (upper, lower) = (better(s, (a, first), (b, second)), better(s, (c, third), (d, fourth)));
        let best = better(s, upper, lower);
        return rectify(s, best, none, y, arg);
    }
    largest_number(s, values, y, arg);
}

/// The same, if none of them is NaN: the place is that of the first value that equals the maximum. Of two zeros the earlier counts.
#[inline(always)]
fn largest_number<T: Real, S: Simd<T>>(s: S, values: [S::V; 4], y: &mut T::Lanes, arg: &mut T::Bytes) {
    let [a, b, c, d] = values;
    let maximum = s.max(s.max(d, c), s.max(b, a));
    let place = s.select_bytes(s.eq(c, maximum), s.splat_bytes(2), s.splat_bytes(3));
    let place = s.select_bytes(s.eq(b, maximum), s.splat_bytes(1), place);
    let place = s.select_bytes(s.eq(a, maximum), s.splat_bytes(0), place);
    rectify(s, (maximum, place), s.splat_bytes(4), y, arg);
}
