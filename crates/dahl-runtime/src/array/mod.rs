//! Arrays that a program holds, and whose tasks it submits one by one.
//!
//! A program holds an [`Array`] (which borrows its [arena](crate::arena::Arena)) or an [`Owned`] one, hands
//! it to tasks ([`submit`]), cuts it into parts ([`Array::split_mut`]) and looks at it ([`Array::read`]). The
//! borrow checker orders conflicting uses; the runtime orders the tasks. [`ownership`] shows what compiles
//! and what does not.
//!
//! A name says what happens to memory: `into_…` moves, `to_…` copies; `view`, `split`, `tiles` and `grid`
//! borrow.

mod raw;
mod base;
mod dense;
mod owned;
mod view;
mod split;
mod values;
mod guard;
mod print;
mod compare;
mod submit;
/// The hidden beginning of the programs in [`ownership`].
macro_rules! beginning {
    () => {
        concat!(
            "# use dahl_runtime::array::{Array, Dtype, Owned, Params, submit};\n",
            "# use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};\n",
            "# use dahl_runtime::{Result, Runtime, machine::Machine};\n",
            "# static ADD: Codelet = Codelet::new(\"add\", \"a[i] b[i] -> c[i]\", 1.0, &[\n",
            "#     Implementation::new(\"reference\", 1, Dtype::F32, Needs::Nothing, add),\n",
            "# ]);\n",
            "# fn add(call: &Call<'_>) -> Result<()> {\n",
            "#     let (a, b, mut c) = (call.input::<f32>(0), call.input::<f32>(1), call.output::<f32>(0));\n",
            "#     c.region().range(0).for_each(|i| c.set([i], a.at([i]) + b.at([i])));\n",
            "#     Ok(())\n",
            "# }",
        )
    };
}
pub mod ownership;

pub use compare::{
    Comparable, Comparison, Distance, Mismatch, Tolerance, assert_close, compare, compare_pairs,
};
pub use dense::{Array, Block, Matrix, Scalar, Tensor, Vector};
pub use guard::{ReadGuard, WriteGuard};
pub use owned::{Owned, OwnedBlock, OwnedMatrix, OwnedScalar, OwnedTensor, OwnedVector};
pub use split::{Split, SplitMut};
pub use submit::{AnyArray, AnyArrayMut, Params, infer_shapes, submit, submit_in_place};
pub use values::Values;
pub use view::Part;

pub use crate::codelet::relation::TileSize;
pub use crate::engine::submit::BEST;
pub use crate::shape::{Dtype, Element, Layout, MAX_RANK, PerElement, Region, Shape};

pub(crate) use base::BaseRegion;
pub(crate) use raw::{Raw, checked_bytes};
