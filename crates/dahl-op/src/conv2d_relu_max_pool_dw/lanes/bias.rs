//! The gradient of the bias: sums of all gradients of a channel.

use super::Job;
use crate::real::Real;
use crate::simd::{Kernel, Simd};

/// The gradients of all biases, added to what is there.
pub(super) struct Bias<'a, 'b, T: Real> {
    pub(super) job: &'a Job<'b, T>,
    pub(super) db: &'a mut [T],
}

impl<T: Real> Kernel<T> for Bias<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) {
        let job = self.job;
        let is_covered = job.is_usual() && job.out_width == 2 * job.pxs.len();
        for (k, sum) in self.db.iter_mut().enumerate() {
            *sum += if is_covered { job.bias::<S, true>(s, k) } else { job.bias::<S, false>(s, k) };
        }
    }
}

impl<T: Real> Job<'_, T> {
    /// The gradient of the bias of channel `k`. Four chains of additions, one for every fourth pixel of the
    /// convolution's output: the order in which the sums of a channel run, without the zeros. `COVERED` says
    /// that windows of two by two cover all columns.
    #[inline(always)]
    fn bias<S: Simd<T>, const COVERED: bool>(&self, s: S, k: usize) -> T {
        let (plane, n_windows) = (self.pys.len() * self.pxs.len(), self.pxs.len());
        let mut total = s.zero();
        for group in 0..self.n_samples.div_ceil(T::LANES) {
            let mut chains = [s.zero(); CHAINS];
            for py in self.pys.clone() {
                let first = (group * self.n_kernels + k) * plane + (py - self.pys.start) * n_windows;
                let (dy, arg) = (&self.dy[first..][..n_windows], &self.arg[first..][..n_windows]);
                if COVERED {
                    // Pixels follow each other from row to row, so the next window always has the other two
                    // chains.
                    for qy in 0..2 {
                        let (left, right) = (s.splat_bytes(2 * qy), s.splat_bytes(2 * qy + 1));
                        for window in dy.iter().zip(arg) {
                            let [a, b, c, d] = chains;
                            chains = [c, d, add_here(s, a, left, window), add_here(s, b, right, window)];
                        }
                    }
                    continue;
                }
                for qy in 0..self.size {
                    let pixel = (py * self.stride + qy) * self.out_width + self.pxs.start * self.stride;
                    for (i, window) in dy.iter().zip(arg).enumerate() {
                        for qx in 0..self.size {
                            let chain = &mut chains[(pixel + i * self.stride + qx) % CHAINS];
                            let here = s.splat_bytes((qy * self.size + qx) as u8);
                            *chain = add_here(s, *chain, here, window);
                        }
                    }
                }
            }
            let sum = s.add(s.add(chains[0], chains[1]), s.add(chains[2], chains[3]));
            let valid = s.first(self.n_samples - group * T::LANES);
            total = s.select(valid, s.add(total, sum), total);
        }
        s.sum(total)
    }
}

/// Chains of additions of a channel's sum.
const CHAINS: usize = 4;

/// Adds the gradients of those lanes whose maximum is `here` to a chain.
#[inline(always)]
fn add_here<T: Real, S: Simd<T>>(s: S, chain: S::V, here: S::B, (dy, arg): (&T::Lanes, &T::Bytes)) -> S::V {
    s.select(s.eq_bytes(s.load_bytes(arg), here), s.add(chain, s.load(dy)), chain)
}
