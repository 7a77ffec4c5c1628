//! The memory behind arrays: zeroed blocks, aligned to 64 bytes, that belong to the runtime.
//!
//! Arenas and owned arrays only name their blocks. A block whose holder is gone is *retired*: it is freed as
//! soon as no task on its allocations is unfinished, and at the latest with the runtime, after its workers
//! have stopped. A holder that is forgotten rather than dropped never retires its blocks; that costs memory,
//! never safety.

use crate::bytes::Bytes;
use crate::engine::submit::Tasks;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Mutex, lock};

/// A block that lies still until it is retired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockId(usize);

/// All blocks of a runtime.
#[derive(Default)]
pub(crate) struct Slabs(Mutex<Registry>);

#[derive(Default)]
struct Registry {
    blocks: Vec<Option<Bytes>>,
    free_ids: Vec<usize>,
    retired: Vec<Retired>,
}

/// Blocks that wait for the tasks on these allocations.
struct Retired {
    blocks: Vec<BlockId>,
    bases: Vec<usize>,
}

impl Slabs {
    /// A zeroed block and its address.
    pub fn allocate(&self, bytes: usize, holder: &str) -> Result<(BlockId, *mut u8)> {
        let block = Bytes::zeroed(bytes).ok_or_else(|| {
            let message =
                format!("{holder}: cannot allocate {bytes} bytes; use smaller arrays or reset sooner");
            Error::new(ErrorKind::Memory, message)
        })?;
        let pointer = block.pointer();
        let mut registry = lock(&self.0);
        let id = registry.free_ids.pop().unwrap_or_else(|| {
            registry.blocks.push(None);
            registry.blocks.len() - 1
        });
        registry.blocks[id] = Some(block);
        Ok((BlockId(id), pointer))
    }

    /// Frees a block at once: its allocations are idle.
    pub fn free(&self, id: BlockId) {
        lock(&self.0).free(id);
    }

    /// Frees blocks and the numbers of their allocations as soon as the latter are idle.
    pub fn retire(&self, blocks: Vec<BlockId>, bases: Vec<usize>, tasks: &Tasks) {
        lock(&self.0).retired.push(Retired { blocks, bases });
        self.sweep(tasks);
    }

    /// Frees what has become idle.
    pub fn sweep(&self, tasks: &Tasks) {
        let mut registry = lock(&self.0);
        for i in (0..registry.retired.len()).rev() {
            if registry.retired[i].bases.iter().all(|&base| tasks.is_idle(base)) {
                let Retired { blocks, bases } = registry.retired.swap_remove(i);
                bases.into_iter().for_each(|base| tasks.free_base(base));
                blocks.into_iter().for_each(|id| registry.free(id));
            }
        }
    }

    /// Bytes in blocks that are not freed.
    pub fn n_bytes(&self) -> usize {
        lock(&self.0).blocks.iter().flatten().map(Bytes::len).sum()
    }
}

impl Registry {
    fn free(&mut self, id: BlockId) {
        if self.blocks[id.0].take().is_some() {
            self.free_ids.push(id.0);
        }
    }
}
