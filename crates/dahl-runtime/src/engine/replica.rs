//! Copies of stored arrays in other memories than the host's.
//!
//! Between two runs the host's copy is what everybody knows. A replica stays where it is, with a note of
//! which of its bytes are the same as the host's, so that the next run, of whichever session, copies only
//! what has changed since.

use super::device::{Allocation, Device};
use crate::error::Result;
use crate::machine::{HOST, MemoryId};
use crate::sync::Arc;
use std::ops::Range;

/// The replicas of an array.
#[derive(Default)]
pub(super) struct Replicas {
    /// By memory; the first one is that of the memory after the host's.
    replicas: Vec<Replica>,
}

#[derive(Default)]
struct Replica {
    bytes: Option<Allocation>,
    /// What is the same as in the host's memory: ranges in ascending order that do not touch.
    valid: Vec<Range<usize>>,
}

impl Replicas {
    /// The first byte of a memory's replica, which is made if there is none. The memory may be that of a
    /// device.
    pub fn pointer(
        &mut self,
        memory: MemoryId,
        bytes: usize,
        device: Option<&Arc<dyn Device>>,
    ) -> Result<*mut u8> {
        debug_assert_ne!(memory, HOST, "the host's copy is no replica");
        if self.replicas.len() < memory {
            self.replicas.resize_with(memory, Replica::default);
        }
        let replica = &mut self.replicas[memory - 1];
        if replica.bytes.as_ref().is_none_or(|held| held.len() < bytes || !held.is_on(device)) {
            // One after the other, or both would be there at a time.
            *replica = Replica::default();
            replica.bytes = Some(Allocation::new(bytes, device)?);
        }
        Ok(replica.bytes.as_ref().map_or(std::ptr::null_mut(), Allocation::pointer))
    }

    /// Whether these bytes are the same in a memory as in the host's.
    pub fn is_valid(&self, memory: MemoryId, range: &Range<usize>) -> bool {
        let valid = self.replicas.get(memory.wrapping_sub(1)).map_or(&[][..], |replica| &replica.valid);
        range.is_empty() || valid.iter().any(|valid| valid.start <= range.start && range.end <= valid.end)
    }

    /// Nothing is the same any more: somebody has written the host's copy.
    pub fn forget(&mut self) {
        self.replicas.iter_mut().for_each(|replica| replica.valid.clear());
    }

    /// Notes that these bytes are the same in a memory as in the host's. They lie after all that were noted
    /// since [`Replicas::forget`].
    pub fn note(&mut self, memory: MemoryId, range: Range<usize>) {
        let Some(Replica { valid, .. }) = self.replicas.get_mut(memory.wrapping_sub(1)) else { return };
        match valid.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => valid.push(range),
        }
    }

    /// Bytes of a memory's replica.
    pub fn len(&self, memory: MemoryId) -> usize {
        let replica = self.replicas.get(memory.wrapping_sub(1));
        replica.and_then(|replica| replica.bytes.as_ref()).map_or(0, Allocation::len)
    }

    /// Gives up the memory of all replicas.
    pub fn take(&mut self) -> impl Iterator<Item = Allocation> {
        std::mem::take(&mut self.replicas).into_iter().filter_map(|replica| replica.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_valid_until_it_is_forgotten() {
        let mut replicas = Replicas::default();
        assert!(!replicas.is_valid(2, &(0..1)) && replicas.is_valid(2, &(5..5)));
        let first = replicas.pointer(2, 100, None).unwrap();
        assert_eq!((replicas.len(1), replicas.len(2), replicas.len(3)), (0, 100, 0));
        replicas.note(2, 0..10);
        replicas.note(2, 10..20);
        replicas.note(2, 30..40);
        replicas.note(7, 0..10);
        let is_valid = |range: Range<usize>| replicas.is_valid(2, &range);
        assert!(is_valid(0..20) && is_valid(5..15) && is_valid(30..40));
        assert!(!is_valid(15..25) && !is_valid(20..30) && !is_valid(35..45));
        assert!(!replicas.is_valid(1, &(0..10)) && !replicas.is_valid(7, &(0..10)));
        // What is there stays there; a larger one begins anew.
        assert_eq!(replicas.pointer(2, 100, None).unwrap(), first);
        assert!(replicas.is_valid(2, &(0..20)));
        replicas.pointer(2, 200, None).unwrap();
        assert!(!replicas.is_valid(2, &(0..20)));
        replicas.note(2, 0..10);
        replicas.forget();
        assert!(!replicas.is_valid(2, &(0..10)));
        assert_eq!(replicas.take().count(), 1);
        assert_eq!(replicas.len(2), 0);
    }
}
