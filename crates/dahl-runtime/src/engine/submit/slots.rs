//! The slots that submitted tasks live in: found by number, never moved, used again and again.
//!
//! A slot is free, filled by the submitting thread (which holds the submission lock), then waiting for its
//! predecessors, then run by one worker, then free again. A *ticket* names one use of a slot: its number and
//! its generation, which rises when the task finishes. A ticket whose generation has passed stands for a
//! finished task; the release store that moves the generation on and the acquire load that sees it hand over
//! everything the task did.
//!
//! Most of a task's cost is moving its slot between the caches of two cores. What a worker needs therefore
//! lies in three cache lines; what only a failure needs lies elsewhere and stays with the submitting thread.

use super::templates::{Argument, Found, TemplateId};
use crate::sync::Mutex;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::cell::UnsafeCell;
use std::panic::Location;

/// Arguments of one task, at most.
pub(crate) const MAX_ARGS: usize = 12;

/// Successors that a slot has room for from the beginning. Tasks change slots from round to round; with this
/// room, the second round of a program rarely needs more than the first.
pub(super) const FEW_SUCCESSORS: usize = 16;

/// One use of a slot. Tickets of unfinished tasks are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

impl Ticket {
    pub fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// A place in memory that tasks on other threads may be told about.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(pub *mut u8);

// SAFETY: an address is only a number until a task uses it, and tasks use memory in the order of
// dependencies.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// What a task is.
pub(crate) struct Body {
    pub template: Found,
    pub n_args: u32,
    /// Tasks that were submitted before it.
    pub number: usize,
    pub location: &'static Location<'static>,
    pub scalars: Vec<f64>,
    pub pointers: [Address; MAX_ARGS],
    /// For failures; on lines that a worker does not look at otherwise.
    pub args: Vec<Argument>,
}

/// What waits for a task.
#[derive(Default)]
pub(crate) struct Links {
    pub successors: Vec<u32>,
    /// Whether a thread sleeps until this task has finished.
    pub watched: bool,
}

#[repr(align(64))]
pub(crate) struct Slot {
    generation: AtomicU32,
    /// Predecessors that have not finished, plus one while the task is being submitted.
    pub pending: AtomicU32,
    /// Whether it goes before tasks that are not urgent, once it is ready. Changes only between uses.
    pub urgent: AtomicBool,
    pub links: Mutex<Links>,
    body: UnsafeCell<Body>,
}

// SAFETY: everything but `body` is synchronised by itself; `body` has one user at a time (see `Slot::body`).
unsafe impl Sync for Slot {}

impl Default for Slot {
    fn default() -> Self {
        let body = Body {
            template: Found::Known(TemplateId::default()),
            n_args: 0,
            number: 0,
            location: Location::caller(),
            scalars: Vec::new(),
            pointers: [Address(std::ptr::null_mut()); MAX_ARGS],
            args: Vec::new(),
        };
        Slot {
            generation: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            urgent: AtomicBool::new(false),
            links: Mutex::new(Links { successors: Vec::with_capacity(FEW_SUCCESSORS), watched: false }),
            body: UnsafeCell::new(body),
        }
    }
}

impl Slot {
    /// The task in this slot.
    ///
    /// # Safety
    /// Only the one user of the slot may call this, and not while an earlier result is in use: the submitting
    /// thread from taking the slot off the free list until it lowers `pending` for the last time, then the
    /// worker that made or found the task ready until it puts the slot on the free list. `pending`, the ready
    /// queue and the lock of the free list hand it over.
    #[expect(clippy::mut_from_ref, reason = "the protocol above makes the access exclusive")]
    pub unsafe fn body(&self) -> &mut Body {
        // SAFETY: the caller is the one user.
        unsafe { &mut *self.body.get() }
    }

    /// Moves on to the next use; to be called with `links` locked, so that no successor is added too late.
    pub fn finish(&self) {
        self.generation.store(self.generation.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

const N_CHUNKS: usize = 21;
/// Chunk `k` holds this many slots times two to the `k`. Under shuttle every slot costs time.
pub(super) const FIRST_CHUNK: usize = if cfg!(feature = "shuttle") { 8 } else { 1024 };

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

    /// Starts to fetch a slot that will be filled soon: it lies in the cache of the worker that used it last.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            let slot = std::ptr::from_ref(self.get(index)).cast::<i8>();
            for line in 0..size_of::<Slot>() / 64 {
                // SAFETY: a prefetch reads nothing that the program can see, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_ET0>(slot.wrapping_add(64 * line)) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
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
