//! Integer intervals under affine equations: what the values of some axes say about the others.
//!
//! [`propagate`] narrows intervals until every equation agrees with them at its bounds; it works in both
//! directions and never loses a solution. That alone is not tight when windows have gaps (a dilation that
//! shares a factor with the stride, say), so [`hull`] also checks that each end of an interval belongs to a
//! solution.

/// Indices and products of extents and coefficients stay below this, so that sums of them cannot overflow.
pub(super) const MAX_INDEX: i128 = 1 << 52;

/// The integers from `lo` to `hi`, both included; none if `lo > hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub lo: i64,
    pub hi: i64,
}

impl Interval {
    pub fn point(value: i64) -> Self {
        Interval { lo: value, hi: value }
    }

    pub fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    pub fn intersection(self, other: Interval) -> Interval {
        Interval { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    pub fn contains(self, other: Interval) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }
}

/// `left = sum(axis * coefficient) + constant`, with coefficients of at least 1.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub left: usize,
    pub terms: Vec<(usize, i64)>,
    pub constant: i64,
}

impl Affine {
    /// Every axis of the equation.
    pub fn axes(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.left).chain(self.terms.iter().map(|&(axis, _)| axis))
    }

    /// The interval of the right-hand side; `None` if it goes beyond [`MAX_INDEX`].
    pub fn right(&self, at: impl Fn(usize) -> Interval) -> Option<Interval> {
        let end = |pick: fn(Interval) -> i64| {
            let products =
                self.terms.iter().map(|&(axis, factor)| i128::from(factor) * i128::from(pick(at(axis))));
            let sum = products.sum::<i128>() + i128::from(self.constant);
            i64::try_from(sum).ok().filter(|_| sum.abs() <= MAX_INDEX)
        };
        Some(Interval { lo: end(|interval| interval.lo)?, hi: end(|interval| interval.hi)? })
    }

    /// The interval of the right-hand side, within what binding has found not to overflow.
    fn sum(&self, at: &[Interval]) -> Interval {
        self.terms.iter().fold(Interval::point(self.constant), |sum, &(axis, factor)| Interval {
            lo: sum.lo + factor * at[axis].lo,
            hi: sum.hi + factor * at[axis].hi,
        })
    }
}

/// Narrows the intervals to a fixpoint of all equations. False if no solution is left.
pub(super) fn propagate(equations: &[Affine], at: &mut [Interval]) -> bool {
    if equations.iter().flat_map(Affine::axes).any(|axis| at[axis].is_empty()) {
        return false;
    }
    loop {
        let mut changed = false;
        for equation in equations {
            let mut narrow = |at: &mut [Interval], axis: usize, to: Interval| {
                let narrowed = at[axis].intersection(to);
                changed |= narrowed != at[axis];
                at[axis] = narrowed;
                !narrowed.is_empty()
            };
            let right = equation.sum(at);
            if !narrow(at, equation.left, right) {
                return false;
            }
            let left = at[equation.left];
            for &(axis, factor) in &equation.terms {
                let right = equation.sum(at);
                let (others_lo, others_hi) =
                    (right.lo - factor * at[axis].lo, right.hi - factor * at[axis].hi);
                // Rounding inwards: the first multiple of the factor that is large enough, the last that is
                // small enough.
                let lo = -(others_hi - left.lo).div_euclid(factor);
                let hi = (left.hi - others_lo).div_euclid(factor);
                if !narrow(at, axis, Interval { lo, hi }) {
                    return false;
                }
            }
        }
        if !changed {
            return true;
        }
    }
}

/// The smallest interval that holds every value which `axis` takes in a solution; `None` if there is no
/// solution.
///
/// The equations should be those connected to the axis, because each unconnected one multiplies the search.
pub(super) fn hull(equations: &[Affine], at: &[Interval], axis: usize) -> Option<Interval> {
    let mut at = at.to_vec();
    if !propagate(equations, &mut at) {
        return None;
    }
    let Interval { lo, hi } = at[axis];
    let solvable = |value: &i64| {
        let mut at = at.clone();
        at[axis] = Interval::point(*value);
        is_solvable(equations, &mut at)
    };
    let lo = (lo..=hi).find(solvable)?;
    let hi = (lo..=hi).rev().find(solvable)?;
    Some(Interval { lo, hi })
}

/// Whether the equations have a solution within these intervals, by trying the values of the narrowest axis.
/// After propagation the first try succeeds in all but odd cases.
fn is_solvable(equations: &[Affine], at: &mut [Interval]) -> bool {
    if !propagate(equations, at) {
        return false;
    }
    let open = equations.iter().flat_map(Affine::axes).filter(|&axis| at[axis].lo < at[axis].hi);
    let Some(axis) = open.min_by_key(|&axis| at[axis].hi - at[axis].lo) else {
        return true;
    };
    (at[axis].lo..=at[axis].hi).any(|value| {
        let mut at = at.to_vec();
        at[axis] = Interval::point(value);
        is_solvable(equations, &mut at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All solutions by brute force, as the hull of each axis.
    fn brute(equations: &[Affine], at: &[Interval]) -> Vec<Option<Interval>> {
        let mut hulls: Vec<Option<Interval>> = vec![None; at.len()];
        let mut values: Vec<i64> = at.iter().map(|interval| interval.lo).collect();
        if at.iter().any(|interval| interval.is_empty()) {
            return hulls;
        }
        loop {
            let holds = |e: &Affine| {
                let right: i64 = e.terms.iter().map(|&(axis, factor)| factor * values[axis]).sum();
                values[e.left] == right + e.constant
            };
            if equations.iter().all(holds) {
                for (hull, &v) in hulls.iter_mut().zip(&values) {
                    let old = hull.unwrap_or(Interval::point(v));
                    *hull = Some(Interval { lo: old.lo.min(v), hi: old.hi.max(v) });
                }
            }
            let Some(axis) = (0..at.len()).find(|&axis| values[axis] < at[axis].hi) else {
                return hulls;
            };
            values[axis] += 1;
            for (value, interval) in values[..axis].iter_mut().zip(at) {
                *value = interval.lo;
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn hulls_of_two_chained_equations_are_exact(
            factors in proptest::array::uniform4(1i64..5),
            constants in proptest::array::uniform2(-4i64..3),
            los in proptest::array::uniform5(-3i64..6),
            lens in proptest::array::uniform5(-1i64..7),
        ) {
            let equations = [
                Affine { left: 0, terms: vec![(1, factors[0]), (2, factors[1])], constant: constants[0] },
                Affine { left: 1, terms: vec![(3, factors[2]), (4, factors[3])], constant: constants[1] },
            ];
            let at: Vec<Interval> = (0..5).map(|i| Interval { lo: los[i], hi: los[i] + lens[i] }).collect();
            let expected = brute(&equations, &at);
            for (axis, expected) in expected.iter().enumerate() {
                proptest::prop_assert_eq!(hull(&equations, &at, axis), *expected);
            }
        }
    }

    #[test]
    fn a_gap_between_dilated_windows_is_seen() {
        // 2*oy + 2*ky never is odd, whatever the bounds say.
        let equations = [Affine { left: 0, terms: vec![(1, 2), (2, 2)], constant: 0 }];
        let mut at = vec![Interval { lo: 0, hi: 9 }; 3];
        at[0] = Interval::point(5);
        assert_eq!(hull(&equations, &at, 1), None);
    }
}
