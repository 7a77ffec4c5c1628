//! A checksum of 64 bits, made for speed: eight bytes at a time.
//!
//! Each step turns the sum into another one by an operation that can be undone, for a given word, and that
//! gives different sums for different words. So a change within one aligned word is always noticed, and
//! anything else with a chance of 2⁻⁶⁴. It does not protect against anybody who wants two files to look
//! alike.

/// An odd number with bits of both kinds everywhere.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of all bytes so far.
#[derive(Clone, Default)]
pub(super) struct Checksum {
    sum: u64,
    n_bytes: u64,
    /// The bytes of a word that is not complete yet.
    word: [u8; 8],
}

impl Checksum {
    /// Takes in more bytes. In how many pieces they come does not matter.
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        let begun = (self.n_bytes % 8) as usize;
        self.n_bytes += bytes.len() as u64;
        if begun > 0 {
            let n = bytes.len().min(8 - begun);
            self.word[begun..begun + n].copy_from_slice(&bytes[..n]);
            if begun + n < 8 {
                return;
            }
            self.sum = mixed(self.sum, u64::from_le_bytes(self.word));
            bytes = &bytes[n..];
        }
        let (words, rest) = bytes.as_chunks();
        self.sum = words.iter().fold(self.sum, |sum, &word| mixed(sum, u64::from_le_bytes(word)));
        self.word[..rest.len()].copy_from_slice(rest);
    }

    /// The checksum, as 16 digits.
    pub(super) fn digits(&self) -> String {
        let mut last = self.word;
        last[(self.n_bytes % 8) as usize..].fill(0);
        let sum = mixed(self.sum, u64::from_le_bytes(last));
        format!("{:016x}", mixed(sum, self.n_bytes))
    }
}

fn mixed(sum: u64, word: u64) -> u64 {
    let product = (sum ^ word).wrapping_mul(FACTOR);
    // Products carry upwards only. Without this, changes of the highest bits could cancel out.
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> String {
        let mut sum = Checksum::default();
        sum.add(bytes);
        sum.digits()
    }

    #[test]
    fn pieces_do_not_matter_and_lengths_do() {
        let bytes: Vec<u8> = (0..61).collect();
        for first in 0..bytes.len() {
            for second in first..bytes.len() {
                let mut pieces = Checksum::default();
                pieces.add(&bytes[..first]);
                pieces.add(&bytes[first..second]);
                pieces.add(&bytes[second..]);
                assert_eq!(pieces.digits(), sum(&bytes));
            }
        }
        let mut sums: Vec<String> = (0..40).map(|n| sum(&vec![0; n])).collect();
        sums.dedup();
        assert_eq!(sums.len(), 40);
    }

    #[test]
    fn the_sum_stays_what_it_was_in_files_that_exist() {
        assert_eq!(sum(b""), "0000000000000000");
        assert_eq!(sum(b"twelve bytes"), "1822f7938ac928bc");
    }

    #[test]
    fn two_flips_do_not_cancel_out() {
        let bytes = [7u8; 64];
        for first in 0..512 {
            for second in 0..first {
                let mut changed = bytes;
                changed[first / 8] ^= 1 << (first % 8);
                changed[second / 8] ^= 1 << (second % 8);
                assert_ne!(sum(&changed), sum(&bytes), "bits {first} and {second}");
            }
        }
    }
}
