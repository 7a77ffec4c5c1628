//! One number of any element type, so that numbers of different types can be compared.

use dahl_runtime::array::{Comparable, Distance};
use std::fmt;

/// A number as it is in a file. Nothing is rounded: two of them are equal if they are the same number.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// An integer; also true (1) and false (0).
    Integer(i128),
    /// A floating-point number, and the type it was in.
    Real(f64, Grid),
}

/// The floating-point numbers of a type, among which steps (ULP) are counted. The coarsest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grid {
    /// The upper half of an `f32`.
    BF16,
    /// IEEE half precision.
    F16,
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

impl Grid {
    /// Bits of the fraction, and the exponent of the smallest normal number.
    fn fraction_and_exponent(self) -> (u32, i32) {
        match self {
            Grid::BF16 => (7, -126),
            Grid::F16 => (10, -14),
            Grid::F32 => (23, -126),
            Grid::F64 => (52, -1022),
        }
    }

    /// The number of this type at or below a magnitude, counted from zero. The count goes on beyond the
    /// largest number.
    fn place(self, magnitude: f64) -> i128 {
        let (fraction, smallest) = self.fraction_and_exponent();
        let bits = magnitude.to_bits();
        if self == Grid::F64 {
            return i128::from(bits);
        }
        let exponent = (bits >> 52) as i32 - 1023;
        if exponent < smallest {
            // All steps are equal down there; scaling by a power of two is exact.
            let scale = f64::from_bits(((1023 + fraction as i32 - smallest) as u64) << 52);
            return (magnitude * scale) as i128;
        }
        let steps = i128::from(exponent - smallest + 1) << fraction;
        steps + i128::from((bits & ((1 << 52) - 1)) >> (52 - fraction))
    }

    /// Steps between two finite numbers.
    fn steps(self, a: f64, b: f64) -> u64 {
        let place = |x: f64| if x.is_sign_negative() { -self.place(-x) } else { self.place(x) };
        // Numbers that differ are at least a step apart, also those that lie between two of a coarser type.
        let least = u64::from(a != b);
        u64::try_from(place(a).abs_diff(place(b))).unwrap_or(u64::MAX).max(least)
    }
}

impl Value {
    /// The same number among those of the coarser type, for two that are compared.
    pub(super) fn graded(self, other: Value) -> Value {
        match (self, other) {
            (Value::Real(x, own), Value::Real(_, other)) => Value::Real(x, own.min(other)),
            _ => self,
        }
    }

    /// This number as an `f64`, if that is exact.
    pub(super) fn exact(self) -> Option<f64> {
        match self {
            Value::Real(x, _) => Some(x),
            Value::Integer(i) => Some(i as f64).filter(|&x| x as i128 == i),
        }
    }

    /// The integer that this number is, if it is one of a size that can be told.
    fn integer(self) -> Option<i128> {
        match self {
            Value::Integer(i) => Some(i),
            Value::Real(x, _) => (x.trunc() == x && x.abs() < 1e30).then_some(x as i128),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Real(a, _), Value::Real(b, _)) => a == b,
            _ => self.integer().is_some() && self.integer() == other.integer(),
        }
    }
}

impl Comparable for Value {
    fn distance(self, other: Value) -> Distance {
        if self == other {
            return Distance::default();
        }
        let (a, b) = (self.nearest(), other.nearest());
        if !a.is_finite() || !b.is_finite() {
            return Distance { absolute: f64::INFINITY, relative: f64::INFINITY, ulps: u64::MAX };
        }
        let scale = a.abs().max(b.abs());
        let steps = match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => u64::try_from(a.abs_diff(b)).unwrap_or(u64::MAX),
            (Value::Real(_, grid), Value::Integer(_)) | (Value::Integer(_), Value::Real(_, grid)) => {
                grid.steps(a, b)
            }
            (Value::Real(_, own), Value::Real(_, other)) => own.min(other).steps(a, b),
        };
        let absolute = match (self.integer(), other.integer()) {
            // Large integers may differ by less than their nearest floating-point numbers can tell.
            (Some(a), Some(b)) => a.abs_diff(b) as f64,
            _ => (a - b).abs(),
        };
        let relative = if absolute.is_finite() { absolute / scale } else { (a / scale - b / scale).abs() };
        Distance { absolute, relative, ulps: steps.max(1) }
    }

    fn nearest(self) -> f64 {
        match self {
            Value::Integer(i) => i as f64,
            Value::Real(x, _) => x,
        }
    }

    fn is_same(self, other: Value) -> bool {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => a == b,
            (Value::Real(a, _), Value::Real(b, _)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    /// As few digits as tell the number from its neighbours in its type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Integer(i) => write!(f, "{i}"),
            // From f32 on down, the digits of an f32 are enough.
            Value::Real(x, grid) if grid != Grid::F64 && f64::from(x as f32) == x => {
                write!(f, "{:?}", x as f32)
            }
            Value::Real(x, _) => write!(f, "{x:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_runtime::array::{Element, Tolerance, compare_pairs};

    fn steps(a: Value, b: Value) -> u64 {
        a.distance(b).ulps
    }

    #[test]
    fn steps_are_those_of_the_type() {
        for bits in [0u32, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7f00_0000] {
            for n in [0, 1, 5, 1 << 22] {
                let (a, b) = (f32::from_bits(bits), f32::from_bits(bits + n));
                for (a, b) in [(a, b), (-b, a), (-a, -b)] {
                    let single = |x: f32| Value::Real(f64::from(x), Grid::F32);
                    assert_eq!(steps(single(a), single(b)), a.ulps(b), "{a:e} {b:e}");
                }
            }
        }
        let half = |x: f64| Value::Real(x, Grid::F16);
        assert_eq!(steps(half(1.0), half(1.0 + 2.0 / 1024.0)), 2);
        assert_eq!(steps(half(0.0), half(6.103_515_625e-5)), 1024);
        assert_eq!(steps(Value::Real(1.0, Grid::BF16), Value::Real(1.0078125, Grid::BF16)), 1);
        assert_eq!(steps(Value::Integer(-5), Value::Integer(7)), 12);
    }

    #[test]
    fn numbers_of_different_types_are_compared_as_numbers() {
        let (single, double) = (|x: f64| Value::Real(x, Grid::F32), |x: f64| Value::Real(x, Grid::F64));
        assert_eq!(single(0.5), double(0.5));
        assert_ne!(single(f64::from(0.1f32)), double(0.1));
        assert_eq!(steps(single(f64::from(0.1f32)), double(0.1)), 1, "less than a step is a step");
        assert_eq!(steps(double(1e300), single(1.0)), steps(single(1.0), double(1e300)));
        assert_eq!(Value::Integer(3), double(3.0));
        // Beyond 53 bits.
        let large = 1i128 << 53;
        assert_eq!(Value::Integer(large), double(large as f64));
        assert_ne!(Value::Integer(large + 1), double(large as f64));
        assert_eq!(Value::Integer(large + 1).distance(double(large as f64)).absolute, 1.0);
        assert_eq!(
            (Value::Integer(large).exact(), Value::Integer(large + 1).exact()),
            (Some(large as f64), None)
        );
        let found =
            compare_pairs(&[1], [(Value::Integer(large + 1), double(large as f64))], Tolerance::EXACT);
        assert!(!found.agrees());
        assert_ne!(Value::Integer(1), double(f64::NAN));
        assert_ne!(Value::Integer(0), double(f64::INFINITY));
    }

    #[test]
    fn numbers_are_shown_in_their_type() {
        assert_eq!(Value::Real(f64::from(0.1f32), Grid::F32).to_string(), "0.1");
        assert_eq!(Value::Real(f64::from(0.1f32), Grid::F64).to_string(), "0.10000000149011612");
        assert_eq!(Value::Real(f64::NAN, Grid::F16).to_string(), "NaN");
        assert_eq!(Value::Integer(-3).to_string(), "-3");
    }
}
