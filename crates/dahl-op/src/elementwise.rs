//! Elementwise codelets: the reference and the vectorised version of a function of one or two numbers.
//!
//! Both come from the same scalar function, so that they have the same bits. The vectorised version works on
//! flat memory, a vector's worth of elements at a time; compiled for an instruction set, the loop over the
//! elements of a piece becomes vector instructions.

use super::real::Real;
use super::simd::Simd;
use dahl_runtime::Result;
use dahl_runtime::codelet::Call;

/// Defines `reference` and `lanes::kernel` for `$function`, which gets the call (for its parameters) and
/// returns the function to apply to every element.
macro_rules! elementwise {
    ($map:ident, $function:ident) => {
        fn reference<T: $crate::real::Real>(
            call: &dahl_runtime::codelet::Call<'_>,
        ) -> dahl_runtime::Result<()> {
            call.$map($function::<T>(call));
            Ok(())
        }

        mod lanes {
            $crate::simd::lanes_kernel!(kernel, body);

            #[inline(always)]
            fn body<T: $crate::real::Real, S: $crate::simd::Simd<T>>(
                s: S,
                call: &dahl_runtime::codelet::Call<'_>,
            ) -> dahl_runtime::Result<()> {
                $crate::elementwise::$map(s, call, super::$function::<T>(call))
            }
        }
    };
}
pub(crate) use elementwise;

/// `y = f(x)` over flat memory. The instruction set is that of the function this is inlined into.
#[inline(always)]
pub(crate) fn map<T: Real, S: Simd<T>>(_: S, call: &Call<'_>, f: impl Fn(T) -> T) -> Result<()> {
    T::map_flat(
        call,
        #[inline(always)]
        |mut x| {
            for x in x.as_mut() {
                *x = f(*x);
            }
            x
        },
    );
    Ok(())
}

/// `y = f(a, b)` over flat memory.
#[inline(always)]
pub(crate) fn map2<T: Real, S: Simd<T>>(_: S, call: &Call<'_>, f: impl Fn(T, T) -> T) -> Result<()> {
    T::map2_flat(
        call,
        #[inline(always)]
        |mut a, b| {
            for (a, b) in a.as_mut().iter_mut().zip(b.as_ref()) {
                *a = f(*a, *b);
            }
            a
        },
    );
    Ok(())
}
