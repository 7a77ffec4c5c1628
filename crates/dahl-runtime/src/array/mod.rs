//! Arrays, and what they are made of: element types, shapes, regions and memory layouts.
//!
//! A program holds an [`Array`] (which borrows its [arena](crate::arena::Arena)) or an [`Owned`] one, hands it to
//! tasks ([`submit`]), cuts it into parts ([`Array::split_mut`]) and looks at it ([`Array::read`]). The borrow
//! checker orders conflicting uses; the runtime orders the tasks. [`ownership`] shows what compiles and what does
//! not.

mod element;
mod shape;
mod layout;
mod raw;
mod dense;
mod owned;
mod split;
mod guard;
mod print;
mod submit;
pub mod ownership;

pub use dense::{Array, Block, Matrix, Scalar, Tensor, Vector};
pub use element::{Dtype, Element};
pub use guard::{ReadGuard, WriteGuard};
pub use layout::Layout;
pub use owned::Owned;
pub use shape::{MAX_RANK, Region, Shape};
pub use split::{Part, Split, SplitMut};
pub use submit::{AnyArray, AnyArrayMut, Params, submit};

pub(crate) use raw::{Place, Raw, checked_bytes};
