//! Images into lanes: a vector of neighbouring pixels per sample, converted and divided, then a square of
//! pixels by samples transposed in registers, so that reads and writes are both whole vectors.

use super::checked;
use crate::op::real::Real;
use crate::op::simd::{Simd, lanes_kernel};
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
    let divisor = T::from_f64(call.scalar(0));
    let x = T::lanes_mut(x.contiguous());
    if n_pixels == 0 {
        return Ok(());
    }
    for (samples, group) in index.chunks(T::LANES).zip(x.chunks_exact_mut(n_pixels)) {
        let image = |lane: usize| {
            let entry = samples[lane] as usize - entries.start;
            &pixels[entry * n_pixels..][..n_pixels]
        };
        let mut rows = T::ZERO_BLOCK;
        let whole = n_pixels - n_pixels % T::LANES;
        for at in (0..whole).step_by(T::LANES) {
            for (lane, row) in rows.as_mut().iter_mut().enumerate().take(samples.len()) {
                let pixels = s.widen(s.load_bytes(&T::bytes(&image(lane)[at..])[0]));
                s.store(s.div(pixels, s.splat(divisor)), row);
            }
            s.transpose(&rows, T::block_mut(&mut group[at..]));
        }
        for (at, to) in group.iter_mut().enumerate().skip(whole) {
            for lane in 0..samples.len() {
                to.as_mut()[lane] = T::from_f64(f64::from(image(lane)[at])) / divisor;
            }
        }
    }
    Ok(())
}
