//! Which products end in which sum, and in which order they lie in memory: those of one of the 16 places of a
//! tile side by side, so that its chains run through memory from end to end.

use super::transform::PRODUCTS;

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
pub(super) const fn numbers<const W: usize>() -> [[usize; PRODUCTS]; PRODUCTS] {
    let (firsts, places) = (firsts::<W>(), places::<W>());
    let mut numbers = [[0; PRODUCTS]; PRODUCTS];
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
