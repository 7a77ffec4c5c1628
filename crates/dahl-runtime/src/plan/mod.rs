//! Plans: how tasks are cut, who executes what in which order, and where each buffer lies.
//!
//! A [`Cut`] fixes tiling, implementations, layouts and reduction groups: everything that bits depend on. A
//! [`Placement`] fixes units and order. A [`MemoryPlan`] fixes offsets. The defaults come from fast heuristics that
//! never look at the number of workers where bits are concerned.

mod cut;
mod memory;
mod place;

pub use cut::{Cut, CutOptions, TaskCut};
pub use memory::{MemoryPlan, plan_memory};
pub use place::{Placement, place};
