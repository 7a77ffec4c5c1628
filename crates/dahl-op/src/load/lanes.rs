//! Images into lanes: squares of neighbouring pixels by samples are transposed while they are bytes, then
//! converted and divided, so that reads and writes are both whole vectors.
//!
//! A division takes as long as ten other operations, so a pixel is multiplied by the divisor's inverse, and
//! what the result lacks is added. Whether that rounds as the division does, is tried on all 256 bytes first.

use super::checked;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(load, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (images, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut x = call.output::<T>(0);
    let first_sample = index.region().lo()[0];
    let entries = images.region().range(0);
    let n_pixels: usize = images.region().shape()[1..].iter().product();
    let (pixels, index) = (images.contiguous(), index.contiguous());
    for (i, &entry) in index.iter().enumerate() {
        checked(entry, first_sample + i, &entries)?;
    }
    let divisor = Divisor::new(s, T::from_f64(call.scalar(0)));
    let x = T::lanes_mut(x.contiguous());
    if n_pixels == 0 {
        return Ok(());
    }
    for (samples, group) in index.chunks(T::LANES).zip(x.chunks_exact_mut(n_pixels)) {
        let image = |lane: usize| {
            let entry = samples[lane] as usize - entries.start;
            &pixels[entry * n_pixels..][..n_pixels]
        };
        let whole = n_pixels - n_pixels % T::LANES;
        for at in (0..whole).step_by(T::LANES) {
            let mut square = [T::ZERO_BYTES; 16];
            for lane in 0..samples.len() {
                square[lane] = T::bytes(&image(lane)[at..])[0];
            }
            s.transpose_bytes(&mut square);
            for (bytes, to) in square.iter().zip(&mut group[at..at + T::LANES]) {
                s.store(divisor.quotient(s, s.widen(s.load_bytes(bytes))), to);
            }
        }
        for (at, to) in group.iter_mut().enumerate().skip(whole) {
            for lane in 0..samples.len() {
                to.as_mut()[lane] = T::from_f64(f64::from(image(lane)[at])) / divisor.value;
            }
        }
    }
    Ok(())
}

/// What pixels are divided by.
#[derive(Clone, Copy)]
pub(super) struct Divisor<T> {
    pub(super) value: T,
    /// Whether multiplication with the inverse gives the same for all bytes.
    is_invertible: bool,
}

impl<T: Real> Divisor<T> {
    #[inline(always)]
    pub(super) fn new<S: Simd<T>>(s: S, value: T) -> Self {
        let mut divisor = Divisor { value, is_invertible: true };
        for first in (0..256).step_by(T::LANES) {
            let mut bytes = T::ZERO_LANES;
            for (lane, byte) in bytes.as_mut().iter_mut().enumerate() {
                *byte = T::from_f64((first + lane) as f64);
            }
            let bytes = s.load(&bytes);
            let is_same = s.eq(divisor.divide(s, bytes), divisor.multiply(s, bytes));
            let mut differs = T::ZERO_LANES;
            s.store(s.select(is_same, s.zero(), s.splat(T::from_f64(1.0))), &mut differs);
            divisor.is_invertible &= differs.as_ref().iter().all(|&lane| lane == T::default());
        }
        divisor
    }

    /// The quotients of a vector of pixels.
    #[inline(always)]
    pub(super) fn quotient<S: Simd<T>>(&self, s: S, pixels: S::V) -> S::V {
        if self.is_invertible { self.multiply(s, pixels) } else { self.divide(s, pixels) }
    }

    #[inline(always)]
    fn divide<S: Simd<T>>(&self, s: S, pixels: S::V) -> S::V {
        s.div(pixels, s.splat(self.value))
    }

    #[inline(always)]
    fn multiply<S: Simd<T>>(&self, s: S, pixels: S::V) -> S::V {
        let inverse = s.splat(T::from_f64(1.0) / self.value);
        let quotient = s.mul(pixels, inverse);
        let rest = s.mul_add(quotient, s.splat(-self.value), pixels);
        s.mul_add(rest, inverse, quotient)
    }
}
