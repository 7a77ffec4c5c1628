//! Work per channel, for batch normalisation: sums over the samples and pixels of a channel, and the count
//! that they are divided by.

use super::real::Real;
use super::simd::Simd;
use dahl_runtime::array::{Region, Shape};

/// How many values a channel has in the whole array `[n,c,y,x]`. Every tile divides its share of a mean by
/// this number, so that the shares add up to the mean.
pub(crate) fn count<T: Real>(extent: &Shape) -> T {
    T::from_f64((extent[0] * extent[2] * extent[3]) as f64)
}

/// `1 / sqrt(var + eps)`
pub(crate) fn inverse_deviation<T: Real>(var: T, eps: f64) -> T {
    T::from_f64(1.0) / (var + T::from_f64(eps)).square_root()
}

/// How the channels of a region `[n,c,y,x]` lie in lanes.
#[derive(Clone, Copy)]
pub(crate) struct Planes {
    n_samples: usize,
    n_channels: usize,
    len: usize,
}

impl Planes {
    /// The planes of this region.
    pub(crate) fn of(region: &Region) -> Self {
        let shape = region.shape();
        Planes { n_samples: shape[0], n_channels: shape[1], len: shape[2] * shape[3] }
    }

    /// Where the vectors of each channel lie: the channel, counted from the first, and the range; group by
    /// group.
    #[inline(always)]
    pub(crate) fn each<T: Real>(self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let n_planes = self.n_samples.div_ceil(T::LANES) * self.n_channels;
        (0..n_planes).map(move |plane| (plane % self.n_channels, plane * self.len..(plane + 1) * self.len))
    }

    /// The sums of `A` things over all vectors of channel `c`; `values` says what a vector contributes. Four
    /// chains of additions hide their latency. Formed lane by lane over all groups and then across lanes;
    /// padding lanes are left out.
    #[inline(always)]
    pub(crate) fn sums<T: Real, S: Simd<T>, const A: usize>(
        self,
        s: S,
        c: usize,
        values: impl Fn(usize) -> [S::V; A],
    ) -> [T; A] {
        const CHAINS: usize = 4;
        let mut totals = [s.zero(); A];
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let first = (group * self.n_channels + c) * self.len;
            let mut chains = [[s.zero(); A]; CHAINS];
            let whole = self.len - self.len % CHAINS;
            for at in (first..first + whole).step_by(CHAINS) {
                for i in 0..CHAINS {
                    let terms = values(at + i);
                    for a in 0..A {
                        chains[i][a] = s.add(chains[i][a], terms[a]);
                    }
                }
            }
            for i in 0..self.len - whole {
                let terms = values(first + whole + i);
                for a in 0..A {
                    chains[i][a] = s.add(chains[i][a], terms[a]);
                }
            }
            let valid = s.first(self.n_samples - group * T::LANES);
            for a in 0..A {
                let sum = s.add(s.add(chains[0][a], chains[1][a]), s.add(chains[2][a], chains[3][a]));
                totals[a] = s.select(valid, s.add(totals[a], sum), totals[a]);
            }
        }
        let mut sums = [T::default(); A];
        for a in 0..A {
            sums[a] = s.sum(totals[a]);
        }
        sums
    }
}
