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

use crate::error::{Error, ErrorKind, Result};
use crate::graph::Lowered;
use place::Floats;

/// How a lowered graph is executed. Memory is planned for an order, so the two are made together.
#[derive(Clone, Debug)]
pub struct Plan {
    placement: Option<Placement>,
    memory: MemoryPlan,
    /// What the graph looks like that this plan is for: its tasks, and the bytes of its buffers.
    n_tasks: usize,
    buffer_bytes: Vec<usize>,
}

impl Plan {
    /// Fixes units and order for `n_workers` workers by heuristic, except for what floats (see [`Placement`]).
    pub fn heuristic(lowered: &Lowered, n_workers: usize) -> Self {
        Plan::new(lowered, Some(place::place(lowered, n_workers.max(1), Floats::Some)))
    }

    /// Fixes units and order of every task: nothing floats.
    pub fn fixed(lowered: &Lowered, n_workers: usize) -> Self {
        Plan::new(lowered, Some(place::place(lowered, n_workers.max(1), Floats::None)))
    }

    /// Leaves units and order open: whoever is free takes what is ready. Buffers share memory only where
    /// dependencies separate them.
    pub fn open(lowered: &Lowered) -> Self {
        Plan::new(lowered, None)
    }

    fn new(lowered: &Lowered, placement: Option<Placement>) -> Self {
        let memory = memory::plan_memory(lowered, placement.as_ref());
        let buffer_bytes = lowered.buffers().iter().map(|buffer| buffer.bytes).collect();
        Plan { placement, memory, n_tasks: lowered.tasks().len(), buffer_bytes }
    }

    /// Refuses a graph that this plan was not made for.
    pub(crate) fn check(&self, lowered: &Lowered) -> Result<()> {
        let bytes = lowered.buffers().iter().map(|buffer| buffer.bytes);
        if self.n_tasks != lowered.tasks().len() || !bytes.eq(self.buffer_bytes.iter().copied()) {
            return Err(Error::new(ErrorKind::Plan, "the plan was made for another graph: make a new one"));
        }
        Ok(())
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
