//! Images one after another: vectors of neighbouring pixels.

use super::checked;
use super::lanes::Divisor;
use crate::real::Real;
use crate::simd::{Simd, lanes_kernel};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

lanes_kernel!(load, body);

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>) -> Result<()> {
    let (images, index) = (call.input::<u8>(0), call.input::<u32>(1));
    let mut x = call.output::<T>(0);
    let entries = images.region().range(0);
    let n_pixels: usize = images.region().shape()[1..].iter().product();
    let divisor = Divisor::new(s, T::from_f64(call.scalar(0)));
    let (pixels, x) = (images.contiguous(), x.contiguous());
    for (i, &entry) in index.contiguous().iter().enumerate() {
        let entry = checked(entry, index.region().lo()[0] + i, &entries)? - entries.start;
        let (from, to) = (&pixels[entry * n_pixels..][..n_pixels], &mut x[i * n_pixels..][..n_pixels]);
        for (bytes, to) in T::bytes(from).iter().zip(T::lanes_mut(to)) {
            s.store(divisor.quotient(s, s.widen(s.load_bytes(bytes))), to);
        }
        let whole = n_pixels / T::LANES * T::LANES;
        for (&byte, to) in from[whole..].iter().zip(&mut to[whole..]) {
            *to = T::from_f64(f64::from(byte)) / divisor.value;
        }
    }
    Ok(())
}
