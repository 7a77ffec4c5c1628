//! The element types that files have. All of them are in the list at the end of this file and nowhere else.

use super::half::{BF16, F16};
use super::value::{Grid, Value};
use crate::memory;
use std::fmt;

pub(super) mod sealed {
    use super::{Data, Value};

    /// What a file does with its numbers.
    pub trait Stored: Copy {
        /// All that are in these bytes, in the byte order that is said; a sentence if there is not enough
        /// memory for them.
        fn decode(bytes: &[u8], is_big_endian: bool) -> Result<Vec<Self>, String>;
        /// Appends its bytes, little endian.
        fn encode(self, bytes: &mut Vec<u8>);
        /// As a number of any type.
        fn value(self) -> Value;
        /// Rounded from `number`, if this is what kernels compute in.
        fn round(number: f64) -> Option<Self>;
        /// Many of them, their type a value.
        fn wrap(values: Vec<Self>) -> Data;
        /// Those values, if they are of this type.
        fn unwrap(data: &Data) -> Option<&[Self]>;
    }
}

/// A type that a tensor in a file can have.
pub trait Number: sealed::Stored + fmt::Debug + Send + Sync + 'static {
    /// This type as a value.
    const DTYPE: Dtype;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $dtype:ident = $ty:ident, $kind:ident, $shown:literal;)*) => {
        /// The element type of a tensor in a file, as a value.
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
        }

        impl fmt::Display for Dtype {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Dtype::$dtype => $shown,)*
                })
            }
        }

        /// The elements of a tensor.
        #[derive(Clone)]
        pub enum Data {
            $(#[doc = $shown] $dtype(Vec<$ty>),)*
        }

        impl Data {
            /// Elements from bytes, of which there must be a whole number of elements.
            pub(super) fn decode(dtype: Dtype, bytes: &[u8], is_big_endian: bool) -> Result<Data, String> {
                Ok(match dtype {
                    $(Dtype::$dtype => Data::$dtype(sealed::Stored::decode(bytes, is_big_endian)?),)*
                })
            }

            /// Elements rounded from `values`; only what kernels compute in.
            pub(super) fn round(dtype: Dtype, values: &[f64]) -> Option<Data> {
                match dtype {
                    $(Dtype::$dtype => round::<$ty>(values).map(Data::$dtype),)*
                }
            }

            /// Appends the bytes of `n` elements from the element `start` on, little endian.
            pub(super) fn encode(&self, start: usize, n: usize, bytes: &mut Vec<u8>) {
                match self {
                    $(Data::$dtype(values) => encode(&values[start..start + n], bytes),)*
                }
            }

            /// The same elements in another order.
            pub(super) fn gather(&self, from: impl Iterator<Item = usize>) -> Result<Data, String> {
                Ok(match self {
                    $(Data::$dtype(values) => {
                        let mut gathered = memory::room(values.len(), "tensors")?;
                        gathered.extend(from.map(|i| values[i]));
                        Data::$dtype(gathered)
                    })*
                })
            }

            pub(super) fn dtype(&self) -> Dtype {
                match self {
                    $(Data::$dtype(_) => Dtype::$dtype,)*
                }
            }

            pub(super) fn len(&self) -> usize {
                match self {
                    $(Data::$dtype(values) => values.len(),)*
                }
            }

            pub(super) fn value(&self, i: usize) -> Value {
                match self {
                    $(Data::$dtype(values) => sealed::Stored::value(values[i]),)*
                }
            }
        }

        $(
            impl Number for $ty {
                const DTYPE: Dtype = Dtype::$dtype;
            }

            impl sealed::Stored for $ty {
                fn decode(bytes: &[u8], is_big_endian: bool) -> Result<Vec<Self>, String> {
                    let (elements, rest) = bytes.as_chunks::<{ size_of::<$ty>() }>();
                    debug_assert!(rest.is_empty(), "a whole number of elements");
                    let from = |bytes: [u8; size_of::<$ty>()]| numbers!(@from $kind $ty bytes);
                    let turned = |mut bytes: [u8; size_of::<$ty>()]| {
                        bytes.reverse();
                        from(bytes)
                    };
                    let mut values = memory::room(elements.len(), "tensors")?;
                    match is_big_endian {
                        true => values.extend(elements.iter().map(|&bytes| turned(bytes))),
                        false => values.extend(elements.iter().map(|&bytes| from(bytes))),
                    }
                    Ok(values)
                }
                fn encode(self, bytes: &mut Vec<u8>) {
                    bytes.extend_from_slice(&numbers!(@to $kind self));
                }
                fn value(self) -> Value {
                    numbers!(@value $kind $dtype self)
                }
                fn round(_number: f64) -> Option<Self> {
                    numbers!(@round $kind $ty _number)
                }
                fn wrap(values: Vec<Self>) -> Data {
                    Data::$dtype(values)
                }
                fn unwrap(data: &Data) -> Option<&[Self]> {
                    match data {
                        Data::$dtype(values) => Some(values),
                        _ => None,
                    }
                }
            }
        )*
    };

    (@from truth $ty:ident $bytes:ident) => { $bytes != [0] };
    (@from half $ty:ident $bytes:ident) => { $ty(u16::from_le_bytes($bytes)) };
    (@from $kind:ident $ty:ident $bytes:ident) => { $ty::from_le_bytes($bytes) };
    (@to truth $self:ident) => { [u8::from($self)] };
    (@to half $self:ident) => { $self.0.to_le_bytes() };
    (@to $kind:ident $self:ident) => { $self.to_le_bytes() };
    (@value float $dtype:ident $self:ident) => { Value::Real(f64::from($self), Grid::$dtype) };
    (@value half $dtype:ident $self:ident) => { Value::Real(f64::from($self.to_f32()), Grid::$dtype) };
    (@value $kind:ident $dtype:ident $self:ident) => { Value::Integer(i128::from($self)) };
    (@round float $ty:ident $number:ident) => { Some($number as $ty) };
    (@round $kind:ident $ty:ident $number:ident) => { None };
}

fn encode<T: Number>(values: &[T], bytes: &mut Vec<u8>) {
    bytes.reserve(values.len() * T::DTYPE.bytes());
    values.iter().for_each(|value| value.encode(bytes));
}

fn round<T: Number>(values: &[f64]) -> Option<Vec<T>> {
    values.iter().map(|&value| T::round(value)).collect()
}

impl From<dahl_runtime::array::Dtype> for Dtype {
    fn from(dtype: dahl_runtime::array::Dtype) -> Dtype {
        use dahl_runtime::array::Dtype as Computed;
        match dtype {
            Computed::F32 => Dtype::F32,
            Computed::F64 => Dtype::F64,
            Computed::U8 => Dtype::U8,
            Computed::U32 => Dtype::U32,
        }
    }
}

numbers! {
    /// True or false, a byte each.
    Bool = bool, truth, "bool";
    /// 8 bits, unsigned.
    U8 = u8, integer, "u8";
    /// 8 bits.
    I8 = i8, integer, "i8";
    /// 16 bits, unsigned.
    U16 = u16, integer, "u16";
    /// 16 bits.
    I16 = i16, integer, "i16";
    /// 32 bits, unsigned.
    U32 = u32, integer, "u32";
    /// 32 bits.
    I32 = i32, integer, "i32";
    /// 64 bits, unsigned.
    U64 = u64, integer, "u64";
    /// 64 bits.
    I64 = i64, integer, "i64";
    /// IEEE half precision.
    F16 = F16, half, "f16";
    /// The upper half of an `f32`.
    BF16 = BF16, half, "bf16";
    /// 32-bit floating point.
    F32 = f32, float, "f32";
    /// 64-bit floating point.
    F64 = f64, float, "f64";
}
