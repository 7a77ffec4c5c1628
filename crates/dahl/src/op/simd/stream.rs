//! How fast data can be gone through: the other floor under every kernel.

use super::{Kernel, Simd};
use crate::op::real::Real;
use dahl_runtime::machine::Stream;
use std::hint::black_box;

/// Arrays of equal length, each beginning on a cache line, to go through.
pub struct Streams {
    stream: Stream,
    memory: Vec<f32>,
    /// Where the first array begins, and the vectors of each.
    start: usize,
    n_lanes: usize,
}

/// A cache line of f32.
const LANES: usize = <f32 as Real>::LANES;

impl Streams {
    /// Arrays for this way to go through memory, `bytes` together, rounded down to whole cache lines. They are written once by this
    /// thread, so that they lie in its memory.
    pub fn new(stream: Stream, bytes: usize) -> Streams {
        let n_lanes = (bytes / stream.n_arrays() / size_of::<[f32; LANES]>()).max(1);
        let memory = vec![1.0_f32; (stream.n_arrays() * n_lanes + 1) * LANES];
        let start = memory.as_ptr().align_offset(size_of::<[f32; LANES]>()).min(LANES);
        Streams { stream, memory, start, n_lanes }
    }

    /// Goes through all of it once with the current instruction set, and says how many bytes were read or written.
    pub fn pass(&mut self) -> usize {
        let Streams { stream, memory, start, n_lanes } = self;
        let all = &mut f32::lanes_mut(&mut memory[*start..*start + stream.n_arrays() * *n_lanes * LANES]);
        f32::dispatch(Pass { stream: *stream, all, n_lanes: *n_lanes });
        stream.n_arrays() * *n_lanes * size_of::<[f32; LANES]>()
    }
}

struct Pass<'a> {
    stream: Stream,
    all: &'a mut [<f32 as Real>::Lanes],
    n_lanes: usize,
}

impl Kernel<f32> for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd<f32>>(self, s: S) {
        // As many at a time as hide the latency of one.
        const N: usize = 8;
        let (first, rest) = self.all.split_at_mut(self.n_lanes);
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
                for (to, from) in rest.iter_mut().zip(first.iter()) {
                    s.store(s.load(from), to);
                }
            }
            Stream::Triad => {
                let (second, third) = rest.split_at_mut(self.n_lanes);
                let factor = s.splat(black_box(0.5));
                for ((to, a), b) in third.iter_mut().zip(first.iter()).zip(second.iter()) {
                    s.store(s.mul_add(s.load(b), factor, s.load(a)), to);
                }
            }
        }
        black_box(&mut *self.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_goes_through_all_arrays_and_computes_what_it_should() {
        for bytes in [0, 64, 1000, 64 * 3 * 17] {
            for stream in Stream::ALL {
                let mut streams = Streams::new(stream, bytes);
                let (start, n) = (streams.start, streams.n_lanes * LANES);
                assert_eq!(streams.memory[start..].as_ptr().align_offset(64), 0);
                (0..n).for_each(|i| streams.memory[start + i] = i as f32);
                let moved = streams.pass();
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
