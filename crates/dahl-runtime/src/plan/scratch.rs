//! What kernels need while they run: scratch, behind the buffers in the arena of each memory.
//!
//! A unit executes one task at a time, so one range for each unit is enough for all of its tasks, as large as
//! the largest of them asks for. Which tasks these are is known by memory alone: whatever floats is taken
//! over by any unit of its memory, any other unit there stands in for one that rests, and in an open order
//! any unit executes any task. So all units of a memory have as much.
//!
//! It follows from the graph and the order, so plan files say nothing about it, and offsets of buffers are
//! what they would be without it.

use super::{MemoryPlan, Placement, Plan};
use crate::bytes::ALIGN;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Lowered;
use crate::machine::Machine;

/// For each memory, how many units compute there, and what the tasks need at most that one of them may
/// execute: those that are placed there, or all where the order is open.
fn needs(lowered: &Lowered, placement: Option<&Placement>, machine: &Machine) -> Vec<(usize, usize)> {
    let mut largest = vec![0; machine.memories.len()];
    let workers = placement.map(Placement::workers);
    for (id, task) in lowered.tasks.iter().enumerate().filter(|(_, task)| task.scratch_bytes > 0) {
        let of_memory = workers.as_ref().map(|workers| machine.units[workers[id]].memory);
        for (memory, largest) in largest.iter_mut().enumerate() {
            if of_memory.is_none_or(|of| of == memory) {
                *largest = task.scratch_bytes.max(*largest);
            }
        }
    }
    let n_units = |memory| machine.units.iter().filter(|unit| unit.memory == memory).count();
    let of_memory = |(memory, bytes)| match n_units(memory) {
        0 => (0, 0),
        n_units => (n_units, bytes),
    };
    largest.into_iter().enumerate().map(of_memory).collect()
}

/// Gives the units of every memory what their tasks need.
pub(super) fn add_scratch(
    memories: &mut [MemoryPlan],
    lowered: &Lowered,
    placement: Option<&Placement>,
    machine: &Machine,
) -> Result<()> {
    for (memory, (n_units, bytes)) in memories.iter_mut().zip(needs(lowered, placement, machine)) {
        let all = bytes.checked_next_multiple_of(ALIGN).and_then(|bytes| bytes.checked_mul(n_units));
        let fits = |all: &usize| {
            let unshared = memory.bytes_unshared.max(memory.bytes).checked_add(*all);
            unshared.is_some_and(|bytes| bytes <= isize::MAX as usize)
        };
        let Some(all) = all.filter(fits) else {
            let message = format!(
                "a kernel needs {bytes} bytes of scratch, and no memory has as much for {n_units} units: use smaller \
                 tiles"
            );
            return Err(Error::new(ErrorKind::Memory, message));
        };
        memory.unit_scratch_bytes = all.checked_div(n_units).unwrap_or(0);
        memory.scratch_bytes = all;
        memory.bytes += all;
        memory.bytes_unshared += all;
    }
    Ok(())
}

impl Plan {
    /// Refuses a machine whose units would have less scratch than their tasks need.
    pub(crate) fn check_scratch(&self, lowered: &Lowered, machine: &Machine) -> Result<()> {
        let needs = needs(lowered, self.placement(), machine);
        for (id, (memory, (n_units, bytes))) in self.memories().iter().zip(needs).enumerate() {
            let given = memory.unit_scratch_bytes;
            if bytes > given || n_units.checked_mul(given).is_none_or(|all| all > memory.scratch_bytes) {
                let message = format!(
                    "the plan has {} bytes of scratch in memory {id}, {given} for a unit, and its {n_units} units need \
                     {bytes} each: make a new plan",
                    memory.scratch_bytes
                );
                return Err(Error::new(ErrorKind::Plan, message));
            }
        }
        Ok(())
    }
}
