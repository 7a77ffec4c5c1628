//! The vector vocabulary of the `lanes` kernels, and the choice of instruction set.
//!
//! A kernel is written once, generic over `Simd`, whose methods work lane by lane. It is compiled for
//! AVX-512, for AVX2 with FMA, and for plain arrays, and the best one that the machine has runs. **Bits do
//! not depend on which**: each method is exact or rounds as IEEE demands, multiply-adds are fused in all
//! three, and sums across lanes follow one tree. Only the sign and payload of a NaN may differ.
//!
//! A value of a `Simd` type proves that the machine has its instructions: it comes from detection alone. So
//! kernels are safe code; unsafe stays in the files that name instructions.

mod peak;
mod stream;
pub(crate) mod plain;

pub use peak::{fma_flops, fma_peak};
pub use stream::Streams;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;

use super::real::Real;
use dahl_runtime::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An instruction set that `lanes` kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(pub(crate) Proof);

/// The instruction set as a value that proves its presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Plain(plain::Plain),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

/// What kernels use on threads that were told nothing else: its place in [`Isa::available`], counted from 1,
/// once it is known.
static EVERYWHERE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What kernels on this thread use, once it is known.
    static CURRENT: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// The instruction sets of this machine, slowest first. Plain arrays are always there.
    pub fn available() -> Vec<Isa> {
        [
            Some(Proof::Plain(plain::Plain)),
            #[cfg(target_arch = "x86_64")]
            avx2::Avx2::detect().map(Proof::Avx2),
            #[cfg(target_arch = "x86_64")]
            avx512::Avx512::detect().map(Proof::Avx512),
        ]
        .into_iter()
        .flatten()
        .map(Isa)
        .collect()
    }

    /// The instruction set of this name, if this machine has it.
    ///
    /// # Errors
    ///
    /// Names of none, and of those that are not there.
    pub fn named(name: &str) -> Result<Isa> {
        let available = Isa::available();
        available.iter().copied().find(|isa| isa.to_string() == name).ok_or_else(|| {
            let names: Vec<String> = available.iter().map(Isa::to_string).collect();
            let names = names.join(", ");
            Error::new(
                ErrorKind::Usage,
                format!("this processor has no instruction set '{name}' for kernels: use one of {names}"),
            )
        })
    }

    /// What kernels on this thread use: the best there is, unless [`Isa::use_everywhere`] or [`Isa::force`]
    /// says otherwise.
    pub fn current() -> Isa {
        CURRENT.get().unwrap_or_else(|| {
            let available = Isa::available();
            let isa = Isa::settle(&available, available.len());
            CURRENT.set(Some(isa));
            isa
        })
    }

    /// Lets all kernels of this process use this instruction set: to see that nothing depends on it.
    ///
    /// # Errors
    ///
    /// If another one is in use already.
    pub fn use_everywhere(self) -> Result<()> {
        let available = Isa::available();
        let own = available.iter().position(|&isa| isa == self).map_or(available.len(), |i| i + 1);
        let used = Isa::settle(&available, own);
        match used == self {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Usage,
                format!("kernels use {used} already: choose {self} before anything is computed"),
            )),
        }
    }

    /// What is used everywhere: the one at this place, unless another was settled on before.
    fn settle(available: &[Isa], place: usize) -> Isa {
        let settled = EVERYWHERE.compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed);
        available[settled.map_or_else(|before| before, |_| place) - 1]
    }

    /// Runs `f` with this instruction set for the kernels called on this thread: for tests and benchmarks.
    pub fn force<R>(self, f: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(Some(self));
        let result = f();
        CURRENT.set(before);
        result
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Proof::Plain(_) => "plain",
            #[cfg(target_arch = "x86_64")]
            Proof::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Proof::Avx512(_) => "avx512",
        })
    }
}

/// A kernel body, to be compiled for every instruction set. `run` must be `#[inline(always)]`, as must be all
/// that it calls: code compiled on its own would not use the instructions.
pub(crate) trait Kernel<T: Real> {
    /// What it returns.
    type Output;
    /// The body.
    fn run<S: Simd<T>>(self, s: S) -> Self::Output;
}

/// Whether blocks of two dozen sums fit the registers of the current instruction set: kernels choose their
/// blocks by it.
pub(crate) struct IsWide;

impl<T: Real> Kernel<T> for IsWide {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd<T>>(self, _: S) -> bool {
        S::ACCUMULATORS >= 24
    }
}

/// Runs a kernel on the current instruction set; a macro because the bounds differ per element type.
macro_rules! dispatch {
    ($real:ty, $kernel:expr) => {
        match $crate::simd::Isa::current().0 {
            $crate::simd::Proof::Plain(s) => $kernel.run(s),
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Proof::Avx2(s) => s.run::<$real, _>($kernel),
            #[cfg(target_arch = "x86_64")]
            $crate::simd::Proof::Avx512(s) => s.run::<$real, _>($kernel),
        }
    };
}
pub(crate) use dispatch;

/// Vectors of one group of sample lanes: as many elements as a cache line holds.
pub(crate) trait Simd<T: Real>: Copy {
    /// A vector.
    type V: Copy;
    /// One bit of truth per lane.
    type M: Copy;
    /// One byte per lane, in whatever form suits the instruction set.
    type B: Copy;
    /// How many accumulators fit the registers with room to spare: kernels choose their blocks by it.
    const ACCUMULATORS: usize;

    /// Every lane the same value.
    fn splat(self, value: T) -> Self::V;
    /// Reads a vector.
    fn load(self, from: &T::Lanes) -> Self::V;
    /// Writes a vector.
    fn store(self, value: Self::V, to: &mut T::Lanes);
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// The square root, rounded as IEEE demands.
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Where `a > b`; false where either is NaN.
    fn gt(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a` where `a > b`, else `b`, also where either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// Where `a == b`; false where either is NaN.
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    /// Where `a > b` or `a` is NaN: where `a` replaces `b` as the maximum so far.
    fn beats(self, a: Self::V, b: Self::V) -> Self::M;
    /// Whether `a` or `b` is NaN in any lane.
    fn any_nan(self, a: Self::V, b: Self::V) -> bool;
    /// `a` where the mask holds, else `b`.
    fn select(self, mask: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Every lane the same byte.
    fn splat_bytes(self, value: u8) -> Self::B;
    /// Reads bytes.
    fn load_bytes(self, from: &T::Bytes) -> Self::B;
    /// Writes bytes.
    fn store_bytes(self, value: Self::B, to: &mut T::Bytes);
    /// Where `a == b`.
    fn eq_bytes(self, a: Self::B, b: Self::B) -> Self::M;
    /// `a` where the mask holds, else `b`.
    fn select_bytes(self, mask: Self::M, a: Self::B, b: Self::B) -> Self::B;
    /// Bytes as numbers.
    fn widen(self, bytes: Self::B) -> Self::V;
    /// Writes the transpose of a square of values: only moves, no arithmetic.
    fn transpose(self, from: &T::Block, to: &mut T::Block);

    /// Eight vectors in one, by adding upper halves to lower halves in the order of [`Simd::sum`]: an eighth
    /// of the lanes, from lane `i * LANES / 8` on, is what is left of vector `i`.
    #[inline(always)]
    fn fold(self, vectors: [Self::V; 8]) -> Self::V {
        let mut folded = T::ZERO_LANES;
        for (vector, folded) in vectors.into_iter().zip(folded.as_mut().chunks_exact_mut(T::LANES / 8)) {
            let mut lanes = T::ZERO_LANES;
            self.store(vector, &mut lanes);
            let mut width = T::LANES / 2;
            while width >= folded.len() {
                for lane in 0..width {
                    let other = lanes.as_ref()[lane + width];
                    lanes.as_mut()[lane] += other;
                }
                width /= 2;
            }
            folded.copy_from_slice(&lanes.as_ref()[..folded.len()]);
        }
        self.load(&folded)
    }

    /// Transposes a square of bytes: as many rows as there are lanes.
    #[inline(always)]
    fn transpose_bytes(self, square: &mut [T::Bytes]) {
        for i in 0..T::LANES {
            for j in 0..i {
                let (a, b) = (square[i].as_ref()[j], square[j].as_ref()[i]);
                (square[i].as_mut()[j], square[j].as_mut()[i]) = (b, a);
            }
        }
    }

    /// Every lane zero.
    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(T::default())
    }

    /// The mask of the first `n` lanes: the samples that exist in a ragged group.
    #[inline(always)]
    fn first(self, n: usize) -> Self::M {
        let mut lanes = T::ZERO_LANES;
        for (lane, value) in lanes.as_mut().iter_mut().enumerate() {
            *value = T::from_f64(if lane < n { 1.0 } else { 0.0 });
        }
        self.gt(self.load(&lanes), self.zero())
    }

    /// The sum over all lanes, halves added to halves: the one order for every instruction set.
    #[inline(always)]
    fn sum(self, value: Self::V) -> T {
        let mut lanes = T::ZERO_LANES;
        self.store(value, &mut lanes);
        let mut width = T::LANES / 2;
        while width > 0 {
            for lane in 0..width {
                let other = lanes.as_ref()[lane + width];
                lanes.as_mut()[lane] += other;
            }
            width /= 2;
        }
        lanes.as_ref()[0]
    }
}

/// Defines `pub(super) fn $name<T>(call)`, which runs the body `$body(s, call)` on the best instruction set.
macro_rules! lanes_kernel {
    ($name:ident, $body:ident) => {
        pub(super) fn $name<T: $crate::real::Real>(
            call: &dahl_runtime::codelet::Call<'_>,
        ) -> dahl_runtime::Result<()> {
            struct Body<'a, 'b>(&'a dahl_runtime::codelet::Call<'b>);
            impl<T: $crate::real::Real> $crate::simd::Kernel<T> for Body<'_, '_> {
                type Output = dahl_runtime::Result<()>;
                #[inline(always)]
                fn run<S: $crate::simd::Simd<T>>(self, s: S) -> Self::Output {
                    $body::<T, S>(s, self.0)
                }
            }
            T::dispatch(Body(call))
        }
    };
}
pub(crate) use lanes_kernel;

/// Cuts `0..n` into as few blocks of at most `most` as possible, of nearly the same size, so that none is
/// left with too few chains to hide the latency of additions.
#[inline(always)]
pub(crate) fn block_sizes(n: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let n_blocks = n.div_ceil(most);
    (0..n_blocks).map(move |block| n * block / n_blocks..n * (block + 1) / n_blocks)
}

/// Calls `$f::<T, S, SIZE>` with the block size as a constant: at most 12, and at most as many as there are
/// accumulators, so that larger blocks are not compiled for instruction sets with few registers.
macro_rules! with_block {
    ($size:expr, $f:ident($($argument:expr),*)) => {
        match $size {
            1 => $f::<T, S, 1>($($argument),*),
            2 => $f::<T, S, 2>($($argument),*),
            3 => $f::<T, S, 3>($($argument),*),
            4 => $f::<T, S, 4>($($argument),*),
            5 => $f::<T, S, 5>($($argument),*),
            6 => $f::<T, S, 6>($($argument),*),
            7 if const { S::ACCUMULATORS >= 7 } => $f::<T, S, 7>($($argument),*),
            8 if const { S::ACCUMULATORS >= 8 } => $f::<T, S, 8>($($argument),*),
            9 if const { S::ACCUMULATORS >= 9 } => $f::<T, S, 9>($($argument),*),
            10 if const { S::ACCUMULATORS >= 10 } => $f::<T, S, 10>($($argument),*),
            11 if const { S::ACCUMULATORS >= 11 } => $f::<T, S, 11>($($argument),*),
            12 if const { S::ACCUMULATORS >= 12 } => $f::<T, S, 12>($($argument),*),
            size => unreachable!("a block of {size}"),
        }
    };
}
pub(crate) use with_block;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_use_already_stays() {
        let current = Isa::current();
        current.use_everywhere().unwrap();
        for other in Isa::available().into_iter().filter(|&isa| isa != current) {
            let message = other.use_everywhere().unwrap_err().to_string();
            assert!(message.contains(&format!("use {current} already")), "{message}");
        }
        assert!(Isa::available().into_iter().all(|isa| Isa::named(&isa.to_string()).unwrap() == isa));
        assert!(Isa::named("neon").unwrap_err().to_string().contains("plain"));
    }
}
