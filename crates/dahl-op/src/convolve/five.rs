//! Rows of five taps by fewer multiplications: two neighbouring outputs need seven products instead of ten.
//!
//! Three of the taps are taken as in `reduced/`, four products for six, and the other two with three for four:
//!
//! ```text
//! p0 = (d0 - d2) g0                     p1 = (d3 - d4) g3
//! p2 = (d1 + d2) (g0 + g1 + g2) / 2     p3 =    d4     (g3 + g4)
//! p4 = (d2 - d1) (g0 - g1 + g2) / 2
//! p5 = (d1 - d3) g2                     p6 = (d4 - d5) g4
//!
//! y0 = (p0 + p1) + (p2 + p3) + p4       y1 = (p2 + p3) - p4 - (p5 + p6)
//! ```
//!
//! The seven products end in four sums, so that over channels and along both axes, 49 products are 16 chains of multiply-adds. All
//! factors but the halves are one or minus one: nothing is rounded that would not have to be, but the sums and differences.
//!
//! The same products, read the other way round, are the gradients: what multiplies a pixel or a tap above goes to it.

use crate::real::Real;
use crate::simd::Simd;

/// Products of a row.
pub(crate) const PRODUCTS: usize = 7;

/// Pixels under a row of two outputs.
pub(crate) const PIXELS: usize = 6;

/// Which of four sums each product belongs to.
pub(crate) const SUM_OF: [usize; PRODUCTS] = [0, 0, 1, 1, 2, 3, 3];

/// What five taps are in the products.
#[inline(always)]
pub(crate) fn of_taps<T: Real, S: Simd<T>>(s: S, g: [S::V; 5]) -> [S::V; PRODUCTS] {
    let half = s.splat(T::from_f64(0.5));
    let ends = s.add(g[0], g[2]);
    let [sum, difference] = [s.mul(half, s.add(ends, g[1])), s.mul(half, s.sub(ends, g[1]))];
    [g[0], g[3], sum, s.add(g[3], g[4]), difference, g[2], g[4]]
}

/// What six pixels are in the products.
#[inline(always)]
pub(crate) fn of_pixels<T: Real, S: Simd<T>>(s: S, d: [S::V; PIXELS]) -> [S::V; PRODUCTS] {
    [
        s.sub(d[0], d[2]),
        s.sub(d[3], d[4]),
        s.add(d[1], d[2]),
        d[4],
        s.sub(d[2], d[1]),
        s.sub(d[1], d[3]),
        s.sub(d[4], d[5]),
    ]
}

/// What the gradients of two outputs are for the four sums; that of the last is to be subtracted.
#[inline(always)]
pub(crate) fn of_gradients<T: Real, S: Simd<T>>(s: S, [a, b]: [S::V; 2]) -> [S::V; 4] {
    [a, s.add(a, b), s.sub(a, b), b]
}

/// The gradients of six pixels from those of the products, of which the last two are to be subtracted.
#[inline(always)]
pub(crate) fn to_pixels<T: Real, S: Simd<T>>(s: S, p: [S::V; PRODUCTS]) -> [S::V; PIXELS] {
    [
        p[0],
        s.sub(s.sub(p[2], p[4]), p[5]),
        s.sub(s.add(p[2], p[4]), p[0]),
        s.add(p[1], p[5]),
        s.sub(s.sub(p[3], p[1]), p[6]),
        p[6],
    ]
}

/// The gradients of five taps from those of the products, of which the last two are to be subtracted.
#[inline(always)]
pub(crate) fn to_taps<T: Real, S: Simd<T>>(s: S, p: [S::V; PRODUCTS]) -> [S::V; 5] {
    let half = s.splat(T::from_f64(0.5));
    let ends = s.mul(half, s.add(p[2], p[4]));
    [
        s.add(p[0], ends),
        s.mul(half, s.sub(p[2], p[4])),
        s.sub(ends, p[5]),
        s.add(p[1], p[3]),
        s.sub(p[3], p[6]),
    ]
}

/// Values like those of images, weights and gradients in training, the same every time: what rounding is measured with.
#[cfg(test)]
pub(crate) fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| uniform() + uniform() + uniform()).collect()
}
