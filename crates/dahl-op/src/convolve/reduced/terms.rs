//! What pixels, taps and sums are in the products of a row of three or five taps, and in which order products lie in memory.

use crate::convolve::five;
use crate::real::Real;
use crate::simd::Simd;

/// Sums per tile, and the one that is added to all four outputs, so that the bias begins there.
pub(super) const PLACES: usize = 16;
pub(super) const ALL: usize = 5;

/// What of a row of pixels is multiplied by what becomes of the taps.
#[derive(Clone, Copy)]
pub(super) enum Term {
    /// The difference, or the sum, of two pixels.
    Difference(usize, usize),
    Sum(usize, usize),
    /// One of them.
    One(usize),
}

pub(super) use Term::{Difference, One, Sum};

/// The products of each of the four sums along an axis of `W` taps.
pub(super) const fn terms<const W: usize>(sum: usize) -> &'static [Term] {
    match (W, sum) {
        (3, 0) => &[Difference(0, 2)],
        (3, 1) => &[Sum(1, 2)],
        (3, 3) => &[Difference(1, 3)],
        (5, 0) => &[Difference(0, 2), Difference(3, 4)],
        (5, 1) => &[Sum(1, 2), One(4)],
        (5, 3) => &[Difference(1, 3), Difference(4, 5)],
        _ => &[Difference(2, 1)],
    }
}

/// Products along an axis.
pub(super) const fn n_products<const W: usize>() -> usize {
    if W == 3 { 4 } else { five::PRODUCTS }
}

/// Where among all 16 or 49 products those of each place begin, and where the last end.
pub(super) const fn places<const W: usize>() -> [usize; PLACES + 1] {
    let mut places = [0; PLACES + 1];
    let mut place = 0;
    while place < PLACES {
        let n = terms::<W>(place / 4).len() * terms::<W>(place % 4).len();
        places[place + 1] = places[place] + n;
        place += 1;
    }
    places
}

/// The first product of each of the four sums along an axis, and where the last ends.
pub(super) const fn firsts<const W: usize>() -> [usize; 5] {
    let mut firsts = [0; 5];
    let mut sum = 0;
    while sum < 4 {
        firsts[sum + 1] = firsts[sum] + terms::<W>(sum).len();
        sum += 1;
    }
    firsts
}

/// Where among all products that of these two along the axes is: place by place.
pub(super) const fn numbers<const W: usize>() -> [[usize; five::PRODUCTS]; five::PRODUCTS] {
    let (firsts, places) = (firsts::<W>(), places::<W>());
    let mut numbers = [[0; five::PRODUCTS]; five::PRODUCTS];
    let mut place = 0;
    while place < PLACES {
        let (row, column, width) = (firsts[place / 4], firsts[place % 4], terms::<W>(place % 4).len());
        let mut i = 0;
        while places[place] + i < places[place + 1] {
            numbers[row + i / width][column + i % width] = places[place] + i;
            i += 1;
        }
        place += 1;
    }
    numbers
}

/// Pixels as the products need them: `W + 1` of them.
#[inline(always)]
pub(super) fn of_pixels<T: Real, S: Simd<T>, const W: usize>(
    s: S,
    d: [S::V; five::PIXELS],
) -> [S::V; five::PRODUCTS] {
    if W == 5 {
        return five::of_pixels(s, d);
    }
    let none = s.zero();
    [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3]), none, none, none]
}

/// Taps as the products need them: `W` of them.
#[inline(always)]
pub(super) fn of_taps<T: Real, S: Simd<T>, const W: usize>(s: S, g: [S::V; 5]) -> [S::V; five::PRODUCTS] {
    if W == 5 {
        return five::of_taps(s, g);
    }
    let (half, none) = (s.splat(T::from_f64(0.5)), s.zero());
    let ends = s.add(g[0], g[2]);
    [g[0], s.mul(half, s.add(ends, g[1])), s.mul(half, s.sub(ends, g[1])), g[2], none, none, none]
}

/// The two outputs of four sums.
#[inline(always)]
pub(super) fn outputs<T: Real, S: Simd<T>>(s: S, [a, b, c, d]: [S::V; 4]) -> [S::V; 2] {
    [s.add(s.add(a, b), c), s.sub(s.sub(b, c), d)]
}
