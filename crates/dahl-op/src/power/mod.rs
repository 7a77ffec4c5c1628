//! Powers: `y = x^exponent`, with the special cases of C (`x^0 = 1`, a negative `x` has whole powers only).
//! May run in place. Bytes: one element read, one written.
//!
//! Whole exponents up to 64 in magnitude multiply (and then divide 1), so that small powers of whole numbers
//! are exact; a half is the square root. All others are `exp(exponent ln x)` in `f64`, whose relative error
//! grows with the logarithm of the result: a few units in the last place of `f64` up to `10^±3`, less than
//! one of `f32` anywhere.

use super::math::{exp_f64, ln_f64};
use super::real::{Float, Real};
use dahl_runtime::codelet::{Call, Codelet, Draw, Sample, Tolerance};
use std::ops::Mul;

/// `y = x^exponent`; scalars: exponent.
pub static CODELET: Codelet = Codelet::new(
    "power",
    "x[..] -> y[..]",
    8.0,
    super::implementations!(reference, lanes::kernel, 1, [L L], [R R]),
)
.in_place()
.samples(sample);

super::forms! {
    /// `y = x^exponent`.
    power<T, R>(x: [T; R]; scalars exponent) -> (y: [T; R]), init power_init, in_place power_self(x: [T; R])
}

fn sample(draw: &mut Draw) -> Sample {
    let shape = draw.shape();
    let exponent = [2.0, 3.0, -1.0, 0.5, 0.0, 1.7, -2.3, 7.0][draw.below(8)];
    Sample::new(Tolerance::Exact).scalars(&[exponent]).real_in(shape, 0.25..2.0).real(shape)
}

super::elementwise!(map, function);

/// The largest whole exponent that is multiplied out.
const MOST_FACTORS: f64 = 64.0;

#[inline(always)]
fn function<T: Real>(call: &Call<'_>) -> impl Fn(T) -> T {
    let exponent = call.scalar(0);
    let is_whole = exponent.abs() <= MOST_FACTORS && exponent == (exponent as i64) as f64;
    move |x| {
        if is_whole {
            let product = whole_power(x, exponent.abs() as u32);
            return if exponent < 0.0 { T::from_f64(1.0) / product } else { product };
        }
        T::from_f64(real_power(x.widen(), exponent))
    }
}

/// `x` to a whole power, by squaring.
pub fn whole_power<T: Float + Mul<Output = T>>(mut x: T, exponent: impl Into<u64>) -> T {
    let mut exponent: u64 = exponent.into();
    let mut product = T::from_f64(1.0);
    while exponent > 0 {
        if exponent % 2 == 1 {
            product = product * x;
        }
        x = x * x;
        exponent /= 2;
    }
    product
}

fn real_power(x: f64, exponent: f64) -> f64 {
    if exponent == 0.5 {
        // The square root is exact, unlike the general formula. C gives +0 for -0, and infinity for either
        // infinity.
        return if x.is_infinite() { f64::INFINITY } else { (x + 0.0).sqrt() };
    }
    // Beyond 2^53 every number is even, and infinity counts as such.
    let is_whole = exponent == exponent.trunc();
    let is_odd = is_whole && exponent.abs() < 9007199254740992.0 && exponent as i64 % 2 != 0;
    let magnitude = match x.abs() {
        1.0 => 1.0,
        x => exp_f64(exponent * ln_f64(x)),
    };
    match x.is_sign_negative() {
        true if is_odd => -magnitude,
        true if !is_whole && x != 0.0 && x.is_finite() => f64::NAN,
        _ => magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_c() {
        let powers: [(f64, f64, f64); 4] =
            [(2.0, 10.0, 1024.0), (-3.0, 3.0, -27.0), (f64::NAN, 0.0, 1.0), (2.0, -2.0, 0.25)];
        for (x, exponent, expected) in powers {
            let product = whole_power(x, exponent.abs() as u32);
            assert_eq!(if exponent < 0.0 { 1.0 / product } else { product }, expected, "{x}^{exponent}");
        }
        let infinity = f64::INFINITY;
        let powers = [
            (0.0, 1.5, 0.0),
            (0.0, -1.5, infinity),
            (-0.0, 65.0, -0.0),
            (-0.0, -65.0, -infinity),
            (infinity, 1.5, infinity),
            (infinity, -1.5, 0.0),
            (-infinity, 65.0, -infinity),
            (-infinity, 1.5, infinity),
            (-infinity, -1.5, 0.0),
            (-infinity, 0.5, infinity),
            (1.0, infinity, 1.0),
            (0.5, infinity, 0.0),
            (2.0, -infinity, 0.0),
            (4.0, 0.5, 2.0),
            (-1.0, 65.0, -1.0),
        ];
        for (x, exponent, expected) in powers {
            let power = real_power(x, exponent);
            assert!(
                power == expected && power.is_sign_negative() == expected.is_sign_negative(),
                "{x}^{exponent}"
            );
        }
        assert!(real_power(-2.0, 1.5).is_nan() && real_power(f64::NAN, 1.5).is_nan());
        for (x, exponent) in [(0.3, 2.7), (17.0, -1.3), (1.0001, 400.5), (1e-5, 0.7)] {
            let (power, libm) = (real_power(x, exponent), f64::powf(x, exponent));
            assert!((power - libm).abs() <= 4e-15 * libm, "{x}^{exponent} is {power}, not {libm}");
        }
    }
}
