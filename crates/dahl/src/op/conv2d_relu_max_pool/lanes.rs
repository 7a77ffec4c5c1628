//! Rows of the convolution are computed by its own kernel, a block of output channels at a time, into a strip of memory that
//! stays in the first cache; the maxima are taken from there. So every sum is the chain of multiply-adds that the
//! convolution by itself would be.
//!
//! Per output of the convolution of `seed`: 9 multiply-adds, one store and one load of a vector. At one multiply-add and
//! one load, and half a store, per cycle, the arithmetic hides the rest.

use super::checked_size;
use crate::op::conv2d::STACK_TAPS;
use crate::op::conv2d::lanes::{Job, Taps};
use crate::op::max_pool::lanes::{better, candidate};
use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d_relu_max_pool, body);

/// Vectors of the convolution's output that are held at a time: 16 KiB, half of the first cache.
const STRIP: usize = 256;

/// What all blocks of a call share; `x` in lanes.
struct Pooled<'a, T: Real> {
    x: &'a [T::Lanes],
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

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let size = checked_size(call.int(3))?;
    if w.region().range(2).len() * w.region().range(3).len() > STACK_TAPS {
        // No network has kernels of more than 16x16.
        return super::reference::<T>(call);
    }
    let (mut y, mut arg) = (call.output::<T>(0), call.output::<u8>(1));
    let job = Pooled::<T> {
        x: T::lanes(x.contiguous()),
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
    let (y, arg) = (T::lanes_mut(y.contiguous()), T::bytes_mut(arg.contiguous()));
    match job.kxs.len() {
        3 => job.all::<S, 3>(s, y, arg),
        5 => job.all::<S, 5>(s, y, arg),
        _ => job.all::<S, 0>(s, y, arg),
    }
    Ok(())
}

impl<T: Real> Pooled<'_, T> {
    /// All outputs; kernels are `W` wide, or of any width if `W` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const W: usize>(&self, s: S, y: &mut [T::Lanes], arg: &mut [T::Bytes]) {
        // One window of every channel of a block must fit into the strip.
        let most = STRIP / (self.size * self.size).max(1);
        let mut k = 0;
        while k < self.n_kernels {
            k += match (self.n_kernels - k).min(most) {
                8.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 8, 3, W>(s, k, y, arg),
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
                let mut px = self.pxs.start;
                while px < self.pxs.end {
                    let pxs = px..(px + most_windows).min(self.pxs.end);
                    let oxs = px * self.stride..(pxs.end - 1) * self.stride + self.size;
                    let job = self.rows_of::<K>(&self.x[group * x_len..][..x_len], &oys, &oxs);
                    let mut first = 0;
                    while first < self.n_channels.max(1) {
                        let channels = first..(first + per_batch).min(self.n_channels);
                        if !is_one_batch {
                            self.pack(k, channels.clone(), &mut stack);
                        }
                        let weights = &stack[..channels.len() * per_channel];
                        let bias = if first == 0 { bias } else { [T::default(); K] };
                        let taps = Taps { weights, channels, bias, add: first > 0 };
                        job.planes::<S, K, X, W>(s, 0, &taps, &mut strip);
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

    /// The convolution of one group that gives these rows and columns of `K` channels.
    #[inline(always)]
    fn rows_of<'b, const K: usize>(
        &self,
        x: &'b [T::Lanes],
        oys: &Range<usize>,
        oxs: &Range<usize>,
    ) -> Job<'b, T> {
        Job {
            x,
            w: &[],
            bias: None,
            accumulate: false,
            window: self.window,
            n_samples: T::LANES,
            n_channels: self.n_channels,
            n_kernels: K,
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            kys: self.kys.clone(),
            kxs: self.kxs.clone(),
            oys: oys.clone(),
            oxs: oxs.clone(),
            interior: self.window.interior(oxs, &self.kxs, &self.columns),
        }
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
                // The winners of both rows, then the winner of those: shorter than one chain of four.
                let upper = better(s, candidate(s, &top[0], 0), candidate(s, &top[1], 1));
                let lower = better(s, candidate(s, &bottom[0], 2), candidate(s, &bottom[1], 3));
                rectify(s, better(s, upper, lower), none, y, arg);
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
