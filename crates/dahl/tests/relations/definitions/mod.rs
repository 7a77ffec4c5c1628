//! The operations as loop nests: what each elementary contribution reads and writes.
//!
//! Written from the mathematical definitions, with PyTorch's formulas for shapes; nothing here looks at a
//! relation. Each function draws shapes and parameters, then runs the loops.

mod pointwise;
mod reductions;
mod rows;
mod windows;

pub use pointwise::*;
pub use reductions::*;
pub use rows::*;
pub use windows::*;
