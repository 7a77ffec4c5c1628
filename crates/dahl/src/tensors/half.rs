//! The two kinds of 16-bit floating-point numbers, as they lie in files. They are read, not computed with.

/// IEEE half precision: 5 bits of exponent, 10 of fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(pub u16);

/// The upper half of an `f32`: 8 bits of exponent, 7 of fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BF16(pub u16);

impl F16 {
    /// The same number.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 >> 15) << 31;
        let (exponent, fraction) = (u32::from(self.0 >> 10 & 0x1f), u32::from(self.0 & 0x3ff));
        let magnitude = match exponent {
            // Below the normal numbers, steps are 2^-24. The product is exact.
            0 => (fraction as f32 * f32::from_bits((127 - 24) << 23)).to_bits(),
            0x1f => 0xff << 23 | fraction << 13,
            _ => (exponent + 127 - 15) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }
}

impl BF16 {
    /// The same number.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bits_are_known_numbers() {
        let halves = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, number) in halves {
            assert_eq!(F16(bits).to_f32(), number, "{bits:04x}");
        }
        assert!(F16(0x7e00).to_f32().is_nan() && F16(0x8000).to_f32().is_sign_negative());
        assert_eq!((BF16(0x3f80).to_f32(), BF16(0xc049).to_f32()), (1.0, -3.140_625));
        assert!(BF16(0x7fc0).to_f32().is_nan());
    }

    #[test]
    fn more_bits_mean_more() {
        for bits in 0..0x7c00u16 {
            assert!(F16(bits).to_f32() < F16(bits + 1).to_f32(), "{bits:04x}");
        }
    }
}
