//! The floating-point types that codelets compute in: what kernels need beyond [`Element`].

use super::math;
use super::simd::{Kernel, dispatch};
use dahl_runtime::array::Element;
use dahl_runtime::codelet::{Call, Pieces, PiecesMut, View, ViewMut};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// An element type that operations compute in: `f32` or `f64`. Functions have the same bits on every machine.
pub trait Float:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// `self * factor + term`, rounded once.
    fn fused(self, factor: Self, term: Self) -> Self;
    /// The exponential function.
    fn exponential(self) -> Self;
    /// The natural logarithm.
    fn logarithm(self) -> Self;
    /// The square root, rounded as IEEE demands.
    fn square_root(self) -> Self;
}

/// `f32` or `f64`, with the shape of its sample lanes: one cache line of samples side by side.
pub(crate) trait Real: Float {
    /// Samples per group in `Layout::Lanes`: as many as fill a cache line.
    const LANES: usize;
    /// One group's values of one element: `[Self; LANES]`.
    type Lanes: Copy + AsRef<[Self]> + AsMut<[Self]>;
    /// One group's bytes of one element (masks, labels): `[u8; LANES]`.
    type Bytes: Copy + AsRef<[u8]> + AsMut<[u8]>;
    /// A square of values, for transposition: `[[Self; LANES]; LANES]`.
    type Block: Copy + AsRef<[Self::Lanes]> + AsMut<[Self::Lanes]>;

    /// Minus infinity.
    const NEG_INFINITY: Self;
    /// A block of zeros.
    const ZERO_BLOCK: Self::Block;
    /// Lanes of zeros.
    const ZERO_LANES: Self::Lanes;
    /// Bytes of zeros.
    const ZERO_BYTES: Self::Bytes;

    /// The whole number that this is, or the nearest `u32` towards zero.
    fn truncate(self) -> u32;
    /// Whether this is not a number.
    fn is_nan(self) -> bool;
    /// Whether this is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// The nearest whole number, the even one of two.
    fn rounded(self) -> Self;

    /// Memory in lanes, cut into groups' elements.
    fn lanes(data: &[Self]) -> &[Self::Lanes];
    /// Memory in lanes, cut into groups' elements.
    fn lanes_mut(data: &mut [Self]) -> &mut [Self::Lanes];
    /// The values of vectors side by side.
    fn flat(data: &[Self::Lanes]) -> &[Self];
    /// The values of vectors side by side.
    fn flat_mut(data: &mut [Self::Lanes]) -> &mut [Self];
    /// Bytes in lanes, cut into groups' elements.
    fn bytes(data: &[u8]) -> &[Self::Bytes];
    /// Bytes in lanes, cut into groups' elements.
    fn bytes_mut(data: &mut [u8]) -> &mut [Self::Bytes];
    /// The bytes of groups side by side.
    fn flat_bytes(data: &[Self::Bytes]) -> &[u8];

    /// Memory in lanes for a kernel that may work in place.
    fn pieces<'a>(view: &View<'a, Self>) -> Pieces<'a, Self::Lanes>;
    /// Memory in lanes for a kernel that may work in place.
    fn pieces_mut<'a>(view: &'a mut ViewMut<'_, Self>) -> PiecesMut<'a, Self::Lanes>;

    /// The first `LANES` of these as a square.
    fn block(rows: &[Self::Lanes]) -> &Self::Block;

    /// [`Call::map_flat`] in pieces of one lane vector.
    fn map_flat(call: &Call<'_>, f: impl Fn(Self::Lanes) -> Self::Lanes);
    /// [`Call::map2_flat`] in pieces of one lane vector.
    fn map2_flat(call: &Call<'_>, f: impl Fn(Self::Lanes, Self::Lanes) -> Self::Lanes);
    /// Runs a kernel with the best instruction set of this machine.
    fn dispatch<K: Kernel<Self>>(kernel: K) -> K::Output;
}

macro_rules! real {
    ($real:ident, $lanes:literal, $exp:ident, $ln:ident) => {
        impl Float for $real {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $real
            }

            #[inline(always)]
            fn fused(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }

            #[inline(always)]
            fn exponential(self) -> Self {
                math::$exp(self)
            }

            #[inline(always)]
            fn logarithm(self) -> Self {
                math::$ln(self)
            }

            #[inline(always)]
            fn square_root(self) -> Self {
                self.sqrt()
            }
        }

        impl Real for $real {
            const LANES: usize = $lanes;
            type Lanes = [$real; $lanes];
            type Bytes = [u8; $lanes];
            type Block = [[$real; $lanes]; $lanes];

            const NEG_INFINITY: Self = $real::NEG_INFINITY;
            const ZERO_BLOCK: Self::Block = [[0.0; $lanes]; $lanes];
            const ZERO_LANES: Self::Lanes = [0.0; $lanes];
            const ZERO_BYTES: Self::Bytes = [0; $lanes];

            #[inline(always)]
            fn truncate(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
            }

            #[inline(always)]
            fn rounded(self) -> Self {
                self.round_ties_even()
            }

            #[inline(always)]
            fn lanes(data: &[Self]) -> &[Self::Lanes] {
                data.as_chunks().0
            }

            #[inline(always)]
            fn lanes_mut(data: &mut [Self]) -> &mut [Self::Lanes] {
                data.as_chunks_mut().0
            }

            #[inline(always)]
            fn flat(data: &[Self::Lanes]) -> &[Self] {
                data.as_flattened()
            }

            #[inline(always)]
            fn flat_mut(data: &mut [Self::Lanes]) -> &mut [Self] {
                data.as_flattened_mut()
            }

            #[inline(always)]
            fn bytes(data: &[u8]) -> &[Self::Bytes] {
                data.as_chunks().0
            }

            #[inline(always)]
            fn flat_bytes(data: &[Self::Bytes]) -> &[u8] {
                data.as_flattened()
            }

            #[inline(always)]
            fn bytes_mut(data: &mut [u8]) -> &mut [Self::Bytes] {
                data.as_chunks_mut().0
            }

            #[inline(always)]
            fn pieces<'a>(view: &View<'a, Self>) -> Pieces<'a, Self::Lanes> {
                view.pieces()
            }

            #[inline(always)]
            fn pieces_mut<'a>(view: &'a mut ViewMut<'_, Self>) -> PiecesMut<'a, Self::Lanes> {
                view.pieces()
            }

            #[inline(always)]
            fn block(rows: &[Self::Lanes]) -> &Self::Block {
                rows.first_chunk().expect("a square has as many rows as columns")
            }

            #[inline(always)]
            fn map_flat(call: &Call<'_>, f: impl Fn(Self::Lanes) -> Self::Lanes) {
                call.map_flat(f);
            }

            #[inline(always)]
            fn map2_flat(call: &Call<'_>, f: impl Fn(Self::Lanes, Self::Lanes) -> Self::Lanes) {
                call.map2_flat(f);
            }

            fn dispatch<K: Kernel<Self>>(kernel: K) -> K::Output {
                dispatch!($real, kernel)
            }
        }
    };
}

real!(f32, 16, exp_f32, ln_f32);
real!(f64, 8, exp_f64, ln_f64);
