//! Vectors over flat memory: for updates of parameters and statistics.

use super::real::Real;
use super::simd::Simd;

/// Updates `state` from `inputs`, all equally long, vector by vector. The last piece is filled up with zeros
/// whose images are dropped, so that every element goes through the same instructions.
#[inline(always)]
pub(crate) fn update<T: Real, S: Simd<T>, const I: usize, const O: usize>(
    s: S,
    inputs: [&[T]; I],
    state: [&mut [T]; O],
    f: impl Fn([S::V; I], [S::V; O]) -> [S::V; O],
) {
    let len = state[0].len();
    assert!(inputs.iter().all(|input| input.len() == len) && state.iter().all(|state| state.len() == len));
    let (mut read, mut written) = ([s.zero(); I], [s.zero(); O]);
    for at in 0..len / T::LANES {
        for i in 0..I {
            read[i] = s.load(&T::lanes(inputs[i])[at]);
        }
        for o in 0..O {
            written[o] = s.load(&T::lanes(state[o])[at]);
        }
        written = f(read, written);
        for o in 0..O {
            s.store(written[o], &mut T::lanes_mut(state[o])[at]);
        }
    }
    let rest = len - len % T::LANES..len;
    if rest.is_empty() {
        return;
    }
    let mut last = T::ZERO_LANES;
    for i in 0..I {
        last.as_mut()[..rest.len()].copy_from_slice(&inputs[i][rest.clone()]);
        read[i] = s.load(&last);
    }
    for o in 0..O {
        last.as_mut()[..rest.len()].copy_from_slice(&state[o][rest.clone()]);
        written[o] = s.load(&last);
    }
    written = f(read, written);
    for o in 0..O {
        s.store(written[o], &mut last);
        state[o][rest.clone()].copy_from_slice(&last.as_ref()[..rest.len()]);
    }
}
