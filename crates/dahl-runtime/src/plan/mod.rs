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
mod copies;
mod nodes;
mod memory;
mod scratch;
mod profile;
mod reuse;
mod schedule;
mod identity;
pub mod file;

pub use copies::Copy;
pub use file::PlanFile;
pub use memory::MemoryPlan;
pub(crate) use nodes::Interleaved;
pub use place::Placement;
pub use profile::MemoryProfile;
pub use schedule::Schedule;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Blocks, Cut, CutOptions, Edge, Graph, Lowered, Task, TaskId, lower};
use crate::hash::Fingerprint;
use crate::machine::{Kind, Machine, MemoryId};
use crate::schedule::Policy;
use copies::Copies;
use memory::Memories;
use nodes::Nodes;
use place::Floats;
use std::collections::BTreeSet;

/// Who decides on units and order.
#[derive(Clone, Debug)]
pub enum Order {
    /// The plan.
    Planned(Placement),
    /// A scheduler, while the graph is running.
    Open(Policy),
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
    /// Copies between memories; none where the order is open, or where there is one memory.
    copies: Copies,
    /// One plan for each memory.
    memories: Vec<MemoryPlan>,
    /// What sharing memory adds to the edges of the graph.
    memory_edges: Vec<Edge>,
    /// The graph that this plan is for.
    lowered: Fingerprint,
    /// The codes of the tasks, each with the unit that executes it; with none where the order is open.
    codes: Vec<(&'static str, Option<usize>)>,
}

impl Plan {
    /// Fixes units and order by heuristic, except for what floats (see [`Placement`]). Units get work in
    /// proportion to their speed.
    pub fn heuristic(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        machine.check()?;
        Plan::new(lowered, machine, Order::Planned(place::place(lowered, machine, Floats::Some)?))
    }

    /// Fixes units and order of every task: nothing floats.
    pub fn fixed(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        machine.check()?;
        Plan::new(lowered, machine, Order::Planned(place::place(lowered, machine, Floats::None)?))
    }

    /// Leaves units and order open, to be decided as tasks become ready. Buffers share memory only where
    /// dependencies separate them. The policy is a [`SchedulerKind`](crate::schedule::SchedulerKind), or one
    /// of another crate.
    pub fn open(lowered: &Lowered, machine: &Machine, policy: impl Into<Policy>) -> Result<Self> {
        machine.check()?;
        lowered.homes(machine)?;
        let policy = policy.into();
        policy.check()?;
        Plan::new(lowered, machine, Order::Open(policy))
    }

    fn new(lowered: &Lowered, machine: &Machine, order: Order) -> Result<Self> {
        let copies = Plan::find_copies(lowered, machine, &order);
        let placement = order.placement().map(|placement| (placement, &copies));
        let (memories, memory_edges) = memory::plan_memories(&Nodes::new(lowered, placement, machine))?;
        Plan::of_parts(lowered, machine, order, copies, (memories, memory_edges))
    }

    fn find_copies(lowered: &Lowered, machine: &Machine, order: &Order) -> Copies {
        order.placement().map_or_else(Copies::default, |placement| copies::find(lowered, placement, machine))
    }

    /// A plan whose copies and buffers were planned for this order.
    fn of_parts(
        lowered: &Lowered,
        machine: &Machine,
        order: Order,
        copies: Copies,
        (mut memories, memory_edges): Memories,
    ) -> Result<Self> {
        scratch::add_scratch(&mut memories, lowered, order.placement(), machine)?;
        let units = order.placement().map(Placement::workers);
        let code = |(id, task): (usize, &Task)| (task.code, units.as_ref().map(|units| units[id]));
        let codes: BTreeSet<_> = lowered.tasks().iter().enumerate().map(code).collect();
        let (codes, lowered) = (codes.into_iter().collect(), Fingerprint::of_lowered(lowered));
        Ok(Plan { order, copies, memories, memory_edges, lowered, codes })
    }

    /// Refuses a graph that this plan was not made for.
    pub fn check(&self, lowered: &Lowered) -> Result<()> {
        if self.lowered != Fingerprint::of_lowered(lowered) {
            return Err(Error::new(ErrorKind::Plan, "the plan was made for another graph: make a new one"));
        }
        Ok(())
    }

    /// Refuses a machine that has not as many units as are planned for.
    pub(crate) fn check_units(&self, machine: &Machine) -> Result<()> {
        let there = machine.units.len();
        if let Some(placement) = self.placement().filter(|placement| placement.order.len() != there) {
            let planned = placement.order.len();
            let message = format!("the plan is for {planned} workers and there are {there}: make a new plan");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        Ok(())
    }

    /// Refuses a machine that has other units or memories than the plan is for, whose units cannot run their
    /// tasks, or one of whose memories has not enough room. State counts too: what is computed on a unit must
    /// be there.
    pub fn check_machine(&self, machine: &Machine) -> Result<()> {
        self.check_units(machine)?;
        self.check_codes(machine)?;
        let (planned, there) = (self.memories.len(), machine.memories.len());
        if planned != there {
            let message =
                format!("the plan is for {planned} memories and there are {there}: make a new plan");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        for (id, (memory, plan)) in machine.memories.iter().zip(&self.memories).enumerate() {
            let needed = plan.bytes.saturating_add(plan.state_bytes);
            if let Some(limit) = memory.limit_bytes.filter(|&limit| limit < needed) {
                let message = format!(
                    "a step needs {needed} bytes with weights, data and scratch, and memory {id} has {limit}: use a smaller batch, \
                     or a plan that needs less"
                );
                return Err(Error::new(ErrorKind::Memory, message));
            }
        }
        Ok(())
    }

    /// Refuses a machine whose units cannot run their tasks.
    fn check_codes(&self, machine: &Machine) -> Result<()> {
        let n_units = machine.units.len();
        for &(code, unit) in &self.codes {
            let message = match unit {
                Some(unit) if unit >= n_units || machine.runs(unit, code) => continue,
                Some(unit) => {
                    let Kind { name, code: own, .. } = machine.kind_of(unit);
                    format!(
                        "the plan has unit {unit} execute tasks in the code {code}, and that unit, of the kind {name}, runs {own}: \
                         make a new plan"
                    )
                }
                None if (0..n_units).any(|unit| machine.runs(unit, code)) => continue,
                None => format!(
                    "the plan has tasks in the code {code}, and no unit of this machine runs that: use a machine with such a \
                     unit, or make a new plan"
                ),
            };
            return Err(Error::new(ErrorKind::Plan, message));
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

    /// Offsets and sizes in a memory. They hold for this plan's order only.
    pub fn memory(&self, memory: MemoryId) -> &MemoryPlan {
        &self.memories[memory]
    }

    /// The plans of all memories.
    pub fn memories(&self) -> &[MemoryPlan] {
        &self.memories
    }

    /// The copies between memories, in the order in which they are made.
    pub fn copies(&self) -> &[Copy] {
        &self.copies.copies
    }

    /// What sharing memory adds to the edges of the graph. Copies are ends of edges, too: their numbers
    /// follow the last task's.
    pub fn memory_edges(&self) -> &[Edge] {
        &self.memory_edges
    }

    /// All edges between tasks and [copies](Plan::copies), whose numbers follow the last task's.
    pub fn edges(&self, lowered: &Lowered) -> Vec<Edge> {
        [&lowered.edges[..], &self.copies.edges[..], &self.memory_edges[..]].concat()
    }

    /// The edges between tasks alone. What a copy waits for, the task waits for that it is made before. What
    /// waits for a copy alone is left out.
    pub(crate) fn task_edges(&self, lowered: &Lowered) -> Vec<Edge> {
        if self.copies().is_empty() {
            return self.edges(lowered);
        }
        let n_tasks = lowered.tasks.len();
        let task = |node: TaskId| match (node as usize).checked_sub(n_tasks) {
            Some(copy) => self.copies()[copy].before,
            None => node,
        };
        let mut edges = self.edges(lowered);
        edges.retain(|edge| (edge.from as usize) < n_tasks);
        edges.iter_mut().for_each(|edge| edge.to = task(edge.to));
        edges.retain(|edge| edge.from != edge.to || edge.distance > 0);
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// The blocks that copies are of, and for each block and age the memories, as bits, in which it is valid
    /// at the end of a step; nothing where there are no copies to plan.
    pub(crate) fn replicas(&self) -> (&Blocks, &[Vec<u32>]) {
        (&self.copies.blocks, &self.copies.valid)
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
