//! Copies of blocks between memories: those of a plan, those that somebody needs, and those at the end of a
//! run.

#![expect(unsafe_code, reason = "copies between memories")]

use super::{BoundGraph, PlannedReplicas, Replication};
use crate::engine::device::Device;
use crate::engine::memory::Store;
use crate::engine::planned::memories;
use crate::error::Result;
use crate::graph::{Block, BufferKind};
use crate::machine::{HOST, MemoryId};
use crate::plan::Copy;
use crate::progress::Stale;
use std::ptr;

/// Copies out of the memory of a device, and waits for that.
///
/// # Safety
/// As for [`Device::copy_out`].
pub(super) unsafe fn copy_out(
    device: &dyn Device,
    source: *mut u8,
    target: *mut u8,
    bytes: usize,
) -> Result<()> {
    // SAFETY: the caller vouches for both addresses.
    let event = unsafe { device.copy_out(source, target, bytes) }?;
    device.wait(event).map(|_| ())
}

impl BoundGraph {
    /// Makes a copy of the plan.
    #[cold]
    pub(super) fn execute_copy(&self, worker: usize, copy: usize, step: u64) {
        let &Copy { block: number, age, from, to, .. } = &self.copies[copy];
        if let Replication::Planned(PlannedReplicas { blocks, .. }) = &self.replication {
            let block = &blocks.blocks[number];
            let version = self.versions[block.buffer].number(step, age);
            self.transfer(worker, number, block, version, (from, to), step);
        }
    }

    /// Copies a version of a block from one memory to another, and records it as done by somebody. What goes
    /// to a device is only enqueued: whoever asks for that waits for it, too.
    pub(super) fn transfer(
        &self,
        who: usize,
        number: usize,
        block: &Block,
        version: usize,
        (from, to): (MemoryId, MemoryId),
        step: u64,
    ) {
        let (source, target) = self.ends(block, version, (from, to));
        let bytes = block.range.len();
        self.runner.transfer(who, number, from, step, || {
            // SAFETY: both lie in buffers of different memories that are at least `range.end` long. The
            // source is valid, written by somebody who has ended, and only read by others. Nobody uses the
            // target: on demand it is invalid, and its block is locked; in a planned order everybody who used
            // it has been waited for.
            let copied = unsafe {
                match (self.devices.of(from), self.devices.of(to)) {
                    (None, None) => {
                        ptr::copy_nonoverlapping(source, target, bytes);
                        Ok(())
                    }
                    (Some(from), None) => copy_out(&**from, source, target, bytes),
                    (None, Some(to)) => to.copy_in(source, target, bytes),
                    (Some(from), Some(to)) => to.copy_from(&**from, source, target, bytes),
                }
            };
            if let Err(error) = copied {
                let error = error.in_step(step);
                self.runner.fail(if who < self.runner.program() { error.on_worker(who) } else { error });
            }
        });
    }

    /// Where a version of a block is read and written, to copy it from one memory to another.
    pub(super) fn ends(
        &self,
        block: &Block,
        version: usize,
        (from, to): (MemoryId, MemoryId),
    ) -> (*mut u8, *mut u8) {
        let first = |memory| self.address(memory, block.buffer, version).wrapping_add(block.range.start);
        (first(from), first(to))
    }

    /// Where the first version of a buffer lies in the host's memory, during a run.
    pub fn host_address(&self, buffer: usize) -> *mut u8 {
        self.address(HOST, buffer, 0)
    }

    /// Notes that the program writes a buffer's version of a step.
    pub fn own(&self, buffer: usize, step: u64) {
        if let Replication::OnDemand(coherence) = &self.replication {
            coherence.own_buffer(buffer, self.versions[buffer].number(step, 0));
        }
    }

    /// Brings a buffer's version of a step into the host's memory, for the program.
    pub fn fetch(&self, buffer: usize, step: u64) {
        self.fetch_version(buffer, self.versions[buffer].number(step, 0), (0, 1), step);
    }

    /// Brings a version of a buffer, which has this age after so many steps of a run, into the host's memory.
    fn fetch_version(&self, buffer: usize, version: usize, (age, n): (usize, u64), step: u64) {
        let program = self.runner.program();
        match &self.replication {
            Replication::Alone => {}
            Replication::OnDemand(coherence) => {
                coherence.fetch_buffer(buffer, version, |Stale { number, block, version, from, to }| {
                    self.transfer(program, number, block, version, (from, to), step);
                });
            }
            Replication::Planned(planned) => {
                let blocks = &planned.blocks;
                for number in blocks.of_buffer[buffer].clone() {
                    let valid = planned.valid(number, age, n);
                    if let Some(from) = memories(valid).next().filter(|&from| from != HOST) {
                        self.transfer(program, number, &blocks.blocks[number], version, (from, HOST), step);
                    }
                }
            }
        }
    }

    /// Brings all state back into the host's memory, at the end of a run of `n` steps from `first` on. What
    /// is the same in other memories stays valid there.
    pub fn flush_state(&self, store: &mut Store, first: u64, n: u64) {
        for (buffer, kind) in self.kinds.iter().enumerate() {
            let BufferKind::State(id) = *kind else { continue };
            let blocks = match &self.replication {
                // Replicas are those of other sessions.
                Replication::Alone => {
                    if self.is_written[buffer] {
                        store.set_valid(id, []);
                    }
                    continue;
                }
                Replication::OnDemand(coherence) => coherence.blocks(),
                Replication::Planned(planned) => &planned.blocks,
            };
            let versions = &self.versions[buffer];
            let all = 0..versions.count as usize;
            // What no task writes has one value for all steps, which is that of age 0.
            let age_of = |version: usize| {
                let step = (first + n).checked_sub(1).filter(|_| versions.advances)?;
                all.clone().find(|&age| versions.number(step, age) == version)
            };
            let age_of = |version: usize| age_of(version).unwrap_or(0);
            all.clone()
                .for_each(|version| self.fetch_version(buffer, version, (age_of(version), n), first + n));
            let is_there = |memory: MemoryId, version: usize, number: usize| match &self.replication {
                Replication::Alone => false,
                Replication::OnDemand(coherence) => coherence.is_valid(number, version, memory),
                Replication::Planned(planned) => planned.valid(number, age_of(version), n) >> memory & 1 == 1,
            };
            let others = HOST + 1..self.memories.len();
            let valid = others.flat_map(|memory| all.clone().map(move |version| (memory, version))).flat_map(
                |(memory, version)| {
                    let numbers = blocks.of_buffer[buffer].clone();
                    let is_there = &is_there;
                    let there = numbers.filter(move |&number| is_there(memory, version, number));
                    there.map(move |number| (memory, version, blocks.blocks[number].range.clone()))
                },
            );
            // After a failure nobody knows which copies were made.
            match self.runner.has_failed() {
                true => store.set_valid(id, []),
                false => store.set_valid(id, valid),
            }
        }
    }
}
