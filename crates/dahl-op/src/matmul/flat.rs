//! Blocks of rows, vectorised over columns: per `k` one vector of `b` and one broadcast number of `a` per
//! row. Each element of `c` is one chain of multiply-adds in the order of `k`, so that neither the blocking
//! nor the instruction set shows in the bits. Where `b` is transposed, the vector is gathered from as many
//! rows; the columns that do not fill a vector are computed along and not written.

use crate::real::Real;
use crate::simd::{Kernel, Simd, block_sizes, with_block};
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

pub(super) fn nn<T: Real>(call: &Call<'_>) -> Result<()> {
    T::dispatch(MatMul::<false> { call, is_b_transposed: false })
}

pub(super) fn nt<T: Real>(call: &Call<'_>) -> Result<()> {
    T::dispatch(MatMul::<false> { call, is_b_transposed: true })
}

pub(super) fn tn<T: Real>(call: &Call<'_>) -> Result<()> {
    T::dispatch(MatMul::<true> { call, is_b_transposed: false })
}

pub(super) fn tt<T: Real>(call: &Call<'_>) -> Result<()> {
    T::dispatch(MatMul::<true> { call, is_b_transposed: true })
}

/// A call. Only whether `a` is transposed shows in the innermost loop, so only that is a constant.
struct MatMul<'a, 'b, const A_TRANSPOSED: bool> {
    call: &'a Call<'b>,
    is_b_transposed: bool,
}

impl<T: Real, const A_TRANSPOSED: bool> Kernel<T> for MatMul<'_, '_, A_TRANSPOSED> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> Result<()> {
        body(s, self.call, A_TRANSPOSED, self.is_b_transposed)
    }
}

/// How many `k` are gathered at a time: 32 vectors are 2 kB, which stay in the first cache.
const PANEL: usize = 32;

/// Where the numbers of `a` for a row lie: that of `k` at `row * row_step + k * k_step`.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    a: &'a [T],
    row_step: usize,
    k_step: usize,
}

#[inline(always)]
fn body<T: Real, S: Simd<T>>(s: S, call: &Call<'_>, a_transposed: bool, b_transposed: bool) -> Result<()> {
    let (a, b) = (call.input::<T>(0), call.input::<T>(1));
    let mut c = call.output::<T>(0);
    let [m, n] = [c.region().shape()[0], c.region().shape()[1]];
    let n_k = a.region().shape()[if a_transposed { 0 } else { 1 }];
    let (a, b, c) = (a.contiguous(), b.contiguous(), c.contiguous());
    let (row_step, k_step) = if a_transposed { (1, m) } else { (n_k, 1) };
    let mut panel = [T::ZERO_LANES; PANEL];
    for column in (0..n).step_by(T::LANES) {
        let width = T::LANES.min(n - column);
        // At least once, so that outputs of nothing are set.
        for first in (0..n_k.max(1)).step_by(PANEL) {
            let len = PANEL.min(n_k - first);
            for (k, lanes) in panel[..len].iter_mut().enumerate() {
                let lanes = &mut lanes.as_mut()[..width];
                if b_transposed {
                    for (lane, value) in lanes.iter_mut().enumerate() {
                        *value = b[(column + lane) * n_k + first + k];
                    }
                } else {
                    lanes.copy_from_slice(&b[(first + k) * n + column..][..width]);
                }
            }
            let accumulate = call.accumulate() || first > 0;
            for rows in block_sizes(m, S::ACCUMULATORS.min(12)) {
                let from =
                    Rows { a: &a[(rows.start * row_step + first * k_step).min(a.len())..], row_step, k_step };
                let c = &mut c[rows.start * n + column..];
                with_block!(rows.len(), block(s, from, &panel[..len], c, n, width, accumulate));
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn block<T: Real, S: Simd<T>, const M: usize>(
    s: S,
    from: Rows<'_, T>,
    panel: &[T::Lanes],
    c: &mut [T],
    n: usize,
    width: usize,
    accumulate: bool,
) {
    let mut sums = [s.zero(); M];
    let mut lanes = T::ZERO_LANES;
    if accumulate {
        for row in 0..M {
            lanes.as_mut()[..width].copy_from_slice(&c[row * n..][..width]);
            sums[row] = s.load(&lanes);
        }
    }
    for (k, b) in panel.iter().enumerate() {
        let b = s.load(b);
        for row in 0..M {
            sums[row] = s.mul_add(s.splat(from.a[row * from.row_step + k * from.k_step]), b, sums[row]);
        }
    }
    for row in 0..M {
        s.store(sums[row], &mut lanes);
        c[row * n..][..width].copy_from_slice(&lanes.as_ref()[..width]);
    }
}
