//! Sums over samples in lanes: over planes, which is the gradient of a convolution's bias, and across the
//! lanes of many vectors; and whether all that is summed is finite.

use super::real::Real;
use super::simd::Simd;

/// `sums[k] = Σ data[n,k,..]`, added to what is there when accumulating; `data` holds `n_samples` samples of
/// `sums.len()` planes. Four chains of additions per plane hide their latency. Formed lane by lane over all
/// groups and then across lanes; padding lanes are left out.
#[inline(always)]
pub(crate) fn plane_sums<T: Real, S: Simd<T>>(
    s: S,
    data: &[T::Lanes],
    n_samples: usize,
    sums: &mut [T],
    accumulate: bool,
) {
    const CHAINS: usize = 4;
    let n_planes = sums.len();
    let n_groups = n_samples.div_ceil(T::LANES);
    let plane_len = data.len().checked_div(n_groups * n_planes).unwrap_or(0);
    for (k, sum) in sums.iter_mut().enumerate() {
        let mut total = s.zero();
        for group in 0..n_groups {
            let plane = &data[(group * n_planes + k) * plane_len..][..plane_len];
            let mut chains = [s.zero(); CHAINS];
            let (fours, rest) = plane.as_chunks::<CHAINS>();
            for four in fours {
                for i in 0..CHAINS {
                    chains[i] = s.add(chains[i], s.load(&four[i]));
                }
            }
            for (i, lanes) in rest.iter().enumerate() {
                chains[i] = s.add(chains[i], s.load(lanes));
            }
            let group_sum = s.add(s.add(chains[0], chains[1]), s.add(chains[2], chains[3]));
            let valid = s.first(n_samples - group * T::LANES);
            total = s.select(valid, s.add(total, group_sum), total);
        }
        let start = if accumulate { *sum } else { T::default() };
        *sum = start + s.sum(total);
    }
}

/// Planes of one sample whose pixels lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// How far apart planes and rows are.
    pub(crate) plane: usize,
    pub(crate) row: usize,
    /// How many rows and columns there are.
    pub(crate) height: usize,
    pub(crate) width: usize,
}

/// Adds the sums over the planes of one sample: vectors of a row's columns over all rows, then across lanes.
#[inline(always)]
pub(crate) fn add_rows<T: Real, S: Simd<T>>(s: S, data: &[T], rows: Rows, sums: &mut [T]) {
    let Rows { plane, row, height, width } = rows;
    let is_inside = s.first(width % T::LANES);
    for (first, sums) in (0..).step_by(T::LANES).zip(sums.chunks_mut(T::LANES)) {
        let mut totals = T::ZERO_BLOCK;
        for (k, total) in (first..first + sums.len()).zip(totals.as_mut()) {
            let mut chain = s.zero();
            for r in 0..height {
                let columns = &data[k * plane + r * row..];
                let (whole, rest) = (width / T::LANES, width % T::LANES);
                for vector in &T::lanes(columns)[..whole] {
                    chain = s.add(chain, s.load(vector));
                }
                if rest > 0 {
                    let columns = &columns[whole * T::LANES..];
                    let some = load_some(s, &columns[..columns.len().min(T::LANES)]);
                    chain = s.add(chain, s.select(is_inside, some, s.zero()));
                }
            }
            s.store(chain, total);
        }
        let mut results = T::ZERO_LANES;
        across(s, totals.as_ref(), results.as_mut());
        for (sum, result) in sums.iter_mut().zip(results.as_ref()) {
            *sum += *result;
        }
    }
}

/// A vector of values, zeros where there are no more.
#[inline(always)]
pub(crate) fn load_some<T: Real, S: Simd<T>>(s: S, from: &[T]) -> S::V {
    if let Some(all) = T::lanes(from).first() {
        return s.load(all);
    }
    let mut some = T::ZERO_LANES;
    some.as_mut()[..from.len()].copy_from_slice(from);
    s.load(&some)
}

/// The sums over the lanes of each vector, in the order of [`Simd::sum`]; as many as there are lanes are
/// added side by side, which takes a transposition.
#[inline(always)]
pub(crate) fn across<T: Real, S: Simd<T>>(s: S, vectors: &[T::Lanes], sums: &mut [T]) {
    for (vectors, sums) in vectors.chunks(T::LANES).zip(sums.chunks_mut(T::LANES)) {
        if vectors.len() < T::LANES / 2 {
            for (vector, sum) in vectors.iter().zip(sums) {
                *sum = s.sum(s.load(vector));
            }
            continue;
        }
        let (mut square, mut lanes) = (T::ZERO_BLOCK, T::ZERO_BLOCK);
        if vectors.len() < T::LANES {
            square.as_mut()[..vectors.len()].copy_from_slice(vectors);
            s.transpose(&square, &mut lanes);
        } else {
            s.transpose(T::block(vectors), &mut lanes);
        }
        let mut rows = [s.zero(); 16];
        for (row, lanes) in rows.iter_mut().zip(lanes.as_ref()) {
            *row = s.load(lanes);
        }
        let mut width = T::LANES / 2;
        while width > 0 {
            for lane in 0..width {
                rows[lane] = s.add(rows[lane], rows[lane + width]);
            }
            width /= 2;
        }
        let mut results = T::ZERO_LANES;
        s.store(rows[0], &mut results);
        sums.copy_from_slice(&results.as_ref()[..sums.len()]);
    }
}

/// Whether no value is infinite or NaN: then a zero times any of them is zero, and may be left out or put in.
#[inline(always)]
pub(crate) fn all_finite<T: Real, S: Simd<T>>(s: S, data: &[T::Lanes]) -> bool {
    // A finite value times zero is zero, others are NaN, and so is a sum with one.
    let mut chains = [s.zero(); 4];
    let (fours, rest) = data.as_chunks::<4>();
    for four in fours {
        for i in 0..4 {
            chains[i] = s.mul_add(s.load(&four[i]), s.zero(), chains[i]);
        }
    }
    for (i, lanes) in rest.iter().enumerate() {
        chains[i] = s.mul_add(s.load(lanes), s.zero(), chains[i]);
    }
    !s.any_nan(chains[0], chains[1]) && !s.any_nan(chains[2], chains[3])
}

/// The same of single values. It looks at all of them, which takes less time than stopping.
pub(crate) fn are_finite<T: Real>(values: &[T]) -> bool {
    values.iter().fold(true, |so_far, value| so_far & value.is_finite())
}

/// Whether all weights, and all values of so many samples, are so small that nothing overflows in sums and
/// differences of few of them that would not overflow without. The lanes of samples that do not exist may
/// hold anything.
#[inline(always)]
pub(crate) fn are_moderate<T: Real, S: Simd<T>>(
    s: S,
    weights: &[T],
    data: &[T::Lanes],
    n_samples: usize,
) -> bool {
    const CHAINS: usize = 4;
    // Products of the largest moderate values, summed up over a hundred channels, are below the power of two
    // that overflows.
    let moderate = if size_of::<T>() == 4 { 56 } else { 500 };
    let bound = f64::powi(2.0, moderate);
    if !weights.iter().fold(true, |so_far, w| so_far & (w.widen().abs() < bound)) {
        return false;
    }
    // No value is larger than the root of the sum of all squares, which takes one operation each.
    let bound = s.splat(T::from_f64(bound * bound));
    let nan = s.splat(T::from_f64(f64::NAN));
    let mut result = s.zero();
    let per_group = data.len().checked_div(n_samples.div_ceil(T::LANES)).unwrap_or(0);
    for (group, data) in data.chunks_exact(per_group.max(1)).enumerate() {
        let mut chains = [s.zero(); CHAINS];
        let (fours, rest) = data.as_chunks::<CHAINS>();
        for four in fours {
            for i in 0..CHAINS {
                let value = s.load(&four[i]);
                chains[i] = s.mul_add(value, value, chains[i]);
            }
        }
        for (i, value) in rest.iter().enumerate() {
            let value = s.load(value);
            chains[i] = s.mul_add(value, value, chains[i]);
        }
        let squares = s.add(s.add(chains[0], chains[1]), s.add(chains[2], chains[3]));
        let squares = s.select(s.first(n_samples - group * T::LANES), squares, s.zero());
        result = s.select(s.gt(bound, squares), result, nan);
    }
    !s.any_nan(result, result)
}
