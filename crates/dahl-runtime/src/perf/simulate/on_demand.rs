//! Copies on demand in a simulated run: which memory has what, as in a run of threads, and what copies take.

use crate::graph::{BufferKind, Lowered, Role};
use crate::machine::{Machine, MemoryId};
use crate::progress::{Coherence, Stale};
use crate::schedule::copy_seconds;
use std::cell::Cell;

/// The blocks of a graph on a machine with several memories, at the beginning of a run: all state is in the
/// host's memory.
pub(in crate::perf) struct OnDemand<'a> {
    coherence: Coherence,
    lowered: &'a Lowered,
    machine: &'a Machine,
    /// For each buffer, whether every step has a version of its own.
    advances: Vec<bool>,
}

impl<'a> OnDemand<'a> {
    pub fn new(lowered: &'a Lowered, machine: &'a Machine) -> Self {
        let is_state = |kind: BufferKind| matches!(kind, BufferKind::State(_));
        let mut advances: Vec<bool> = lowered.buffers.iter().map(|buffer| !is_state(buffer.kind)).collect();
        for access in lowered.tasks.iter().flat_map(|task| &task.accesses) {
            advances[access.buffer] |= access.writes;
        }
        OnDemand { coherence: Coherence::new(lowered), lowered, machine, advances }
    }

    fn version(&self, buffer: usize, step: u64, age: usize) -> usize {
        let count = self.lowered.versions(buffer) as u64;
        let step = if self.advances[buffer] { step } else { 0 };
        ((step + count - age as u64) % count) as usize
    }

    /// Brings what a task of a step needs into a memory; the seconds that it takes.
    pub fn prepare(&self, task: usize, step: u64, memory: MemoryId) -> f64 {
        let seconds = Cell::new(0.0);
        let version = |buffer, age| self.version(buffer, step, age);
        self.coherence.prepare(task, memory, version, |Stale { block, from, .. }| {
            seconds.set(seconds.get() + copy_seconds(self.machine, block.range.len(), from, memory));
        });
        seconds.get()
    }

    /// What a task of a step lacks in a memory.
    pub fn missing(&self, task: usize, step: u64, memory: MemoryId, each: &mut dyn FnMut(MemoryId, usize)) {
        self.coherence.missing(task, memory, |buffer, age| self.version(buffer, step, age), each);
    }

    /// The program has filled the ports of a step.
    pub fn begin_step(&self, step: u64) {
        for buffer in self.rings(Role::Port) {
            self.coherence.own_buffer(buffer, self.version(buffer, step, 0));
        }
    }

    /// The program reads the outputs of a step, in its own time.
    pub fn end_step(&self, step: u64) {
        for buffer in self.rings(Role::Output) {
            self.coherence.fetch_buffer(buffer, self.version(buffer, step, 0), |_| {});
        }
    }

    fn rings(&self, role: Role) -> impl Iterator<Item = usize> {
        let rings = self.lowered.rings.iter().flatten();
        rings.filter(move |(_, of)| *of == role).map(|(buffer, _)| *buffer)
    }
}
