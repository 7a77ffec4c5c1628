//! Plans: how tasks are cut, who executes what in which order, and where each buffer lies.
//!
//! A [`Cut`] fixes tiling, implementations, layouts and reduction groups: everything that bits depend on. It comes
//! before lowering; a [`Plan`] of the lowered graph then fixes units and order ([`Placement`]) and offsets
//! ([`MemoryPlan`]). The defaults come from fast heuristics that never look at the number of workers where bits are
//! concerned.

mod cut;
mod memory;
mod place;

pub use cut::{Cut, CutOptions, TaskCut};
pub use memory::MemoryPlan;
pub use place::Placement;

use crate::graph::Lowered;

/// How a lowered graph is executed. Memory is planned for an order, so the two are made together.
#[derive(Clone, Debug)]
pub struct Plan {
    placement: Option<Placement>,
    memory: MemoryPlan,
}

impl Plan {
    /// Fixes units and order for `n_workers` workers by heuristic.
    pub fn heuristic(lowered: &Lowered, n_workers: usize) -> Self {
        let placement = place::place(lowered, n_workers);
        let memory = memory::plan_memory(lowered, Some(&placement));
        Plan { placement: Some(placement), memory }
    }

    /// Leaves units and order open: whoever is free takes what is ready. Buffers share memory only where
    /// dependencies separate them.
    pub fn open(lowered: &Lowered) -> Self {
        Plan { placement: None, memory: memory::plan_memory(lowered, None) }
    }

    /// Units and order, if they are fixed.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Offsets, sizes and the edges that sharing adds. They hold for this plan's order only.
    pub fn memory(&self) -> &MemoryPlan {
        &self.memory
    }
}
