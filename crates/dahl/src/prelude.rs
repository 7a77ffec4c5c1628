//! What nearly every program needs: `use dahl::prelude::*;`.
//!
//! There is no `Result` in it, which would take the place of Rust's own: write
//! [`dahl::Result`](crate::Result).

pub use crate::model::Sequential;
pub use crate::train::Trainer;
pub use crate::{Array, Dtype, Machine, Owned, Runtime, dataset, op};
