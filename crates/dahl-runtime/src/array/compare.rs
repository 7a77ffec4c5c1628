//! Comparing numbers as numbers: how far apart they are, and where they differ first and most.
//!
//! Guards, slices, and whatever else has a [`Distance`] ([`Comparable`]) are compared alike. A NaN agrees
//! with nothing unless asked to, and an infinity only with itself: one step to an overflow is not a rounding
//! error.

use super::Element;
use super::values::{Values, common_shape};
use crate::error::{Result, at_caller};
use std::fmt;

/// A number that can be compared with another one: every [`Element`], and what other crates add.
pub trait Comparable: Copy + PartialEq + fmt::Display {
    /// How far two are apart: nothing if they are equal, more than nothing in every respect if they are not.
    fn distance(self, other: Self) -> Distance;

    /// The nearest `f64`, by which a NaN and an infinity are recognised.
    fn nearest(self) -> f64;

    /// Whether both have the same bits.
    fn is_same(self, other: Self) -> bool;
}

impl<T: Element> Comparable for T {
    fn distance(self, other: T) -> Distance {
        Distance::between(self, other)
    }

    fn nearest(self) -> f64 {
        self.widen()
    }

    fn is_same(self, other: T) -> bool {
        self.same_bits(other)
    }
}

/// How far two numbers may be apart. A pair agrees if it is within any one of the bounds.
///
/// Equal numbers always agree, and so do the two zeros. An infinity agrees with itself only, however large
/// the bounds are. A NaN agrees with nothing, unless [`Tolerance::or_nan`] lets it agree with another NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    absolute: f64,
    relative: f64,
    ulps: u64,
    nan: bool,
    bits: bool,
}

impl Tolerance {
    /// Only equal numbers agree.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0, ulps: 0, nan: false, bits: false };

    /// Only the same bits agree: the zeros differ, a NaN agrees with the same NaN.
    pub const SAME_BITS: Tolerance = Tolerance { bits: true, ..Tolerance::EXACT };

    /// Numbers agree whose difference is at most this.
    pub const fn absolute(bound: f64) -> Self {
        Tolerance { absolute: bound, ..Tolerance::EXACT }
    }

    /// Numbers agree whose difference is at most this share of the larger magnitude.
    pub const fn relative(bound: f64) -> Self {
        Tolerance { relative: bound, ..Tolerance::EXACT }
    }

    /// Numbers agree that are at most this many representable numbers apart.
    pub const fn ulps(bound: u64) -> Self {
        Tolerance { ulps: bound, ..Tolerance::EXACT }
    }

    /// Also those whose difference is at most this; what is relative makes no sense close to zero.
    pub const fn or_absolute(self, bound: f64) -> Self {
        Tolerance { absolute: bound, ..self }
    }

    /// Also those whose difference is at most this share of the larger magnitude.
    pub const fn or_relative(self, bound: f64) -> Self {
        Tolerance { relative: bound, ..self }
    }

    /// Also those that are at most this many representable numbers apart.
    pub const fn or_ulps(self, bound: u64) -> Self {
        Tolerance { ulps: bound, ..self }
    }

    /// Also a NaN and a NaN.
    pub const fn or_nan(self) -> Self {
        Tolerance { nan: true, ..self }
    }

    fn allows<T: Comparable>(&self, actual: T, expected: T, distance: &Distance) -> bool {
        if self.bits {
            return actual.is_same(expected);
        }
        let (a, b) = (actual.nearest(), expected.nearest());
        if a.is_nan() || b.is_nan() {
            return self.nan && a.is_nan() && b.is_nan();
        }
        // Between infinity and anything else there is no finite distance, and there are few steps in between.
        let is_near = distance.absolute <= self.absolute
            || distance.relative <= self.relative
            || distance.ulps <= self.ulps;
        actual == expected || (a.is_finite() && b.is_finite() && is_near)
    }

    /// How many times further apart than allowed; with nothing allowed, the number of steps.
    fn excess(&self, distance: &Distance) -> f64 {
        if distance.relative.is_infinite() {
            return f64::INFINITY;
        }
        let share = |value: f64, bound: f64| if bound > 0.0 { value / bound } else { f64::INFINITY };
        let least = share(distance.absolute, self.absolute)
            .min(share(distance.relative, self.relative))
            .min(share(distance.ulps as f64, self.ulps as f64));
        let has_bound = self.absolute > 0.0 || self.relative > 0.0 || self.ulps > 0;
        if has_bound { least } else { distance.ulps as f64 }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits {
            return f.write_str("the same bits");
        }
        let mut bounds = Vec::new();
        if self.absolute > 0.0 {
            bounds.push(format!("{:e} absolute", self.absolute));
        }
        if self.relative > 0.0 {
            bounds.push(format!("{:e} relative", self.relative));
        }
        if self.ulps > 0 {
            bounds.push(format!("{} ULP", self.ulps));
        }
        match bounds.is_empty() {
            true => f.write_str("equal numbers"),
            false => write!(f, "within {}", bounds.join(" or ")),
        }
    }
}

/// How far two numbers are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// The difference.
    pub absolute: f64,
    /// The difference as a share of the larger magnitude.
    pub relative: f64,
    /// Steps from one representable number to the next ([`Element::ulps`]).
    pub ulps: u64,
}

impl Distance {
    /// From one number to another: nothing if they are equal, as far as can be if one of them is a NaN or if
    /// they differ and one is infinite.
    pub fn between<T: Element>(a: T, b: T) -> Self {
        let (x, y) = (a.widen(), b.widen());
        if a == b {
            return Distance::default();
        }
        let absolute = (x - y).abs();
        if !x.is_finite() || !y.is_finite() {
            return Distance { absolute: f64::INFINITY, relative: f64::INFINITY, ulps: a.ulps(b) };
        }
        let scale = x.abs().max(y.abs());
        // The difference of two huge numbers may overflow; their share of it does not.
        let relative = if absolute.is_finite() { absolute / scale } else { (x / scale - y / scale).abs() };
        Distance { absolute, relative, ulps: a.ulps(b) }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Distance { absolute, relative, ulps } = self;
        write!(f, "{absolute:.3e} absolute, {relative:.3e} relative, ")?;
        match *ulps {
            u64::MAX => f.write_str("not comparable"),
            ulps => write!(f, "{ulps} ULP"),
        }
    }
}

/// One pair that does not agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch<T> {
    /// Where it is, slowest dimension first.
    pub index: Vec<usize>,
    /// What came.
    pub actual: T,
    /// What was expected.
    pub expected: T,
    /// How far they are apart.
    pub distance: Distance,
}

impl<T: Comparable> fmt::Display for Mismatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { index, actual, expected, distance } = self;
        write!(f, "at {index:?}: {actual}, expected {expected} ({distance})")
    }
}

/// What [`compare`] found. It prints as a short report.
#[derive(Clone, Debug)]
pub struct Comparison<T> {
    /// What was asked for.
    pub tolerance: Tolerance,
    /// Pairs.
    pub n: usize,
    /// Pairs that do not agree.
    pub n_mismatches: usize,
    /// The first pair that does not agree, if there is one.
    pub first: Option<Mismatch<T>>,
    /// The pair that is furthest beyond the tolerance, if there is one.
    pub worst: Option<Mismatch<T>>,
    /// The largest distances of all pairs, each by itself, whether they agree or not.
    pub largest: Distance,
}

impl<T> Comparison<T> {
    /// Whether all pairs agree.
    pub fn agrees(&self) -> bool {
        self.n_mismatches == 0
    }
}

impl<T: Comparable> fmt::Display for Comparison<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { tolerance, n, n_mismatches, first, worst, largest } = self;
        let (Some(first), Some(worst)) = (first, worst) else {
            return write!(f, "all {n} elements agree ({tolerance}); largest distances: {largest}");
        };
        writeln!(f, "{n_mismatches} of {n} elements do not agree ({tolerance})")?;
        writeln!(f, "  first {first}")?;
        if worst != first {
            writeln!(f, "  worst {worst}")?;
        }
        write!(f, "  largest distances: {largest}")
    }
}

/// Compares what came with what was expected, element by element. Fails if the shapes differ; a slice fits
/// every shape with as many elements.
///
/// ```
/// # use dahl_runtime::{Runtime, machine::Machine};
/// # fn main() -> dahl_runtime::Result<()> {
/// use dahl_runtime::array::{Tolerance, compare};
/// # let runtime = Runtime::new(&Machine::with_workers(1))?;
/// let x = runtime.owned_from([2, 2], &[1.0f32, 2.0, 3.0, 4.5])?;
/// let found = compare(&x.read()?, &[1.0, 2.001, 3.0, 4.0], Tolerance::relative(1e-6))?;
/// assert_eq!(found.n_mismatches, 2);
/// assert_eq!(found.first.map(|mismatch| mismatch.index), Some(vec![0, 1]));
/// assert_eq!(found.worst.map(|mismatch| mismatch.index), Some(vec![1, 1]));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn compare<T: Element>(
    actual: &(impl Values<T> + ?Sized),
    expected: &(impl Values<T> + ?Sized),
    tolerance: Tolerance,
) -> Result<Comparison<T>> {
    let shape = at_caller(common_shape(actual, expected))?;
    let pairs = actual.values().copied().zip(expected.values().copied());
    Ok(compare_pairs(&shape, pairs, tolerance))
}

/// Compares pairs of what came and what was expected. They have the order of an array with these extents,
/// last dimension fastest.
pub fn compare_pairs<T: Comparable>(
    extents: &[usize],
    pairs: impl IntoIterator<Item = (T, T)>,
    tolerance: Tolerance,
) -> Comparison<T> {
    let mut found = Comparison {
        tolerance,
        n: 0,
        n_mismatches: 0,
        first: None,
        worst: None,
        largest: Distance::default(),
    };
    let mut worst = 0.0;
    for (position, (actual, expected)) in pairs.into_iter().enumerate() {
        found.n += 1;
        let distance = actual.distance(expected);
        let agrees = tolerance.allows(actual, expected, &distance);
        // Two NaNs that agree are not far apart, whatever their distance.
        if !agrees || !actual.nearest().is_nan() {
            let largest = &mut found.largest;
            largest.absolute = largest.absolute.max(distance.absolute);
            largest.relative = largest.relative.max(distance.relative);
            largest.ulps = largest.ulps.max(distance.ulps);
        }
        if agrees {
            continue;
        }
        found.n_mismatches += 1;
        let excess = tolerance.excess(&distance);
        if found.worst.is_none() || excess > worst {
            worst = excess;
            let index = index_of(extents, position);
            found.worst = Some(Mismatch { index, actual, expected, distance });
        }
        if found.first.is_none() {
            found.first.clone_from(&found.worst);
        }
    }
    found
}

/// The index of an element by its number, last dimension fastest.
fn index_of(shape: &[usize], position: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    let mut rest = position;
    for (index, extent) in index.iter_mut().zip(shape.iter()).rev() {
        *index = rest % extent;
        rest /= extent;
    }
    index
}

/// Panics with a report if what came does not agree with what was expected, or has another shape.
///
/// ```should_panic
/// use dahl_runtime::array::{Tolerance, assert_close};
/// assert_close(&[1.0f32, 2.0], &[1.0, 2.5], Tolerance::ulps(4));
/// ```
#[track_caller]
pub fn assert_close<T: Element>(
    actual: &(impl Values<T> + ?Sized),
    expected: &(impl Values<T> + ?Sized),
    tolerance: Tolerance,
) {
    match compare(actual, expected, tolerance) {
        Ok(found) => assert!(found.agrees(), "{found}"),
        Err(error) => panic!("{error}"),
    }
}
