//! Vectors as plain arrays: for machines without the instruction sets that have a file of their own.
//!
//! Arithmetic is called and not inlined. Sixteen lanes of scalars in the place of every operation of every
//! kernel were two fifths of all code and of the time to compile it, and a multiply-add calls a function per
//! lane anyway where there is no instruction for it.

use super::Simd;
use crate::real::Float;
use std::array::from_fn;

/// Plain arrays; every machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain;

macro_rules! plain {
    ($real:ident, $lanes:literal) => {
        impl Simd<$real> for Plain {
            type V = [$real; $lanes];
            type M = [bool; $lanes];
            type B = [u8; $lanes];
            const ACCUMULATORS: usize = 6;

            #[inline(always)]
            fn splat(self, value: $real) -> Self::V {
                [value; $lanes]
            }

            #[inline(always)]
            fn load(self, from: &[$real; $lanes]) -> Self::V {
                *from
            }

            #[inline(always)]
            fn store(self, value: Self::V, to: &mut [$real; $lanes]) {
                *to = value;
            }

            #[inline(never)]
            fn add(self, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| a[i] + b[i])
            }

            #[inline(never)]
            fn sub(self, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| a[i] - b[i])
            }

            #[inline(never)]
            fn mul(self, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| a[i] * b[i])
            }

            #[inline(never)]
            fn sqrt(self, a: Self::V) -> Self::V {
                a.map($real::sqrt)
            }

            #[inline(never)]
            fn div(self, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| a[i] / b[i])
            }

            #[inline(never)]
            fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                from_fn(|i| a[i].fused(b[i], c[i]))
            }

            #[inline(never)]
            fn gt(self, a: Self::V, b: Self::V) -> Self::M {
                from_fn(|i| a[i] > b[i])
            }

            #[inline(never)]
            fn max(self, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
            }

            #[inline(never)]
            fn eq(self, a: Self::V, b: Self::V) -> Self::M {
                from_fn(|i| a[i] == b[i])
            }

            #[inline(never)]
            fn beats(self, a: Self::V, b: Self::V) -> Self::M {
                from_fn(|i| a[i] > b[i] || a[i].is_nan())
            }

            #[inline(never)]
            fn any_nan(self, a: Self::V, b: Self::V) -> bool {
                a.iter().chain(&b).any(|value| value.is_nan())
            }

            #[inline(never)]
            fn select(self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V {
                from_fn(|i| if mask[i] { a[i] } else { b[i] })
            }

            #[inline(always)]
            fn splat_bytes(self, value: u8) -> Self::B {
                [value; $lanes]
            }

            #[inline(always)]
            fn load_bytes(self, from: &[u8; $lanes]) -> Self::B {
                *from
            }

            #[inline(always)]
            fn store_bytes(self, value: Self::B, to: &mut [u8; $lanes]) {
                *to = value;
            }

            #[inline(never)]
            fn eq_bytes(self, a: Self::B, b: Self::B) -> Self::M {
                from_fn(|i| a[i] == b[i])
            }

            #[inline(never)]
            fn select_bytes(self, mask: Self::M, a: Self::B, b: Self::B) -> Self::B {
                from_fn(|i| if mask[i] { a[i] } else { b[i] })
            }

            #[inline(never)]
            fn widen(self, bytes: Self::B) -> Self::V {
                bytes.map($real::from)
            }

            #[inline(never)]
            fn transpose(self, from: &[[$real; $lanes]; $lanes], to: &mut [[$real; $lanes]; $lanes]) {
                *to = from_fn(|i| from_fn(|j| from[j][i]));
            }
        }
    };
}

plain!(f32, 16);
plain!(f64, 8);
