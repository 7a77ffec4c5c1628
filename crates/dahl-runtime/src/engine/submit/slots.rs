//! The slots that submitted tasks live in: found by number, never moved, used again and again.
//!
//! A slot is free, filled by the submitting thread (which holds the submission lock), then waiting for its
//! predecessors, then run by one worker, then free again. A *ticket* names one use of a slot: its number and its
//! generation, which rises when the task finishes. A ticket whose generation has passed stands for a finished
//! task; the release store that moves the generation on and the acquire load that sees it hand over everything
//! the task did.

use crate::array::{Dtype, Region, Shape};
use crate::codelet::{Codelet, Kernel};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use std::panic::Location;
use std::sync::OnceLock;

/// One use of a slot. Tickets of unfinished tasks are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

impl Ticket {
    pub fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// An argument of a submitted task: a view of a base allocation.
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    /// The first element of the view.
    pub pointer: Address,
    pub dtype: Dtype,
    /// The extents that the kernel sees.
    pub shape: Shape,
    /// The extents that give the distances between elements: those of the base after the first dimension.
    pub tile: Shape,
    /// The allocation that dependencies belong to.
    pub base: usize,
    /// What of the base is touched, in the base's own coordinates.
    pub region: Region,
    /// Whether the task needs what was there before.
    pub reads: bool,
    /// Whether the task changes it.
    pub writes: bool,
}

/// A place in memory that tasks on other threads may be told about.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(pub *mut u8);

/// What a task is.
pub(crate) struct Body {
    pub work: Option<Work>,
    pub args: Vec<Argument>,
    pub ints: Vec<i64>,
    pub scalars: Vec<f64>,
}

/// The part of a task that is copied rather than kept in lists.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub codelet: &'static Codelet,
    pub implementation: &'static str,
    pub kernel: Kernel,
    pub n_inputs: usize,
    pub accumulate: bool,
    pub location: &'static Location<'static>,
}

/// What waits for a task.
#[derive(Default)]
pub(crate) struct Links {
    pub successors: Vec<u32>,
    /// Whether a thread sleeps until this task has finished.
    pub watched: bool,
}

pub(crate) struct Slot {
    generation: AtomicU32,
    /// Predecessors that have not finished, plus one while the task is being submitted.
    pub pending: AtomicU32,
    pub links: Mutex<Links>,
    /// Never contended: the submitting thread fills it before the task is ready, one worker empties it.
    pub body: Mutex<Body>,
}

impl Default for Slot {
    fn default() -> Self {
        let body = Body { work: None, args: Vec::new(), ints: Vec::new(), scalars: Vec::new() };
        Slot {
            generation: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            links: Mutex::new(Links::default()),
            body: Mutex::new(body),
        }
    }
}

impl Slot {
    /// Moves on to the next use; to be called with `links` locked, so that no successor is added too late.
    pub fn finish(&self) {
        self.generation.store(self.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

const N_CHUNKS: usize = 21;
/// Chunk `k` holds this many slots times two to the `k`. Under shuttle every slot costs time.
const FIRST_CHUNK: usize = if cfg!(feature = "shuttle") { 8 } else { 1024 };

/// All slots. They grow in chunks, so that a slot stays where it is.
pub(crate) struct Slots([OnceLock<Box<[Slot]>>; N_CHUNKS]);

impl Slots {
    pub fn new() -> Self {
        Slots(std::array::from_fn(|_| OnceLock::new()))
    }

    /// Makes slot `index` exist; slots are asked for in order, by the thread that holds the submission lock.
    pub fn ensure(&self, index: u32) {
        let (chunk, _) = place(index);
        self.0[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::default()).collect());
    }

    #[inline]
    pub fn get(&self, index: u32) -> &Slot {
        let (chunk, offset) = place(index);
        &self.0[chunk].get().expect("slots are made before they are named")[offset]
    }

    /// The ticket for the current use of a slot.
    pub fn ticket(&self, index: u32) -> Ticket {
        Ticket(u64::from(self.get(index).generation.load(Ordering::Acquire)) << 32 | u64::from(index))
    }

    /// Whether the task has not finished.
    #[inline]
    pub fn is_alive(&self, ticket: Ticket) -> bool {
        self.get(ticket.slot()).generation.load(Ordering::Acquire) == (ticket.0 >> 32) as u32
    }
}

fn place(index: u32) -> (usize, usize) {
    let shifted = index as usize + FIRST_CHUNK;
    let chunk = (shifted / FIRST_CHUNK).ilog2() as usize;
    (chunk, shifted - (FIRST_CHUNK << chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for index in 0..FIRST_CHUNK as u32 * 20 {
            if next.1 == FIRST_CHUNK << next.0 {
                next = (next.0 + 1, 0);
            }
            assert_eq!(place(index), next);
            next.1 += 1;
        }
    }
}
