//! Memory that sessions take turns in.
//!
//! What a session keeps within steps is worth nothing between two runs. So sessions that never run at the
//! same time, such as training and evaluation, share one arena per memory, as large as the largest of them
//! needs. Whoever runs has it for itself until its workers are done; a second one is refused.

use super::device::{Allocation, Device, Devices};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::MemoryId;
use crate::sync::{Arc, Mutex, lock};

/// Arenas for sessions that take turns. Clones are the same workspace.
#[derive(Clone, Default)]
pub struct Workspace(Arc<Mutex<Arenas>>);

#[derive(Default)]
struct Arenas {
    /// One for each memory.
    arenas: Vec<Allocation>,
    /// The device that each memory belongs to, if it does.
    devices: Vec<Option<Arc<dyn Device>>>,
    /// The bytes that the largest session needs of each memory.
    needed: Vec<usize>,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// A session runs in it.
    Taken,
    /// A run was given up, so a kernel may be at work in it for ever.
    Lost,
}

impl Workspace {
    /// A workspace for sessions that never run at the same time.
    pub fn new() -> Self {
        Workspace::default()
    }

    /// Bytes of a memory, and how many of them were touched so far, in whole pages; none where the system
    /// does not tell.
    pub fn memory_use(&self, memory: MemoryId) -> (usize, Option<usize>) {
        let arenas = lock(&self.0);
        arenas.arenas.get(memory).map_or((0, Some(0)), |arena| (arena.len(), arena.resident_bytes()))
    }

    /// Makes room for a session that needs so many bytes of each memory, all of which are the host's, for
    /// engines that bind a graph.
    pub fn reserve(&self, bytes: &[usize]) -> Result<()> {
        self.reserve_on(bytes, &Devices::default())
    }

    /// The same where some memories belong to devices.
    pub(super) fn reserve_on(&self, bytes: &[usize], devices: &Devices) -> Result<()> {
        let mut arenas = lock(&self.0);
        let before = arenas.needed.clone();
        let n_memories = before.len().max(bytes.len());
        if let Some(memory) = (0..bytes.len()).find(|&memory| !arenas.belongs_to(memory, devices.of(memory)))
        {
            let message = format!(
                "memory {memory} of the workspace belongs to another device or to none: give each engine a workspace of \
                 its own"
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        arenas.devices.extend((before.len()..n_memories).map(|memory| devices.of(memory).cloned()));
        arenas.needed.resize(n_memories, 0);
        arenas.needed.iter_mut().zip(bytes).for_each(|(needed, bytes)| *needed = (*needed).max(*bytes));
        // Whoever runs in it at present must not lose it; the next one to enter makes it larger.
        let grown = if arenas.state == State::Free { arenas.grow() } else { Ok(()) };
        if grown.is_err() {
            arenas.devices.truncate(before.len());
            arenas.arenas.truncate(before.len());
            arenas.needed = before;
        }
        grown
    }

    /// Takes all arenas for a run, which ends with the lease, for engines that begin one. `place` is told
    /// where each of them begins: there are as many bytes as anybody has [reserved](Workspace::reserve),
    /// aligned to a cache line, with any contents. Refuses while another run is in it.
    pub fn enter(&self, mut place: impl FnMut(MemoryId, *mut u8)) -> Result<Lease> {
        let mut arenas = lock(&self.0);
        let refuse = |message: &str| Err(Error::new(ErrorKind::Usage, message));
        match arenas.state {
            State::Free => {}
            State::Taken => {
                return refuse(
                    "another session runs in the same workspace: run them in turn, or give each its own",
                );
            }
            State::Lost => {
                return refuse(
                    "the workspace was lost with a run that was given up: make new sessions in a new one",
                );
            }
        }
        arenas.grow()?;
        arenas.state = State::Taken;
        arenas.arenas.iter().enumerate().for_each(|(memory, arena)| place(memory, arena.pointer()));
        Ok(Lease { workspace: self.clone(), is_lost: false })
    }
}

impl Arenas {
    /// Whether a memory belongs to this device, or to the host, or is not known yet.
    fn belongs_to(&self, memory: MemoryId, device: Option<&Arc<dyn Device>>) -> bool {
        match (self.devices.get(memory), device) {
            (None, _) | (Some(None), None) => true,
            (Some(Some(known)), Some(device)) => Arc::ptr_eq(known, device),
            _ => false,
        }
    }

    /// Makes every arena as large as is needed. Nothing that is in them is worth anything.
    fn grow(&mut self) -> Result<()> {
        for (memory, (&needed, device)) in self.needed.iter().zip(&self.devices).enumerate() {
            let device = device.as_ref();
            match self.arenas.get_mut(memory) {
                Some(arena) if arena.len() >= needed => {}
                Some(arena) => {
                    // One after the other, or both would be there at a time.
                    *arena = Allocation::new(0, device)?;
                    *arena = Allocation::new(needed, device)?;
                }
                None => self.arenas.push(Allocation::new(needed, device)?),
            }
        }
        Ok(())
    }
}

/// The right to run in a workspace, until it is dropped.
#[must_use = "the run ends with it"]
pub struct Lease {
    workspace: Workspace,
    is_lost: bool,
}

impl Lease {
    /// Leaves the workspace to a kernel that may never end. Whoever calls it keeps a clone of the workspace
    /// for as long as the kernel may run: the memory is freed with the last one.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.workspace.0).state = if self.is_lost { State::Lost } else { State::Free };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::ALIGN;

    #[test]
    fn one_at_a_time_has_room_for_the_largest() {
        let workspace = Workspace::new();
        assert_eq!(workspace.memory_use(0), (0, Some(0)));
        workspace.reserve(&[100]).unwrap();
        workspace.reserve(&[50, 30]).unwrap();
        let mut placed = Vec::new();
        let lease = workspace.enter(|memory, base| placed.push((memory, base as usize % ALIGN))).unwrap();
        assert_eq!(placed, [(0, 0), (1, 0)]);
        assert_eq!((workspace.memory_use(0).0, workspace.memory_use(1).0), (100, 30));
        let refused =
            workspace.clone().enter(|_, _| ()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("another session runs"), "{refused}");
        // What is taken stays where it is.
        workspace.reserve(&[1000]).unwrap();
        assert_eq!(workspace.memory_use(0).0, 100);
        drop(lease);
        let mut lease = workspace.enter(|_, _| ()).unwrap();
        assert_eq!(workspace.memory_use(0).0, 1000);
        lease.lose();
        drop(lease);
        assert!(workspace.enter(|_, _| ()).is_err());
    }

    #[test]
    fn room_that_there_is_not_is_refused_and_forgotten() {
        let workspace = Workspace::new();
        workspace.reserve(&[64]).unwrap();
        assert_eq!(workspace.reserve(&[isize::MAX as usize - 63]).unwrap_err().kind(), ErrorKind::Memory);
        assert!(workspace.enter(|_, _| ()).is_ok());
        assert_eq!(workspace.memory_use(0).0, 64);
    }
}
