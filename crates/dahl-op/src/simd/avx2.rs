//! Vectors as two AVX registers.

#![expect(unsafe_code, reason = "vector instructions, whose presence an `Avx2` value proves")]

use super::{Kernel, Simd};
use crate::real::Real;
use std::arch::x86_64::*;

/// Proof that the machine has the AVX2 and FMA instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, where the machine has the instructions.
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Avx2(()))
    }

    /// Runs a kernel compiled for these instructions.
    pub(crate) fn run<T: Real, K: Kernel<T>>(self, kernel: K) -> K::Output
    where
        Self: Simd<T>,
    {
        #[target_feature(enable = "avx2,fma")]
        fn compiled<T: Real, K: Kernel<T>>(kernel: K, s: Avx2) -> K::Output
        where
            Avx2: Simd<T>,
        {
            kernel.run(s)
        }
        // SAFETY: `self` proves that the machine has the instructions (`detect` is the only constructor).
        unsafe { compiled(kernel, self) }
    }
}

/// The methods that differ between `f32` and `f64` in nothing but the names of the instructions.
macro_rules! common {
    ($real:ident, $lanes:literal, $v:ident, $set1:ident, $load:ident, $store:ident, $add:ident, $sub:ident,
     $mul:ident, $sqrt:ident, $div:ident, $fma:ident, $max:ident, $compare:ident, $or:ident, $blend:ident) => {
        type V = [$v; 2];
        type M = [$v; 2];
        // Bytes as numbers: masks are as wide as numbers here, so that selecting needs no conversion.
        type B = [$v; 2];
        const ACCUMULATORS: usize = 6;

        #[inline(always)]
        fn splat(self, value: $real) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$set1(value); 2] }
        }

        #[inline(always)]
        fn load(self, from: &[$real; $lanes]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction; the array is as long as two
            // vectors.
            unsafe { [$load(from.as_ptr()), $load(from.as_ptr().add($lanes / 2))] }
        }

        #[inline(always)]
        fn store(self, value: [$v; 2], to: &mut [$real; $lanes]) {
            // SAFETY: `self` proves that the machine has the instruction; the array is as long as two
            // vectors.
            unsafe {
                $store(to.as_mut_ptr(), value[0]);
                $store(to.as_mut_ptr().add($lanes / 2), value[1]);
            }
        }

        #[inline(always)]
        fn add(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$add(a[0], b[0]), $add(a[1], b[1])] }
        }

        #[inline(always)]
        fn sub(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$sub(a[0], b[0]), $sub(a[1], b[1])] }
        }

        #[inline(always)]
        fn mul(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$mul(a[0], b[0]), $mul(a[1], b[1])] }
        }

        #[inline(always)]
        fn sqrt(self, a: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$sqrt(a[0]), $sqrt(a[1])] }
        }

        #[inline(always)]
        fn div(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$div(a[0], b[0]), $div(a[1], b[1])] }
        }

        #[inline(always)]
        fn mul_add(self, a: [$v; 2], b: [$v; 2], c: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$fma(a[0], b[0], c[0]), $fma(a[1], b[1], c[1])] }
        }

        #[inline(always)]
        fn gt(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$compare::<_CMP_GT_OQ>(a[0], b[0]), $compare::<_CMP_GT_OQ>(a[1], b[1])] }
        }

        #[inline(always)]
        fn max(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$max(a[0], b[0]), $max(a[1], b[1])] }
        }

        #[inline(always)]
        fn eq(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$compare::<_CMP_EQ_OQ>(a[0], b[0]), $compare::<_CMP_EQ_OQ>(a[1], b[1])] }
        }

        #[inline(always)]
        fn beats(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instructions.
            unsafe {
                let low = $or($compare::<_CMP_GT_OQ>(a[0], b[0]), $compare::<_CMP_UNORD_Q>(a[0], a[0]));
                let high = $or($compare::<_CMP_GT_OQ>(a[1], b[1]), $compare::<_CMP_UNORD_Q>(a[1], a[1]));
                [low, high]
            }
        }

        #[inline(always)]
        fn select(self, mask: [$v; 2], a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { [$blend(b[0], a[0], mask[0]), $blend(b[1], a[1], mask[1])] }
        }

        #[inline(always)]
        fn splat_bytes(self, value: u8) -> [$v; 2] {
            Simd::<$real>::splat(self, value.into())
        }

        #[inline(always)]
        fn eq_bytes(self, a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            Simd::<$real>::eq(self, a, b)
        }

        #[inline(always)]
        fn select_bytes(self, mask: [$v; 2], a: [$v; 2], b: [$v; 2]) -> [$v; 2] {
            Simd::<$real>::select(self, mask, a, b)
        }

        #[inline(always)]
        fn widen(self, bytes: [$v; 2]) -> [$v; 2] {
            bytes
        }
    };
}

impl Simd<f32> for Avx2 {
    common!(
        f32,
        16,
        __m256,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_sqrt_ps,
        _mm256_div_ps,
        _mm256_fmadd_ps,
        _mm256_max_ps,
        _mm256_cmp_ps,
        _mm256_or_ps,
        _mm256_blendv_ps
    );

    #[inline(always)]
    fn any_nan(self, a: [__m256; 2], b: [__m256; 2]) -> bool {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            let low = _mm256_cmp_ps::<_CMP_UNORD_Q>(a[0], b[0]);
            let high = _mm256_cmp_ps::<_CMP_UNORD_Q>(a[1], b[1]);
            _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0
        }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 16]) -> [__m256; 2] {
        // SAFETY: `self` proves that the machine has the instructions; the array is as long as the load.
        unsafe {
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            let low = _mm256_cvtepu8_epi32(bytes);
            let high = _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(bytes));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        }
    }

    #[inline(always)]
    fn store_bytes(self, value: [__m256; 2], to: &mut [u8; 16]) {
        // SAFETY: `self` proves that the machine has the instructions; the array is as long as the store.
        unsafe {
            let (a, b) = (_mm256_cvtps_epi32(value[0]), _mm256_cvtps_epi32(value[1]));
            let low = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            let high = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256::<1>(b));
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm_packus_epi16(low, high));
        }
    }

    #[inline(always)]
    fn transpose(self, from: &[[f32; 16]; 16], to: &mut [[f32; 16]; 16]) {
        // Four 8x8 squares, each from the rows that its columns become.
        for (top, left) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            // SAFETY: `self` proves that the machine has the instructions; each access of 8 values starts at
            // column 0 or 8 of a row of 16.
            unsafe {
                // Half h of `fours[i][j]` holds column 4h+j of rows 4i..4i+4 of the square.
                let mut fours = [[_mm256_setzero_ps(); 4]; 2];
                for (i, four) in fours.iter_mut().enumerate() {
                    let row = |r: usize| _mm256_loadu_ps(from[top + 4 * i + r].as_ptr().add(left));
                    let low01 = _mm256_castps_pd(_mm256_unpacklo_ps(row(0), row(1)));
                    let high01 = _mm256_castps_pd(_mm256_unpackhi_ps(row(0), row(1)));
                    let low23 = _mm256_castps_pd(_mm256_unpacklo_ps(row(2), row(3)));
                    let high23 = _mm256_castps_pd(_mm256_unpackhi_ps(row(2), row(3)));
                    *four = [
                        _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23)),
                        _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23)),
                        _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23)),
                        _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23)),
                    ];
                }
                for j in 0..4 {
                    let mut put = |i: usize, v| _mm256_storeu_ps(to[left + i].as_mut_ptr().add(top), v);
                    put(j, _mm256_permute2f128_ps::<0x20>(fours[0][j], fours[1][j]));
                    put(j + 4, _mm256_permute2f128_ps::<0x31>(fours[0][j], fours[1][j]));
                }
            }
        }
    }

    #[inline(always)]
    fn fold(self, vectors: [[__m256; 2]; 8]) -> [__m256; 2] {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            let half = |i: usize| _mm256_add_ps(vectors[i][0], vectors[i][1]);
            let mut folded = [_mm256_setzero_ps(); 2];
            for (i, folded) in folded.iter_mut().enumerate() {
                // Half h of `pairs[j]` is what is left of vector 4i+2h+j.
                let mut pairs = [_mm256_setzero_ps(); 2];
                for (j, pair) in pairs.iter_mut().enumerate() {
                    let (a, b) = (half(4 * i + j), half(4 * i + 2 + j));
                    let low = _mm256_permute2f128_ps::<0x20>(a, b);
                    *pair = _mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(a, b));
                }
                let low = _mm256_shuffle_ps::<0b01_00_01_00>(pairs[0], pairs[1]);
                *folded = _mm256_add_ps(low, _mm256_shuffle_ps::<0b11_10_11_10>(pairs[0], pairs[1]));
            }
            folded
        }
    }

    #[inline(always)]
    fn transpose_bytes(self, square: &mut [[u8; 16]]) {
        transpose_bytes(square);
    }
}

impl Simd<f64> for Avx2 {
    common!(
        f64,
        8,
        __m256d,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_sqrt_pd,
        _mm256_div_pd,
        _mm256_fmadd_pd,
        _mm256_max_pd,
        _mm256_cmp_pd,
        _mm256_or_pd,
        _mm256_blendv_pd
    );

    #[inline(always)]
    fn any_nan(self, a: [__m256d; 2], b: [__m256d; 2]) -> bool {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            let low = _mm256_cmp_pd::<_CMP_UNORD_Q>(a[0], b[0]);
            let high = _mm256_cmp_pd::<_CMP_UNORD_Q>(a[1], b[1]);
            _mm256_movemask_pd(_mm256_or_pd(low, high)) != 0
        }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8; 8]) -> [__m256d; 2] {
        // SAFETY: `self` proves that the machine has the instructions; the array is as long as the load.
        unsafe {
            let ints = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
            let high = _mm256_extracti128_si256::<1>(ints);
            [_mm256_cvtepi32_pd(_mm256_castsi256_si128(ints)), _mm256_cvtepi32_pd(high)]
        }
    }

    #[inline(always)]
    fn store_bytes(self, value: [__m256d; 2], to: &mut [u8; 8]) {
        // SAFETY: `self` proves that the machine has the instructions; the array is as long as the store.
        unsafe {
            let words = _mm_packs_epi32(_mm256_cvtpd_epi32(value[0]), _mm256_cvtpd_epi32(value[1]));
            _mm_storel_epi64(to.as_mut_ptr().cast(), _mm_packus_epi16(words, words));
        }
    }

    #[inline(always)]
    fn transpose(self, from: &[[f64; 8]; 8], to: &mut [[f64; 8]; 8]) {
        // Four 4x4 squares, each from the rows that its columns become.
        for (top, left) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
            // SAFETY: `self` proves that the machine has the instructions; each access of 4 values starts at
            // column 0 or 4 of a row of 8.
            unsafe {
                let row = |r: usize| _mm256_loadu_pd(from[top + r].as_ptr().add(left));
                let even = [_mm256_unpacklo_pd(row(0), row(1)), _mm256_unpacklo_pd(row(2), row(3))];
                let odd = [_mm256_unpackhi_pd(row(0), row(1)), _mm256_unpackhi_pd(row(2), row(3))];
                let mut put = |i: usize, v| _mm256_storeu_pd(to[left + i].as_mut_ptr().add(top), v);
                put(0, _mm256_permute2f128_pd::<0x20>(even[0], even[1]));
                put(1, _mm256_permute2f128_pd::<0x20>(odd[0], odd[1]));
                put(2, _mm256_permute2f128_pd::<0x31>(even[0], even[1]));
                put(3, _mm256_permute2f128_pd::<0x31>(odd[0], odd[1]));
            }
        }
    }

    #[inline(always)]
    fn fold(self, vectors: [[__m256d; 2]; 8]) -> [__m256d; 2] {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            let half = |i: usize| _mm256_add_pd(vectors[i][0], vectors[i][1]);
            let mut folded = [_mm256_setzero_pd(); 2];
            for (i, folded) in folded.iter_mut().enumerate() {
                // Half h of `pairs[j]` is what is left of vector 4i+2h+j.
                let mut pairs = [_mm256_setzero_pd(); 2];
                for (j, pair) in pairs.iter_mut().enumerate() {
                    let (a, b) = (half(4 * i + j), half(4 * i + 2 + j));
                    let low = _mm256_permute2f128_pd::<0x20>(a, b);
                    *pair = _mm256_add_pd(low, _mm256_permute2f128_pd::<0x31>(a, b));
                }
                let low = _mm256_unpacklo_pd(pairs[0], pairs[1]);
                *folded = _mm256_add_pd(low, _mm256_unpackhi_pd(pairs[0], pairs[1]));
            }
            folded
        }
    }

    #[inline(always)]
    fn transpose_bytes(self, square: &mut [[u8; 8]]) {
        transpose_few_bytes(square);
    }
}

/// Transposes a square of 16 by 16 bytes. Interleaving row i with row i + 8 moves the first bit of a row's
/// number behind the last one of a column's; when that is done four times, they have changed places.
#[inline(always)]
pub(super) fn transpose_bytes(square: &mut [[u8; 16]]) {
    let square: &mut [[u8; 16]; 16] = square.first_chunk_mut().expect("as many rows as columns");
    // SAFETY: every x86-64 machine has these instructions; rows are as long as vectors.
    unsafe {
        let mut rows = [_mm_setzero_si128(); 16];
        for (row, from) in rows.iter_mut().zip(&*square) {
            *row = _mm_loadu_si128(from.as_ptr().cast());
        }
        for _ in 0..4 {
            let before = rows;
            for i in 0..8 {
                rows[2 * i] = _mm_unpacklo_epi8(before[i], before[i + 8]);
                rows[2 * i + 1] = _mm_unpackhi_epi8(before[i], before[i + 8]);
            }
        }
        for (row, to) in rows.iter().zip(square) {
            _mm_storeu_si128(to.as_mut_ptr().cast(), *row);
        }
    }
}

/// The same of 8 by 8 bytes, in three rounds.
#[inline(always)]
pub(super) fn transpose_few_bytes(square: &mut [[u8; 8]]) {
    let square: &mut [[u8; 8]; 8] = square.first_chunk_mut().expect("as many rows as columns");
    // SAFETY: every x86-64 machine has these instructions; rows are as long as what is read and written.
    unsafe {
        let mut rows = [_mm_setzero_si128(); 8];
        for (row, from) in rows.iter_mut().zip(&*square) {
            *row = _mm_loadl_epi64(from.as_ptr().cast());
        }
        for _ in 0..3 {
            let before = rows;
            for i in 0..4 {
                rows[2 * i] = _mm_unpacklo_epi8(before[i], before[i + 4]);
                rows[2 * i + 1] = _mm_srli_si128::<8>(rows[2 * i]);
            }
        }
        for (row, to) in rows.iter().zip(square) {
            _mm_storel_epi64(to.as_mut_ptr().cast(), *row);
        }
    }
}
