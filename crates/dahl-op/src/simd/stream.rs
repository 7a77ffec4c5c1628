//! How fast data can be gone through: the other floor under every kernel.

use super::{Kernel, Simd};
use crate::real::Real;
use dahl_runtime::machine::Stream;
use std::hint::black_box;

/// Arrays of equal length, each beginning on a cache line, to go through.
pub struct Streams {
    stream: Stream,
    memory: Vec<f32>,
    /// Where the first array begins, and the vectors of each.
    start: usize,
    n_lanes: usize,
    /// The vector that comes next.
    at: usize,
}

/// Bytes of one piece, of all arrays together: little enough to look at the clock often.
const PIECE: usize = 1 << 20;

/// A cache line of f32.
const LANES: usize = <f32 as Real>::LANES;

impl Streams {
    /// Arrays for this way to go through memory, `bytes` together, rounded down to whole cache lines. They
    /// are written once by this thread, so that they lie in its memory.
    pub fn new(stream: Stream, bytes: usize) -> Streams {
        let n_lanes = (bytes / stream.n_arrays() / size_of::<[f32; LANES]>()).max(1);
        let memory = vec![1.0_f32; (stream.n_arrays() * n_lanes + 1) * LANES];
        let start = memory.as_ptr().align_offset(size_of::<[f32; LANES]>()).min(LANES);
        Streams { stream, memory, start, n_lanes, at: 0 }
    }

    /// Goes through the next piece with the current instruction set, beginning anew after the last one, and
    /// says how many bytes were read or written.
    pub fn next_piece(&mut self) -> usize {
        let Streams { stream, memory, start, n_lanes, at } = self;
        let all = f32::lanes_mut(&mut memory[*start..*start + stream.n_arrays() * *n_lanes * LANES]);
        let (first, rest) = all.split_at_mut(*n_lanes);
        let (second, third) = rest.split_at_mut(*n_lanes * usize::from(stream.n_arrays() > 1));
        let most = PIECE / stream.n_arrays() / size_of::<[f32; LANES]>();
        let range = *at..(*at + most).min(*n_lanes);
        *at = if range.end == *n_lanes { 0 } else { range.end };
        let of = |array: &mut [[f32; LANES]]| if array.is_empty() { 0..0 } else { range.clone() };
        let (b, c) = (of(second), of(third));
        let arrays = [&mut first[range.clone()], &mut second[b], &mut third[c]];
        f32::dispatch(Pass { stream: *stream, arrays });
        stream.n_arrays() * range.len() * size_of::<[f32; LANES]>()
    }
}

struct Pass<'a> {
    stream: Stream,
    arrays: [&'a mut [<f32 as Real>::Lanes]; 3],
}

impl Kernel<f32> for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        // As many at a time as hide the latency of one.
        const N: usize = 8;
        let [first, second, third] = self.arrays;
        match self.stream {
            Stream::Read => {
                let mut sums = [s.zero(); N];
                let mut chunks = first.chunks_exact(N);
                for chunk in &mut chunks {
                    for (sum, lanes) in sums.iter_mut().zip(chunk) {
                        *sum = s.add(*sum, s.load(lanes));
                    }
                }
                for lanes in chunks.remainder() {
                    sums[0] = s.add(sums[0], s.load(lanes));
                }
                let mut total = s.zero();
                for sum in sums {
                    total = s.add(total, sum);
                }
                black_box(s.sum(total));
            }
            Stream::Copy => {
                for (to, from) in second.iter_mut().zip(first.iter()) {
                    s.store(s.load(from), to);
                }
            }
            Stream::Triad => {
                let factor = s.splat(black_box(0.5));
                for ((to, a), b) in third.iter_mut().zip(first.iter()).zip(second.iter()) {
                    s.store(s.mul_add(s.load(b), factor, s.load(a)), to);
                }
            }
        }
        black_box((second, third));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_through_all_arrays_and_compute_what_they_should() {
        for bytes in [0, 64, 1000, 64 * 3 * 17, 5 * PIECE / 2] {
            for stream in Stream::ALL {
                let mut streams = Streams::new(stream, bytes);
                let (start, n) = (streams.start, streams.n_lanes * LANES);
                assert_eq!(streams.memory[start..].as_ptr().align_offset(64), 0);
                (0..n).for_each(|i| streams.memory[start + i] = i as f32);
                let mut moved = streams.next_piece();
                while streams.at != 0 {
                    moved += streams.next_piece();
                }
                assert_eq!(moved, stream.n_arrays() * n * 4);
                assert!(moved <= bytes.max(64 * stream.n_arrays()));
                let result = &streams.memory[start + (stream.n_arrays() - 1) * n..][..n];
                let expected = |i: usize| match stream {
                    Stream::Read | Stream::Copy => i as f32,
                    Stream::Triad => i as f32 + 0.5,
                };
                assert!(
                    result.iter().enumerate().all(|(i, &value)| value == expected(i)),
                    "{stream:?} {bytes}"
                );
            }
        }
    }
}
