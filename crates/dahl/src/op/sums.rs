//! Sums over samples and planes in lanes: the gradient of a convolution's bias.

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
