//! Element types. The type is a value ([`Dtype`]) at boundaries and a type parameter ([`Element`]) in kernels.

use std::fmt;

/// The element type of an array, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// Bytes: images, masks, labels.
    U8,
    /// 32-bit unsigned integers: indices.
    U32,
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F32 | Dtype::U32 => 4,
            Dtype::F64 => 8,
            Dtype::U8 => 1,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::U8 => "u8",
            Dtype::U32 => "u32",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that can be stored in an array. Every bit pattern is a valid value, also all zeros, and there is no
/// padding; that is what lets the runtime hand out zeroed memory as a slice of any element type.
pub trait Element:
    Copy + Default + PartialOrd + fmt::Debug + fmt::Display + Send + Sync + sealed::Sealed + 'static
{
    /// This type as a value.
    const DTYPE: Dtype;
}

macro_rules! element {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

element!(f32 => F32, f64 => F64, u8 => U8, u32 => U32);
