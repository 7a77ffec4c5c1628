//! The floor under every kernel: how fast this core does fused multiply-adds on registers alone.

use super::{Kernel, Simd};
use crate::real::Real;
use dahl_runtime::array::Dtype;
use std::hint::black_box;
use std::time::Instant;

/// Floating-point operations per second of fused multiply-adds with the current instruction set on this core,
/// a multiply-add counting 2: the best of several measurements of about a millisecond each.
pub fn fma_peak(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => measure::<f64>(),
        _ => measure::<f32>(),
    }
}

/// Does fused multiply-adds on registers for a fraction of a millisecond, and says how many operations those
/// were.
pub fn fma_flops(dtype: Dtype) -> f64 {
    fn flops<T: Real>() -> f64 {
        const STEPS: usize = 20_000;
        let chains = T::dispatch(Chains { steps: STEPS });
        (2 * T::LANES * STEPS * chains) as f64
    }
    match dtype {
        Dtype::F64 => flops::<f64>(),
        _ => flops::<f32>(),
    }
}

fn measure<T: Real>() -> f64 {
    const STEPS: usize = 100_000;
    (0..9)
        .map(|_| {
            let start = Instant::now();
            let chains = T::dispatch(Chains { steps: STEPS });
            let flops = (2 * T::LANES * STEPS * chains) as f64;
            flops / start.elapsed().as_secs_f64()
        })
        .fold(0.0, f64::max)
}

struct Chains {
    steps: usize,
}

impl<T: Real> Kernel<T> for Chains {
    /// How many multiply-adds each step did.
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd<T>>(self, s: S) -> usize {
        if S::ACCUMULATORS >= 24 {
            chains::<T, S, 12>(s, self.steps)
        } else {
            chains::<T, S, 6>(s, self.steps)
        }
    }
}

/// Independent chains, enough to hide the latency of one.
#[inline(always)]
fn chains<T: Real, S: Simd<T>, const N: usize>(s: S, steps: usize) -> usize {
    let factor = s.splat(black_box(T::from_f64(0.5)));
    let mut values = [s.splat(black_box(T::from_f64(1.0))); N];
    for _ in 0..steps {
        for value in &mut values {
            *value = s.mul_add(*value, factor, factor);
        }
    }
    let mut total = s.zero();
    for value in values {
        total = s.add(total, value);
    }
    black_box(s.sum(total));
    N
}
