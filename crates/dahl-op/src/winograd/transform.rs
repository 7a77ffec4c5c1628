//! The transforms along one axis: of taps, pixels, sums and gradients, for three and for five taps.
//!
//! Three taps `g` over four pixels `d` are F(2, 3), four products for six:
//!
//! ```text
//! m0 = (d0 - d2) g0                     y0 = m0 + m1 + m2
//! m1 = (d1 + d2) (g0 + g1 + g2) / 2     y1 = m1 - m2 - m3
//! m2 = (d2 - d1) (g0 - g1 + g2) / 2
//! m3 = (d1 - d3) g2
//! ```
//!
//! Of five taps three are taken like that, and the other two with three products for four, which makes seven
//! for ten:
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
//! The seven products end in the same four sums as the four of three taps. All factors but the halves are one
//! or minus one: nothing is rounded that would not have to be, but the sums and differences.
//!
//! The same products, read the other way round, are the gradients: what multiplies a pixel or a tap above
//! goes to it.

use crate::real::Real;
use crate::simd::Simd;

/// Products of a row of five taps; three taps have the first [`n_products`] of as many places.
pub(crate) const PRODUCTS: usize = 7;

/// Pixels under a row of two outputs of five taps.
pub(crate) const PIXELS: usize = 6;

/// Which of four sums each product of five taps belongs to.
pub(crate) const SUM_OF: [usize; PRODUCTS] = [0, 0, 1, 1, 2, 3, 3];

/// Products of a row of `W` taps.
pub(super) const fn n_products<const W: usize>() -> usize {
    if W == 3 { 4 } else { PRODUCTS }
}

/// What `W` taps are in the products.
#[inline(always)]
pub(super) fn of_taps<T: Real, S: Simd<T>, const W: usize>(s: S, g: [S::V; 5]) -> [S::V; PRODUCTS] {
    let (half, none) = (s.splat(T::from_f64(0.5)), s.zero());
    let ends = s.add(g[0], g[2]);
    let [sum, difference] = [s.mul(half, s.add(ends, g[1])), s.mul(half, s.sub(ends, g[1]))];
    if W == 3 {
        return [g[0], sum, difference, g[2], none, none, none];
    }
    [g[0], g[3], sum, s.add(g[3], g[4]), difference, g[2], g[4]]
}

/// What `W` by `W` taps are in the products of both axes: first along the inner index of `taps`, then along
/// the outer one. `put` gets the products of the outer axis, for each of those of the inner one.
#[inline(always)]
pub(super) fn of_taps_both<T: Real, S: Simd<T>, const W: usize>(
    s: S,
    taps: [[S::V; 5]; W],
    mut put: impl FnMut(usize, [S::V; PRODUCTS]),
) {
    let mut inner = [[s.zero(); PRODUCTS]; W];
    for i in 0..W {
        inner[i] = of_taps::<T, S, W>(s, taps[i]);
    }
    for product in 0..const { n_products::<W>() } {
        let mut outer = [s.zero(); 5];
        for i in 0..W {
            outer[i] = inner[i][product];
        }
        put(product, of_taps::<T, S, W>(s, outer));
    }
}

/// What the `W + 1` pixels under two outputs are in the products.
#[inline(always)]
pub(super) fn of_pixels<T: Real, S: Simd<T>, const W: usize>(s: S, d: [S::V; PIXELS]) -> [S::V; PRODUCTS] {
    let none = s.zero();
    let [first, sum, difference, last] =
        [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3])];
    if W == 3 {
        return [first, sum, difference, last, none, none, none];
    }
    [first, s.sub(d[3], d[4]), sum, d[4], difference, last, s.sub(d[4], d[5])]
}

/// The two outputs of four sums.
#[inline(always)]
pub(super) fn outputs<T: Real, S: Simd<T>>(s: S, [a, b, c, d]: [S::V; 4]) -> [S::V; 2] {
    [s.add(s.add(a, b), c), s.sub(s.sub(b, c), d)]
}

/// What the gradients of two outputs are for the four sums; that of the last is to be subtracted.
#[inline(always)]
pub(super) fn of_gradients<T: Real, S: Simd<T>>(s: S, [a, b]: [S::V; 2]) -> [S::V; 4] {
    [a, s.add(a, b), s.sub(a, b), b]
}

/// The gradients of six pixels from those of the products of five taps, of which the last two are to be
/// subtracted.
#[inline(always)]
pub(super) fn to_pixels<T: Real, S: Simd<T>>(s: S, p: [S::V; PRODUCTS]) -> [S::V; PIXELS] {
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
pub(super) fn to_taps<T: Real, S: Simd<T>>(s: S, p: [S::V; PRODUCTS]) -> [S::V; 5] {
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
