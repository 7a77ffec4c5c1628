//! Random numbers by counter: value `i` of stream `s` depends on the seed, `s` and `i` alone, so it is the
//! same on any machine, in any order, on any number of workers.

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// Stream number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Stream { key: mix(mix(seed).wrapping_add(stream)) }
    }

    /// The `i`-th value: 64 uniform bits.
    #[inline(always)]
    pub fn bits(&self, i: u64) -> u64 {
        mix(self.key ^ mix(i))
    }

    /// The `i`-th value as a number in `0..1`, a multiple of 2⁻²⁴ so that it is exact in `f32` too.
    pub fn uniform(&self, i: u64) -> f64 {
        (self.bits(i) >> 40) as f64 / (1_u64 << 24) as f64
    }

    /// A permutation of `0..n`.
    pub fn permutation(&self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            // The high half of a product maps 64 random bits to 0..=i with a bias below 2⁻³².
            let j = (u128::from(self.bits(i as u64)) * (i as u128 + 1)) >> 64;
            order.swap(i, j as usize);
        }
        order
    }
}

/// A bijection of 64-bit words in which every input bit affects every output bit (multiplications by odd
/// constants and xor-shifts, the finaliser of SplitMix64).
#[inline(always)]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_index_once_and_depends_on_the_stream() {
        let a = Stream::new(1, 0).permutation(1000);
        let mut sorted = a.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &v)| v as usize == i));
        assert_ne!(a, Stream::new(1, 1).permutation(1000));
        assert_ne!(a, Stream::new(2, 0).permutation(1000));
        assert_eq!(a, Stream::new(1, 0).permutation(1000));
    }

    /// `scripts/random_stream.py` gives the same.
    #[test]
    fn values_are_the_same_for_ever_and_in_every_language() {
        let bits = [0, 1, 2, 1_000_000_000].map(|i| Stream::new(7, 3).bits(i));
        assert_eq!(
            bits,
            [0x17a4_40ca_8044_d93a, 0xac42_ddc4_c36b_2fa2, 0x0200_72b3_e0b8_df58, 0x5b7e_3dbe_5f9e_f9c5]
        );
        assert_eq!(Stream::new(1, 0).permutation(10), [6, 7, 2, 8, 9, 4, 5, 0, 1, 3]);
    }

    #[test]
    fn uniform_numbers_have_the_mean_and_variance_of_uniform_numbers() {
        let stream = Stream::new(7, 3);
        let values: Vec<f64> = (0..100_000).map(|i| stream.uniform(i)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
    }
}
