//! The kernels that lowering itself inserts: assembling a region from tiles, which also carries state from
//! version to version, and reducing partial results.

use super::{Call, Kernel};
use crate::codelet::relation::Accumulate;
use crate::error::Result;
use crate::shape::{Dtype, Element, PerElement};

/// The name of the assembling task in plans and traces.
pub const ASSEMBLE: &str = "assemble";
/// The name, in plans and traces, of the task that copies state to the version of the next step.
pub const CARRY: &str = "carry";
/// The name of the reducing task in plans and traces.
pub const REDUCE: &str = "reduce";
/// The version of all of them.
pub const VERSION: u32 = 2;

/// Copies the region of every input into the one output, whatever their layouts: halos, tiles of another
/// size, a change of layout. The inputs are pieces of one array and cover the output.
pub fn assemble(dtype: Dtype) -> Kernel {
    fn kernel<T: Element>(call: &Call<'_>) -> Result<()> {
        let mut out = call.output::<T>(0);
        for i in 0..call.spec().n_inputs {
            out.copy_from(&call.input::<T>(i));
        }
        Ok(())
    }
    struct Assemble;
    impl PerElement for Assemble {
        type Output = Kernel;
        fn of<T: Element>(self) -> Kernel {
            kernel::<T>
        }
    }
    dtype.with(Assemble)
}

/// Reduces `parts[g,i] -> out[i]` over g, in the order of g. Only floating-point arrays accumulate.
pub fn reduce(dtype: Dtype, how: Accumulate) -> Kernel {
    macro_rules! kernel {
        ($ty:ty, $f:expr) => {{
            fn kernel(call: &Call<'_>) -> Result<()> {
                let parts = call.input::<$ty>(0);
                let mut out = call.output::<$ty>(0);
                let rows = parts.region().range(0);
                let out = out.contiguous();
                out.copy_from_slice(parts.row(rows.start));
                for g in rows.start + 1..rows.end {
                    for (sum, &part) in out.iter_mut().zip(parts.row(g)) {
                        *sum = $f(*sum, part);
                    }
                }
                Ok(())
            }
            kernel as Kernel
        }};
    }
    match (dtype, how) {
        (Dtype::F32, Accumulate::Add) => kernel!(f32, |a: f32, b: f32| a + b),
        (Dtype::F32, Accumulate::Max) => {
            kernel!(f32, |a: f32, b: f32| if b > a || b.is_nan() { b } else { a })
        }
        (Dtype::F32, Accumulate::Min) => {
            kernel!(f32, |a: f32, b: f32| if b < a || b.is_nan() { b } else { a })
        }
        (Dtype::F64, Accumulate::Max) => {
            kernel!(f64, |a: f64, b: f64| if b > a || b.is_nan() { b } else { a })
        }
        (Dtype::F64, Accumulate::Min) => {
            kernel!(f64, |a: f64, b: f64| if b < a || b.is_nan() { b } else { a })
        }
        _ => kernel!(f64, |a: f64, b: f64| a + b),
    }
}
