//! Element types. The type is a value ([`Dtype`]) at boundaries and a type parameter ([`Element`]) in
//! kernels.
//!
//! All types are in the list at the end of this file and nowhere else; what must be chosen by a [`Dtype`]
//! goes through [`Dtype::with`].

use std::fmt;

mod sealed {
    pub trait Sealed {}
}

/// A type that can be stored in an array. Every bit pattern is a valid value, also all zeros, and there is no
/// padding; that is what lets the runtime hand out zeroed memory as a slice of any element type.
pub trait Element:
    Copy
    + Default
    + PartialOrd
    + fmt::Debug
    + fmt::Display
    + fmt::LowerExp
    + Send
    + Sync
    + sealed::Sealed
    + 'static
{
    /// This type as a value.
    const DTYPE: Dtype;

    /// The same number, exact for every type but integers beyond 53 bits, of which there is none.
    fn widen(self) -> f64;

    /// Whether both have the same bits: unlike `==`, this tells the zeros apart and recognises a NaN.
    fn same_bits(self, other: Self) -> bool;

    /// How many steps from one representable number to the next lie between two (units in the last place).
    /// The two zeros are the same place, the step after the largest number is infinity, and a NaN is as far
    /// away as can be.
    fn ulps(self, other: Self) -> u64;
}

/// Something that can be made for every element type, to be made for the one that a [`Dtype`] names.
pub trait PerElement {
    /// What is made.
    type Output;

    /// Makes it for elements of type `T`.
    fn of<T: Element>(self) -> Self::Output;
}

macro_rules! elements {
    ($($(#[$doc:meta])* $dtype:ident = $ty:ident, $kind:ident;)*) => {
        /// The element type of an array, as a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Dtype {
            $($(#[$doc])* $dtype,)*
        }

        impl Dtype {
            /// All element types.
            pub const ALL: &[Dtype] = &[$(Dtype::$dtype),*];

            /// Bytes of one element.
            pub const fn bytes(self) -> usize {
                match self {
                    $(Dtype::$dtype => size_of::<$ty>(),)*
                }
            }

            /// Whether kernels compute in it; the others are data, indices and masks.
            pub const fn is_float(self) -> bool {
                match self {
                    $(Dtype::$dtype => elements!(@is_float $kind),)*
                }
            }

            /// Makes something for the element type that this value names.
            pub fn with<P: PerElement>(self, what: P) -> P::Output {
                match self {
                    $(Dtype::$dtype => what.of::<$ty>(),)*
                }
            }
        }

        impl fmt::Display for Dtype {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Dtype::$dtype => stringify!($ty),)*
                })
            }
        }

        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const DTYPE: Dtype = Dtype::$dtype;
                elements!(@methods $kind);
            }
        )*
    };

    (@is_float float) => { true };
    (@is_float integer) => { false };

    (@methods float) => {
        #[inline(always)]
        fn widen(self) -> f64 {
            f64::from(self)
        }
        fn same_bits(self, other: Self) -> bool {
            self.to_bits() == other.to_bits()
        }
        fn ulps(self, other: Self) -> u64 {
            if self.is_nan() || other.is_nan() {
                return u64::MAX;
            }
            // Without the sign, the bits of floating-point numbers are ordered as the numbers are.
            let steps = |x: Self| (x.is_sign_negative(), u64::from(x.abs().to_bits()));
            match (steps(self), steps(other)) {
                ((a, from), (b, to)) if a == b => from.abs_diff(to),
                ((_, from), (_, to)) => from + to,
            }
        }
    };
    (@methods integer) => {
        #[inline(always)]
        fn widen(self) -> f64 {
            f64::from(self)
        }
        fn same_bits(self, other: Self) -> bool {
            self == other
        }
        fn ulps(self, other: Self) -> u64 {
            u64::from(self.abs_diff(other))
        }
    };
}

elements! {
    /// 32-bit floating point.
    F32 = f32, float;
    /// 64-bit floating point.
    F64 = f64, float;
    /// Bytes: images, masks, labels.
    U8 = u8, integer;
    /// 32-bit unsigned integers: indices.
    U32 = u32, integer;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dtype_names_its_type() {
        struct Named;
        impl PerElement for Named {
            type Output = (Dtype, usize);
            fn of<T: Element>(self) -> Self::Output {
                (T::DTYPE, size_of::<T>())
            }
        }
        for &dtype in Dtype::ALL {
            assert_eq!(dtype.with(Named), (dtype, dtype.bytes()));
        }
        assert_eq!(Dtype::U8.to_string(), "u8");
    }

    #[test]
    fn steps_between_numbers_are_counted() {
        assert_eq!(1.0f32.ulps(1.0 + f32::EPSILON), 1);
        assert_eq!(f32::MAX.ulps(f32::INFINITY), 1);
        assert_eq!(0.0f64.ulps(-0.0), 0);
        assert_eq!(f64::from_bits(3).ulps(-f64::from_bits(2)), 5);
        assert_eq!(f64::NEG_INFINITY.ulps(f64::INFINITY), 2 * f64::INFINITY.to_bits());
        assert_eq!(f32::NAN.ulps(f32::NAN), u64::MAX);
        assert_eq!(7u8.ulps(250), 243);
        assert!(f32::NAN.same_bits(f32::NAN) && !0.0f32.same_bits(-0.0) && 3u32.same_bits(3));
    }
}
