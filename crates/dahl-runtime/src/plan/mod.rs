//! Plans: how tasks are cut, who executes what in which order, and where each buffer lies.
//!
//! A [`Cut`] fixes tiling, implementations, layouts and reduction groups: everything that bits depend on. It
//! comes before lowering; a [`Plan`] of the lowered graph then fixes units and order ([`Placement`]) and
//! offsets ([`MemoryPlan`]). The defaults come from fast heuristics that never look at the number of workers
//! where bits are concerned. Both together are written to and read from a [`PlanFile`].
//!
//! Planning does no I/O and is deterministic. The memory a step needs (MEM_MAX) is [`MemoryPlan::bytes`],
//! which is known before anything runs. A memory plan holds for its order only, so a [`Plan`] has both.

mod place;
mod memory;
mod profile;
mod reuse;
mod schedule;
mod identity;
pub mod file;

pub use file::PlanFile;
pub use memory::MemoryPlan;
pub use place::Placement;
pub use profile::MemoryProfile;
pub use schedule::Schedule;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Cut, CutOptions, Graph, Lowered, lower};
use crate::hash::Fingerprint;
use crate::machine::Machine;
use crate::schedule::SchedulerKind;
use place::Floats;

/// Who decides on units and order.
#[derive(Clone, Debug)]
pub enum Order {
    /// The plan.
    Planned(Placement),
    /// A scheduler, while the graph is running.
    Open(SchedulerKind),
}

impl Order {
    fn placement(&self) -> Option<&Placement> {
        match self {
            Order::Planned(placement) => Some(placement),
            Order::Open(_) => None,
        }
    }
}

/// How a lowered graph is executed. Memory is planned for an order, so the two are made together.
#[derive(Clone, Debug)]
pub struct Plan {
    order: Order,
    memory: MemoryPlan,
    /// The graph that this plan is for.
    lowered: Fingerprint,
}

impl Plan {
    /// Fixes units and order by heuristic, except for what floats (see [`Placement`]). Units get work in
    /// proportion to their speed.
    pub fn heuristic(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        machine.check()?;
        Plan::new(lowered, Order::Planned(place::place(lowered, machine, Floats::Some)))
    }

    /// Fixes units and order of every task: nothing floats.
    pub fn fixed(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        machine.check()?;
        Plan::new(lowered, Order::Planned(place::place(lowered, machine, Floats::None)))
    }

    /// Leaves units and order open, to be decided as tasks become ready. Buffers share memory only where
    /// dependencies separate them.
    pub fn open(lowered: &Lowered, machine: &Machine, kind: SchedulerKind) -> Result<Self> {
        machine.check()?;
        Plan::new(lowered, Order::Open(kind))
    }

    fn new(lowered: &Lowered, order: Order) -> Result<Self> {
        let memory = memory::plan_memory(lowered, order.placement())?;
        Ok(Plan::of_parts(lowered, order, memory))
    }

    /// A plan whose memory was planned for this order.
    fn of_parts(lowered: &Lowered, order: Order, memory: MemoryPlan) -> Self {
        Plan { order, memory, lowered: Fingerprint::of_lowered(lowered) }
    }

    /// Refuses a graph that this plan was not made for.
    pub(crate) fn check(&self, lowered: &Lowered) -> Result<()> {
        if self.lowered != Fingerprint::of_lowered(lowered) {
            return Err(Error::new(ErrorKind::Plan, "the plan was made for another graph: make a new one"));
        }
        Ok(())
    }

    /// Refuses a machine one of whose memories has not enough room. State counts too: what is computed on a
    /// unit must be there.
    pub fn check_machine(&self, machine: &Machine) -> Result<()> {
        let needed = self.memory.bytes.saturating_add(self.memory.state_bytes);
        for (id, memory) in machine.memories.iter().enumerate() {
            if let Some(limit) = memory.limit_bytes.filter(|&limit| limit < needed) {
                let message = format!(
                    "a step needs {needed} bytes with weights and data, and memory {id} has {limit}: use a smaller batch, \
                     or a plan that needs less"
                );
                return Err(Error::new(ErrorKind::Memory, message));
            }
        }
        Ok(())
    }

    /// Who decides on units and order.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Units and order, if they are planned.
    pub fn placement(&self) -> Option<&Placement> {
        self.order.placement()
    }

    /// Offsets, sizes and the edges that sharing adds. They hold for this plan's order only.
    pub fn memory(&self) -> &MemoryPlan {
        &self.memory
    }
}

/// A recorded step with everything that was decided about it: what a session needs, and what a plan file
/// holds.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What bits depend on.
    pub cut: Cut,
    /// The graph over tile buffers that the cut makes.
    pub lowered: Lowered,
    /// Units, order and memory.
    pub plan: Plan,
}

impl Planned {
    /// Cuts a graph by heuristic, lowers it, and plans the result as `plan` says.
    pub fn new(
        graph: &Graph,
        options: &CutOptions,
        plan: impl FnOnce(&Lowered) -> Result<Plan>,
    ) -> Result<Self> {
        let cut = Cut::heuristic(graph, options)?;
        let lowered = lower(graph, &cut)?;
        let plan = plan(&lowered)?;
        Ok(Planned { cut, lowered, plan })
    }
}
