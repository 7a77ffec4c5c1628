//! A block of output channels by neighbouring columns in registers, lanes over samples: per tap one vector of
//! `x` per column and one broadcast weight per channel. The weights of a block of output channels are first
//! copied side by side onto the stack, as many input channels at a time as fit; between such batches the sums
//! rest in `y`. Kernels 3 and 5 wide have loops of constant length. Each output is one chain of multiply-adds in
//! the order (channel, row, column) of its taps, clipped at the border, so that the blocking, which differs
//! between instruction sets, cannot show in the bits.

use super::STACK_TAPS;
use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
use crate::op::window::Window;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;
use std::ops::Range;

lanes_kernel!(conv2d, body);

/// What all blocks of a call share; `x` and `y` in lanes.
pub(in crate::op) struct Job<'a, T: Real> {
    pub(in crate::op) x: &'a [T::Lanes],
    pub(in crate::op) w: &'a [T],
    /// `b[k]`, where this call adds it.
    pub(in crate::op) bias: Option<&'a [T]>,
    pub(in crate::op) accumulate: bool,
    pub(in crate::op) window: Window,
    pub(in crate::op) n_samples: usize,
    pub(in crate::op) n_channels: usize,
    pub(in crate::op) n_kernels: usize,
    /// Which rows and columns of the image `x` holds.
    pub(in crate::op) rows: Range<usize>,
    pub(in crate::op) columns: Range<usize>,
    /// The taps of `w`.
    pub(in crate::op) kys: Range<usize>,
    pub(in crate::op) kxs: Range<usize>,
    /// Which rows and columns `y` holds, and the columns whose windows lie inside `columns`.
    pub(in crate::op) oys: Range<usize>,
    pub(in crate::op) oxs: Range<usize>,
    pub(in crate::op) interior: Range<usize>,
}

/// The weights of some input channels for a block of output channels.
pub(in crate::op) struct Taps<'a, T, const K: usize> {
    /// `weights[(c * height + ky) * width + kx][k]`, `c` from the first of `channels`.
    pub(in crate::op) weights: &'a [[T; K]],
    /// Which input channels.
    pub(in crate::op) channels: Range<usize>,
    /// What the sums start with, where they do not start with what is in `y`.
    pub(in crate::op) bias: [T; K],
    /// Whether to add to what is in `y`; the bias is added to it too.
    pub(in crate::op) add: bool,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (x, w, b) = (call.input::<T>(0), call.input::<T>(1), call.input::<T>(2));
    let (columns, kxs) = (x.region().range(3), w.region().range(3));
    if w.region().range(2).len() * kxs.len() > STACK_TAPS {
        // No network has kernels of more than 16x16.
        return super::reference::<T>(call);
    }
    let mut y = call.output::<T>(0);
    let window = Window { stride: call.int(0), pad: call.int(1) };
    let oxs = y.region().range(3);
    let interior = window.interior(&oxs, &kxs, &columns);
    let job = Job::<T> {
        x: T::lanes(x.contiguous()),
        w: w.contiguous(),
        bias: if w.region().lo()[1..] == [0, 0, 0] { Some(b.contiguous()) } else { None },
        accumulate: call.accumulate(),
        window,
        n_samples: y.region().shape()[0],
        n_channels: x.region().shape()[1],
        n_kernels: y.region().shape()[1],
        rows: x.region().range(2),
        columns,
        kys: w.region().range(2),
        kxs,
        oys: y.region().range(2),
        oxs,
        interior,
    };
    let y = T::lanes_mut(y.contiguous());
    match job.kxs.len() {
        3 => job.all::<S, 3>(s, y),
        5 => job.all::<S, 5>(s, y),
        _ => job.all::<S, 0>(s, y),
    }
    Ok(())
}

impl<T: Real> Job<'_, T> {
    /// All outputs; kernels are `W` wide, or of any width if `W` is 0.
    #[inline(always)]
    fn all<S: Simd<T>, const W: usize>(&self, s: S, y: &mut [T::Lanes]) {
        let mut k = 0;
        while k < self.n_kernels {
            // As many accumulators as the registers hold: channels times columns.
            k += match self.n_kernels - k {
                8.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 8, 3, W>(s, k, y),
                4.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 4, 6, W>(s, k, y),
                2.. if S::ACCUMULATORS >= 24 => self.kernels::<S, 2, 8, 0>(s, k, y),
                1 if S::ACCUMULATORS >= 24 => self.kernels::<S, 1, 8, 0>(s, k, y),
                2.. => self.kernels::<S, 2, 3, W>(s, k, y),
                _ => self.kernels::<S, 1, 4, 0>(s, k, y),
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
    ) -> usize {
        let per_channel = self.kys.len() * self.kxs.len();
        let mut stack = [[T::default(); K]; STACK_TAPS];
        let per_batch = STACK_TAPS / per_channel.max(1);
        let mut first = 0;
        // Once even without any channel: the bias is due all the same.
        while first < self.n_channels.max(1) {
            let channels = first..(first + per_batch).min(self.n_channels);
            let weights = &mut stack[..channels.len() * per_channel];
            for i in 0..K {
                let from = &self.w[((k + i) * self.n_channels + first) * per_channel..][..weights.len()];
                for (to, &weight) in weights.iter_mut().zip(from) {
                    to[i] = weight;
                }
            }
            let mut bias = [T::default(); K];
            if let Some(all) = self.bias
                && first == 0
            {
                bias.copy_from_slice(&all[k..k + K]);
            }
            let taps = Taps { weights, channels, bias, add: self.accumulate || first > 0 };
            self.planes::<S, K, X, W>(s, k, &taps, y);
            first += per_batch;
        }
        K
    }

    /// Adds some input channels to all outputs of `K` output channels, in blocks of `X` columns where no tap is
    /// clipped.
    #[inline(always)]
    pub(in crate::op) fn planes<S: Simd<T>, const K: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        k: usize,
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let (height, width) = (self.oys.len(), self.oxs.len());
        let x_len = self.n_channels * self.rows.len() * self.columns.len();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let x = &self.x[group * x_len..][..x_len];
            for oy in self.oys.clone() {
                let kys = self.window.taps(oy, &self.kys, &self.rows);
                let row = (group * self.n_kernels + k) * height + oy - self.oys.start;
                let y = &mut y[row * width..];
                let mut ox = self.oxs.start;
                while ox < self.oxs.end {
                    let y = &mut y[ox - self.oxs.start..];
                    if self.interior.contains(&ox) && ox + X <= self.interior.end {
                        self.block::<S, K, X, W>(s, x, (oy, ox), (&kys, &self.kxs), taps, y);
                        ox += X;
                    } else {
                        let kxs = self.window.taps(ox, &self.kxs, &self.columns);
                        // A window beside the image has no row of taps either.
                        let kys = if kxs.is_empty() { 0..0 } else { kys.clone() };
                        self.block::<S, K, 1, 0>(s, x, (oy, ox), (&kys, &kxs), taps, y);
                        ox += 1;
                    }
                }
            }
        }
    }

    /// `K` channels of `X` columns from `ox`, with taps that lie inside the image.
    #[inline(always)]
    fn block<S: Simd<T>, const K: usize, const X: usize, const W: usize>(
        &self,
        s: S,
        x: &[T::Lanes],
        (oy, ox): (usize, usize),
        (kys, kxs): (&Range<usize>, &Range<usize>),
        taps: &Taps<'_, T, K>,
        y: &mut [T::Lanes],
    ) {
        let y_plane = self.oys.len() * self.oxs.len();
        let mut sums = [[s.zero(); X]; K];
        for i in 0..K {
            sums[i] = [s.splat(taps.bias[i]); X];
        }
        if taps.add {
            for i in 0..K {
                for j in 0..X {
                    sums[i][j] = s.add(s.load(&y[i * y_plane + j]), sums[i][j]);
                }
            }
        }
        let Window { stride, pad } = self.window;
        let (height, width) = (self.rows.len(), self.columns.len());
        // Only the window of `x` that starts at the first tap's column, and the weights from there.
        let first = ox * stride + kxs.start - pad - self.columns.start;
        let mut channel_weights = taps.weights;
        for c in taps.channels.clone() {
            for ky in kys.clone() {
                let iy = oy * stride + ky - pad - self.rows.start;
                let x = &x[(c * height + iy) * width..][first..width];
                let weights = &channel_weights[(ky - self.kys.start) * self.kxs.len()..][..self.kxs.len()];
                let weights = &weights[kxs.start - self.kxs.start..];
                if W > 0 {
                    let weights: &[[T; K]; W] = weights.first_chunk().expect("kernels of this width");
                    for kx in 0..W {
                        tap(s, &mut sums, &x[kx..], stride, &weights[kx]);
                    }
                } else {
                    for (kx, weights) in weights[..kxs.len()].iter().enumerate() {
                        tap(s, &mut sums, &x[kx..], stride, weights);
                    }
                }
            }
            channel_weights = &channel_weights[self.kys.len() * self.kxs.len()..];
        }
        for i in 0..K {
            let y = &mut y[i * y_plane..][..X];
            for j in 0..X {
                s.store(sums[i][j], &mut y[j]);
            }
        }
    }
}

/// Adds one tap to a block: column `j` reads `x[j * stride]`.
#[inline(always)]
fn tap<T: Real, S: Simd<T>, const K: usize, const X: usize>(
    s: S,
    sums: &mut [[S::V; X]; K],
    x: &[T::Lanes],
    stride: usize,
    weights: &[T; K],
) {
    let mut values = [s.zero(); X];
    if stride == 1 {
        let x: &[T::Lanes; X] = x.first_chunk().expect("columns inside the image");
        for j in 0..X {
            values[j] = s.load(&x[j]);
        }
    } else {
        for j in 0..X {
            values[j] = s.load(&x[j * stride]);
        }
    }
    for i in 0..K {
        let weight = s.splat(weights[i]);
        for j in 0..X {
            sums[i][j] = s.mul_add(weight, values[j], sums[i][j]);
        }
    }
}
