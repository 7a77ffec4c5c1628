//! The gradients of taps from the sums of products.

use super::parts::Part;
use super::{FOLDED, WIDTH};
use crate::real::Real;
use crate::simd::{Kernel, Simd};
use crate::sums::are_moderate;
use crate::winograd::transform::{PRODUCTS, to_taps};

/// What the sums of products are for the taps, unless one of them is infinite or very large.
pub(super) struct Taps<'a, T: Real> {
    pub(super) part: &'a Part,
    /// Input channels that there are weights for.
    pub(super) n_channels: usize,
    pub(super) sums: &'a [T::Lanes],
    pub(super) dw: &'a mut [T],
}

impl<T: Real> Kernel<T> for Taps<'_, T> {
    /// Whether it was computed.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> bool {
        if !are_moderate(s, &[], self.sums, T::LANES) {
            return false;
        }
        let Part { kernels, channels } = self.part;
        // What is left of a sum.
        let n_left = const { T::LANES / 8 };
        let sums = self.sums.as_chunks::<FOLDED>().0.chunks_exact(PRODUCTS * channels.len());
        for (block, sums) in self.part.blocks().zip(sums) {
            for (c, channel) in channels.clone().enumerate() {
                let mut taps = [[T::ZERO_LANES; FOLDED]; WIDTH];
                for i in 0..FOLDED {
                    let mut products = [s.zero(); PRODUCTS];
                    for product in 0..PRODUCTS {
                        products[product] = s.load(&sums[product * channels.len() + c][i]);
                    }
                    let rows = to_taps(s, products);
                    for ky in 0..WIDTH {
                        s.store(rows[ky], &mut taps[ky][i]);
                    }
                }
                for (i, kernel) in block.clone().enumerate() {
                    let weights = (kernels.start + kernel) * self.n_channels + channel;
                    let dw = &mut self.dw[weights * WIDTH * WIDTH..][..WIDTH * WIDTH];
                    for (dw, taps) in dw.as_chunks_mut::<WIDTH>().0.iter_mut().zip(&taps) {
                        let left = &T::flat(taps)[i * WIDTH * n_left..][..WIDTH * n_left];
                        for (dw, left) in dw.iter_mut().zip(left.chunks_exact(n_left)) {
                            *dw += if n_left == 2 { left[0] + left[1] } else { left[0] };
                        }
                    }
                }
            }
        }
        true
    }
}
