//! Vectors as one AVX-512 register.

#![expect(unsafe_code, reason = "vector instructions, whose presence an `Avx512` value proves")]

use super::{Kernel, Simd};
use crate::real::Real;
use std::arch::x86_64::*;

/// Proof that the machine has the AVX-512 instructions used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The proof, where the machine has the instructions.
    pub(super) fn detect() -> Option<Self> {
        let is_present = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        is_present.then_some(Avx512(()))
    }

    /// Runs a kernel compiled for these instructions.
    pub(crate) fn run<T: Real, K: Kernel<T>>(self, kernel: K) -> K::Output
    where
        Self: Simd<T>,
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn compiled<T: Real, K: Kernel<T>>(kernel: K, s: Avx512) -> K::Output
        where
            Avx512: Simd<T>,
        {
            kernel.run(s)
        }
        // SAFETY: `self` proves that the machine has the instructions (`detect` is the only constructor).
        unsafe { compiled(kernel, self) }
    }
}

/// The methods that differ between `f32` and `f64` in nothing but the names of the instructions.
macro_rules! common {
    ($real:ident, $lanes:literal, $v:ident, $m:ident, $set1:ident, $load:ident, $store:ident, $add:ident,
     $sub:ident, $mul:ident, $sqrt:ident, $div:ident, $fma:ident, $max:ident, $compare:ident, $blend:ident) => {
        type V = $v;
        type M = $m;
        type B = __m128i;
        const ACCUMULATORS: usize = 24;

        #[inline(always)]
        fn splat(self, value: $real) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $set1(value) }
        }

        #[inline(always)]
        fn load(self, from: &[$real; $lanes]) -> $v {
            // SAFETY: `self` proves that the machine has the instruction; the array is as long as the vector.
            unsafe { $load(from.as_ptr()) }
        }

        #[inline(always)]
        fn store(self, value: $v, to: &mut [$real; $lanes]) {
            // SAFETY: `self` proves that the machine has the instruction; the array is as long as the vector.
            unsafe { $store(to.as_mut_ptr(), value) }
        }

        #[inline(always)]
        fn add(self, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $add(a, b) }
        }

        #[inline(always)]
        fn sub(self, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $sub(a, b) }
        }

        #[inline(always)]
        fn mul(self, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $mul(a, b) }
        }

        #[inline(always)]
        fn sqrt(self, a: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $sqrt(a) }
        }

        #[inline(always)]
        fn div(self, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $div(a, b) }
        }

        #[inline(always)]
        fn mul_add(self, a: $v, b: $v, c: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $fma(a, b, c) }
        }

        #[inline(always)]
        fn gt(self, a: $v, b: $v) -> $m {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $compare::<_CMP_GT_OQ>(a, b) }
        }

        #[inline(always)]
        fn max(self, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $max(a, b) }
        }

        #[inline(always)]
        fn eq(self, a: $v, b: $v) -> $m {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $compare::<_CMP_EQ_OQ>(a, b) }
        }

        #[inline(always)]
        fn beats(self, a: $v, b: $v) -> $m {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $compare::<_CMP_GT_OQ>(a, b) | $compare::<_CMP_UNORD_Q>(a, a) }
        }

        #[inline(always)]
        fn any_nan(self, a: $v, b: $v) -> bool {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $compare::<_CMP_UNORD_Q>(a, b) != 0 }
        }

        #[inline(always)]
        fn select(self, mask: $m, a: $v, b: $v) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $blend(mask, b, a) }
        }

        #[inline(always)]
        fn splat_bytes(self, value: u8) -> __m128i {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { _mm_set1_epi8(value.cast_signed()) }
        }

        #[inline(always)]
        fn eq_bytes(self, a: __m128i, b: __m128i) -> $m {
            // SAFETY: `self` proves that the machine has the instruction. The low bits are the lanes there
            // are.
            unsafe { _mm_cmpeq_epi8_mask(a, b) as $m }
        }

        #[inline(always)]
        fn select_bytes(self, mask: $m, a: __m128i, b: __m128i) -> __m128i {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { _mm_mask_blend_epi8(mask.into(), b, a) }
        }
    };
}

impl Simd<f32> for Avx512 {
    common!(
        f32,
        16,
        __m512,
        __mmask16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_sqrt_ps,
        _mm512_div_ps,
        _mm512_fmadd_ps,
        _mm512_max_ps,
        _mm512_cmp_ps_mask,
        _mm512_mask_blend_ps
    );

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 16]) -> __m128i {
        // SAFETY: `self` proves that the machine has the instruction; the array is as long as the load.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_bytes(self, value: __m128i, to: &mut [u8; 16]) {
        // SAFETY: `self` proves that the machine has the instruction; the array is as long as the store.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
    }

    #[inline(always)]
    fn widen(self, bytes: __m128i) -> __m512 {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)) }
    }

    #[inline(always)]
    fn transpose(self, from: &[[f32; 16]; 16], to: &mut [[f32; 16]; 16]) {
        // SAFETY: `self` proves that the machine has the instructions; rows are as long as vectors.
        unsafe {
            let row = |i: usize| _mm512_loadu_ps(from[i].as_ptr());
            // Pairs of rows, then fours: quarter q of `fours[i][j]` holds column 4q+j of rows 4i..4i+4.
            let mut fours = [[_mm512_setzero_ps(); 4]; 4];
            for (i, four) in fours.iter_mut().enumerate() {
                let low01 = _mm512_castps_pd(_mm512_unpacklo_ps(row(4 * i), row(4 * i + 1)));
                let high01 = _mm512_castps_pd(_mm512_unpackhi_ps(row(4 * i), row(4 * i + 1)));
                let low23 = _mm512_castps_pd(_mm512_unpacklo_ps(row(4 * i + 2), row(4 * i + 3)));
                let high23 = _mm512_castps_pd(_mm512_unpackhi_ps(row(4 * i + 2), row(4 * i + 3)));
                *four = [
                    _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23)),
                    _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23)),
                    _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23)),
                    _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23)),
                ];
            }
            // Then the 4x4 square of quarters: columns j, j+4, j+8, j+12 from the four `fours[..][j]`.
            for j in 0..4 {
                let (a, b) = (fours[0][j], fours[1][j]);
                let (c, d) = (fours[2][j], fours[3][j]);
                let ab_even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                let ab_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
                let cd_even = _mm512_shuffle_f32x4::<0b10_00_10_00>(c, d);
                let cd_odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(c, d);
                let mut put = |i: usize, v| _mm512_storeu_ps(to[i].as_mut_ptr(), v);
                put(j, _mm512_shuffle_f32x4::<0b10_00_10_00>(ab_even, cd_even));
                put(j + 4, _mm512_shuffle_f32x4::<0b10_00_10_00>(ab_odd, cd_odd));
                put(j + 8, _mm512_shuffle_f32x4::<0b11_01_11_01>(ab_even, cd_even));
                put(j + 12, _mm512_shuffle_f32x4::<0b11_01_11_01>(ab_odd, cd_odd));
            }
        }
    }

    #[inline(always)]
    fn fold(self, vectors: [__m512; 8]) -> __m512 {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            // Quarter q of `fours[i]` is what is left of vector 2q+i.
            let mut fours = [_mm512_setzero_ps(); 2];
            for (i, four) in fours.iter_mut().enumerate() {
                let mut twos = [_mm512_setzero_ps(); 2];
                for (j, two) in twos.iter_mut().enumerate() {
                    let (a, b) = (vectors[4 * j + i], vectors[4 * j + 2 + i]);
                    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
                    *two = _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
                }
                let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(twos[0], twos[1]);
                *four = _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_01_11_01>(twos[0], twos[1]));
            }
            let low = _mm512_shuffle_ps::<0b01_00_01_00>(fours[0], fours[1]);
            _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_10_11_10>(fours[0], fours[1]))
        }
    }

    #[inline(always)]
    fn transpose_bytes(self, square: &mut [[u8; 16]]) {
        super::avx2::transpose_bytes(square);
    }
}

impl Simd<f64> for Avx512 {
    common!(
        f64,
        8,
        __m512d,
        __mmask8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_sqrt_pd,
        _mm512_div_pd,
        _mm512_fmadd_pd,
        _mm512_max_pd,
        _mm512_cmp_pd_mask,
        _mm512_mask_blend_pd
    );

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 8]) -> __m128i {
        // SAFETY: `self` proves that the machine has the instruction; the array is as long as the load.
        unsafe { _mm_loadl_epi64(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_bytes(self, value: __m128i, to: &mut [u8; 8]) {
        // SAFETY: `self` proves that the machine has the instruction; the array is as long as the store.
        unsafe { _mm_storel_epi64(to.as_mut_ptr().cast(), value) }
    }

    #[inline(always)]
    fn widen(self, bytes: __m128i) -> __m512d {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(bytes)) }
    }

    #[inline(always)]
    fn transpose(self, from: &[[f64; 8]; 8], to: &mut [[f64; 8]; 8]) {
        // SAFETY: `self` proves that the machine has the instructions; rows are as long as vectors.
        unsafe {
            let row = |i: usize| _mm512_loadu_pd(from[i].as_ptr());
            // Quarter q of `pairs[i][j]` holds column 2q+j of rows 2i and 2i+1.
            let mut pairs = [[_mm512_setzero_pd(); 2]; 4];
            for (i, pair) in pairs.iter_mut().enumerate() {
                *pair = [
                    _mm512_unpacklo_pd(row(2 * i), row(2 * i + 1)),
                    _mm512_unpackhi_pd(row(2 * i), row(2 * i + 1)),
                ];
            }
            for j in 0..2 {
                let (a, b) = (pairs[0][j], pairs[1][j]);
                let (c, d) = (pairs[2][j], pairs[3][j]);
                let ab_even = _mm512_shuffle_f64x2::<0b10_00_10_00>(a, b);
                let ab_odd = _mm512_shuffle_f64x2::<0b11_01_11_01>(a, b);
                let cd_even = _mm512_shuffle_f64x2::<0b10_00_10_00>(c, d);
                let cd_odd = _mm512_shuffle_f64x2::<0b11_01_11_01>(c, d);
                let mut put = |i: usize, v| _mm512_storeu_pd(to[i].as_mut_ptr(), v);
                put(j, _mm512_shuffle_f64x2::<0b10_00_10_00>(ab_even, cd_even));
                put(j + 2, _mm512_shuffle_f64x2::<0b10_00_10_00>(ab_odd, cd_odd));
                put(j + 4, _mm512_shuffle_f64x2::<0b11_01_11_01>(ab_even, cd_even));
                put(j + 6, _mm512_shuffle_f64x2::<0b11_01_11_01>(ab_odd, cd_odd));
            }
        }
    }

    #[inline(always)]
    fn fold(self, vectors: [__m512d; 8]) -> __m512d {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            // Quarter q of `fours[i]` is what is left of vector 2q+i.
            let mut fours = [_mm512_setzero_pd(); 2];
            for (i, four) in fours.iter_mut().enumerate() {
                let mut twos = [_mm512_setzero_pd(); 2];
                for (j, two) in twos.iter_mut().enumerate() {
                    let (a, b) = (vectors[4 * j + i], vectors[4 * j + 2 + i]);
                    let low = _mm512_shuffle_f64x2::<0b01_00_01_00>(a, b);
                    *two = _mm512_add_pd(low, _mm512_shuffle_f64x2::<0b11_10_11_10>(a, b));
                }
                let low = _mm512_shuffle_f64x2::<0b10_00_10_00>(twos[0], twos[1]);
                *four = _mm512_add_pd(low, _mm512_shuffle_f64x2::<0b11_01_11_01>(twos[0], twos[1]));
            }
            let low = _mm512_unpacklo_pd(fours[0], fours[1]);
            _mm512_add_pd(low, _mm512_unpackhi_pd(fours[0], fours[1]))
        }
    }

    #[inline(always)]
    fn transpose_bytes(self, square: &mut [[u8; 8]]) {
        super::avx2::transpose_few_bytes(square);
    }
}
