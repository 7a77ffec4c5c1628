//! What arrays are made of: element types, shapes, regions and memory layouts.

mod element;
mod layout;
mod shape;

pub use element::{Dtype, Element};
pub use layout::Layout;
pub use shape::{MAX_RANK, Region, Shape};
