//! The maximum of a window in registers, rectified, and its place.

use crate::max_pool::lanes::better;
use crate::real::Real;
use crate::simd::Simd;

/// Writes the maximum of a window, or zero if that is larger, and its place, or `none` if it is not positive.
#[inline(always)]
pub(super) fn rectify<T: Real, S: Simd<T>>(
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

/// Writes the largest of the four values of a window, or zero if that is larger, and its place, or 4 if it is
/// not positive.
#[inline(always)]
pub(crate) fn largest<T: Real, S: Simd<T>>(s: S, values: [S::V; 4], y: &mut T::Lanes, arg: &mut T::Bytes) {
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

/// The same, if none of them is NaN: the place is that of the first value that equals the maximum. Of two
/// zeros the earlier counts.
#[inline(always)]
pub(super) fn largest_number<T: Real, S: Simd<T>>(
    s: S,
    values: [S::V; 4],
    y: &mut T::Lanes,
    arg: &mut T::Bytes,
) {
    let [a, b, c, d] = values;
    let maximum = s.max(s.max(d, c), s.max(b, a));
    let place = s.select_bytes(s.eq(c, maximum), s.splat_bytes(2), s.splat_bytes(3));
    let place = s.select_bytes(s.eq(b, maximum), s.splat_bytes(1), place);
    let place = s.select_bytes(s.eq(a, maximum), s.splat_bytes(0), place);
    rectify(s, (maximum, place), s.splat_bytes(4), y, arg);
}
