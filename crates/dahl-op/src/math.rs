//! Exponential and logarithm of our own: the bits of libm's depend on the machine and its version.
//!
//! Both are free of branches, so that the compiler vectorises a loop over them, and every operation in them
//! is exact or rounded by the IEEE rules, so that vectorising changes no bit. Relative errors stay below
//! 2e-16 for `f64` and 1 ulp for `f32`, subnormal results of `exp` included; infinities, zeros and NaN come
//! out as in C.

/// The type-dependent halves of both functions: same formula, other constants.
macro_rules! exp_ln {
    ($exp:ident, $ln:ident, $real:ident, $bits:ident, $mantissa:literal, $bias:literal,
     exp: $overflow:literal, $underflow:literal, $inverse_factorials:expr,
     ln: $subnormal_shift:literal, $odd_inverses:expr, ln2: $ln2_high:literal, $ln2_low:literal) => {
        /// `e^x`: with `x = n ln 2 + r`, the Taylor series of `e^r` scaled by `2^n`.
        #[inline(always)]
        pub(crate) fn $exp(x: $real) -> $real {
            // Beyond these bounds the result is infinity or zero anyway; comparisons let NaN pass.
            let x = if x > $overflow { $overflow } else { x };
            let x = if x < $underflow { $underflow } else { x };
            // Adding 1.5 * 2^mantissa leaves the rounded integer in the low bits.
            let shift = 1.5 * (1u64 << $mantissa) as $real;
            let shifted = x.mul_add(std::f64::consts::LOG2_E as $real, shift);
            let n = shifted - shift;
            let r = n.mul_add(-$ln2_low, n.mul_add(-$ln2_high, x));
            let series: [$real; _] = $inverse_factorials;
            let mut tail = series[0];
            for &coefficient in &series[1..] {
                tail = tail.mul_add(r, coefficient);
            }
            let power = 1.0 + (r * r).mul_add(tail, r);
            // Two factors, because 2^n itself may be out of range where the result is subnormal or overflows.
            let n = shifted.to_bits().wrapping_sub(shift.to_bits());
            let half = ((n as <$real as Signed>::Int) >> 1) as $bits;
            let scale = |n: $bits| $real::from_bits(n.wrapping_add($bias) << $mantissa);
            power * scale(half) * scale(n.wrapping_sub(half))
        }

        /// `ln x`: with `x = 2^n (1 + f)`, `1 + f` within a factor √2 of 1, and `s = f / (2 + f)`, the series
        /// of `ln(1 + f) = 2 atanh(s) = f - (f²/2 - s (f²/2 + R(s²)))`, in which only small terms are
        /// rounded.
        #[inline(always)]
        pub(crate) fn $ln(x: $real) -> $real {
            let is_tiny = x < $real::MIN_POSITIVE;
            let normal = if is_tiny { x * (1u64 << $subnormal_shift) as $real } else { x };
            // Subtracting the bits of √½ makes the exponent change where 1 + f passes √½ instead of 1.
            let root: $bits = (std::f64::consts::FRAC_1_SQRT_2 as $real).to_bits();
            let above = normal.to_bits().wrapping_sub(root);
            let exponent = (above as <$real as Signed>::Int) >> $mantissa;
            let fraction = (above & ((1 << $mantissa) - 1)).wrapping_add(root);
            let n = exponent as $real - if is_tiny { $subnormal_shift as $real } else { 0.0 };
            let f = $real::from_bits(fraction) - 1.0;
            let s = f / (2.0 + f);
            let z = s * s;
            let series: [$real; _] = $odd_inverses;
            let mut rest = series[0];
            for &coefficient in &series[1..] {
                rest = rest.mul_add(z, coefficient);
            }
            let half_square = 0.5 * f * f;
            let small = half_square - s.mul_add((z * rest) + half_square, n * $ln2_low);
            let finite = n.mul_add($ln2_high, f - small);
            let result = if x == 0.0 { $real::NEG_INFINITY } else { finite };
            let result = if x < 0.0 { $real::NAN } else { result };
            if x < $real::INFINITY { result } else { x }
        }
    };
}

/// The signed integer as wide as a floating-point type.
trait Signed {
    type Int;
}
impl Signed for f32 {
    type Int = i32;
}
impl Signed for f64 {
    type Int = i64;
}

exp_ln!(exp_f32, ln_f32, f32, u32, 23, 127,
    exp: 89.0, -104.0,
    [1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5],
    ln: 25, [2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0],
    ln2: 0.693_145_75, 1.428_606_8e-6);

exp_ln!(exp_f64, ln_f64, f64, u64, 52, 1023,
    exp: 710.0, -746.0,
    [1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0, 1.0 / 39_916_800.0, 1.0 / 3_628_800.0, 1.0 / 362_880.0,
     1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5],
    ln: 54, [2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0,
     2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0],
    ln2: 0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative error of `ours` in units of the last place of `exact`, or 0 where both are the same special
    /// value.
    fn error_f32(ours: f32, exact: f64) -> f64 {
        let expected = exact as f32;
        if ours.to_bits() == expected.to_bits() || ours.is_nan() && exact.is_nan() {
            return 0.0;
        }
        let ulp = f64::from(expected.next_up() - expected).max(f64::from(f32::from_bits(1)));
        ((f64::from(ours) - exact) / ulp).abs()
    }

    /// Error of `ours` relative to `exact`, which the standard library has rounded to half a unit itself.
    fn error_f64(ours: f64, exact: f64) -> f64 {
        if ours == exact || ours.is_nan() && exact.is_nan() {
            return 0.0;
        }
        // Subnormal results are spaced wider than their relative precision.
        (ours - exact).abs() / exact.abs().max(f64::MIN_POSITIVE)
    }

    #[test]
    fn f32_functions_are_within_an_ulp() {
        let (mut exp, mut ln) = (0.0f64, 0.0f64);
        // Every 997th bit pattern: all exponents, both signs, infinities and NaN.
        for bits in (0..=u32::MAX).step_by(997) {
            let x = f32::from_bits(bits);
            exp = exp.max(error_f32(exp_f32(x), f64::from(x).exp()));
            ln = ln.max(error_f32(ln_f32(x), f64::from(x).ln()));
        }
        for i in 0..400_000 {
            let x = (i - 200_000) as f32 * 1e-3 * 0.53;
            exp = exp.max(error_f32(exp_f32(x), f64::from(x).exp()));
            let x = 0.5 + i as f32 * 4e-6;
            ln = ln.max(error_f32(ln_f32(x), f64::from(x).ln()));
        }
        assert!(exp < 1.0 && ln < 1.0, "errors in ulp: exp {exp}, ln {ln}");
    }

    #[test]
    fn f64_functions_are_within_2e_16() {
        let (mut exp, mut ln) = (0.0f64, 0.0f64);
        let mut bits = 1u64;
        for i in 0..1_000_000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let unit = (bits >> 11) as f64 / (1u64 << 53) as f64;
            let x = (unit - 0.5) * if i % 2 == 0 { 3.0 } else { 1500.0 };
            exp = exp.max(error_f64(exp_f64(x), x.exp()));
            let y = if i % 2 == 0 { 0.25 + 2.0 * unit } else { f64::from_bits(bits >> 1) };
            ln = ln.max(error_f64(ln_f64(y), y.ln()));
        }
        // 1.2e-16 of this is the rounding of the standard library's own result.
        assert!(exp < 3.2e-16 && ln < 3.2e-16, "relative errors: exp {exp}, ln {ln}");
    }

    #[test]
    fn special_values_come_out_as_in_c() {
        let inf = f64::INFINITY;
        assert_eq!((exp_f64(inf), exp_f64(-inf), exp_f64(0.0), exp_f64(-0.0)), (inf, 0.0, 1.0, 1.0));
        assert_eq!((exp_f64(709.7), exp_f64(709.8)), (709.7f64.exp(), inf));
        assert_eq!((exp_f64(-745.1), exp_f64(-745.2)), (f64::from_bits(1), 0.0));
        assert_eq!((ln_f64(inf), ln_f64(0.0), ln_f64(-0.0), ln_f64(1.0)), (inf, -inf, -inf, 0.0));
        assert!(exp_f64(f64::NAN).is_nan() && ln_f64(f64::NAN).is_nan() && ln_f64(-1.0).is_nan());
        assert!(ln_f64(-inf).is_nan());
        let inf = f32::INFINITY;
        assert_eq!((exp_f32(inf), exp_f32(-inf), exp_f32(0.0)), (inf, 0.0, 1.0));
        assert_eq!((ln_f32(inf), ln_f32(0.0), ln_f32(1.0)), (inf, -inf, 0.0));
        assert!(exp_f32(f32::NAN).is_nan() && ln_f32(f32::NAN).is_nan() && ln_f32(-inf).is_nan());
    }
}
