//! Convolution, rectifier and pool: the sums of one sample, then their maxima.

use super::{Flat, SampleElements, SampleOrder};
use crate::conv2d_relu_max_pool::largest;
use crate::convolve::Convolution;
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::load_some;
use std::ops::Range;

/// The maxima of a convolution of few samples.
pub(crate) struct Pool<'a, 'b, T: Real> {
    pub(crate) convolution: &'a Convolution<'b, T>,
    pub(crate) flat: &'a Flat,
    /// Stride and size of the pool.
    pub(crate) stride: usize,
    pub(crate) size: usize,
    /// Windows along rows and columns.
    pub(crate) n_windows: [usize; 2],
    pub(crate) scratch: &'a mut [T::Lanes],
    pub(crate) y: &'a mut [T],
    pub(crate) arg: &'a mut [u8],
}

impl<T: Real> Kernel<T> for Pool<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let Pool { convolution, flat, stride, size, n_windows: [n_down, n_across], scratch, y, arg } = self;
        let (order, len) = (convolution.order, convolution.n_outputs * n_down * n_across);
        if order == SampleOrder::Lanes {
            // Lanes without a sample become zero.
            y.fill(T::default());
            arg.fill(0);
        }
        for sample in 0..convolution.n_samples {
            let place = order.place::<T>(sample, len);
            let sums = T::flat(convolution.flat_outputs(s, flat, sample, scratch));
            let planes = sums.chunks_exact(flat.n_vectors * T::LANES).take(convolution.n_outputs);
            for (k, plane) in planes.enumerate() {
                for py in 0..n_down {
                    let rows = &plane[py * stride * flat.pitch..];
                    let windows = (k * n_down + py) * n_across..(k * n_down + py + 1) * n_across;
                    if size == 2 && stride == 2 {
                        pairs(s, rows, flat.pitch, (place, windows), y, arg);
                        continue;
                    }
                    for (px, at) in windows.map(|window| place.at(window)).enumerate() {
                        (y[at], arg[at]) = place_of_largest(&rows[px * stride..], flat.pitch, size);
                    }
                }
            }
        }
    }
}

/// Windows of 2 side by side: those that begin at each of a vector of neighbours, of which every second is
/// wanted.
#[inline(always)]
fn pairs<T: Real, S: Simd<T>>(
    s: S,
    rows: &[T],
    pitch: usize,
    (place, windows): (SampleElements, Range<usize>),
    y: &mut [T],
    arg: &mut [u8],
) {
    let (mut maxima, mut places) = (T::ZERO_LANES, T::ZERO_BYTES);
    for (v, first) in windows.clone().step_by(T::LANES / 2).enumerate() {
        let mut values = [s.zero(); 4];
        for i in 0..4 {
            values[i] = load_some(s, &rows[v * T::LANES + i / 2 * pitch + i % 2..]);
        }
        largest(s, values, &mut maxima, &mut places);
        for (i, window) in (first..windows.end.min(first + T::LANES / 2)).enumerate() {
            y[place.at(window)] = maxima.as_ref()[2 * i];
            arg[place.at(window)] = places.as_ref()[2 * i];
        }
    }
}

/// The maximum of a window, or zero if that is larger, and its place, or `size * size` if it is not positive.
#[inline(always)]
fn place_of_largest<T: Real>(window: &[T], pitch: usize, size: usize) -> (T, u8) {
    let mut best = (window[0], 0);
    for qy in 0..size {
        for (qx, &value) in window[qy * pitch..][..size].iter().enumerate() {
            if value > best.0 || value.is_nan() {
                best = (value, qy * size + qx);
            }
        }
    }
    let rectified = if T::default() > best.0 { T::default() } else { best.0 };
    let place = if rectified > T::default() { best.1 } else { size * size };
    (rectified, place as u8)
}
