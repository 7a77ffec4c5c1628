//! Arenas: memory for arrays that are made and forgotten together.
//!
//! An arena hands out memory by moving a mark (O(1), aligned to 64 bytes) and takes all of it back in
//! [`Arena::reset`], for which the borrow checker demands that no array of it is alive. Tasks may still be:
//! an arena has two slabs in turn, and a reset waits only for the tasks of the run before last. Slabs grow
//! while the first runs show how much is needed, then never again.
//!
//! Memory belongs to the runtime; an arena only names its blocks.

mod slab;

pub(crate) use slab::{BlockId, Slabs};

use crate::array::{Array, BaseRegion, Element, Raw, checked_bytes};
use crate::bytes::ALIGN;
use crate::error::{Result, at_caller};
use crate::runtime::Inner;
use crate::sync::{Arc, Mutex, lock};

/// The smallest block that an arena asks for.
const MIN_BLOCK: usize = 1 << 16;

/// Memory for arrays that live no longer than the next [`Arena::reset`].
///
/// ```
/// # use dahl_runtime::{Runtime, machine::Machine};
/// # fn main() -> dahl_runtime::Result<()> {
/// let runtime = Runtime::new(&Machine::with_workers(1))?;
/// let mut batch = runtime.arena("batch");
/// for _ in 0..3 {
///     let x = batch.zeros::<f32, 2>([4, 8])?;
///     assert_eq!(x.read()?[[3, 7]], 0.0);
///     batch.reset()?; // `x` is no longer used
/// }
/// # Ok(())
/// # }
/// ```
pub struct Arena {
    runtime: Arc<Inner>,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slabs: [Slab; 2],
    current: usize,
    /// The most bytes that a run has used.
    high_water: usize,
}

/// One of the two turns of an arena.
#[derive(Default)]
struct Slab {
    blocks: Vec<Piece>,
    /// Where the next array goes in the last block.
    mark: usize,
    /// Bytes handed out since the last reset.
    used: usize,
    /// The allocations made since the last reset.
    bases: Vec<usize>,
}

struct Piece {
    id: BlockId,
    address: crate::engine::submit::Address,
    bytes: usize,
}

impl Arena {
    pub(crate) fn new(runtime: Arc<Inner>, name: &str) -> Self {
        Arena { runtime, name: name.to_string(), state: Mutex::new(State::default()) }
    }

    /// The name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that the arena holds, both slabs together.
    pub fn capacity_bytes(&self) -> usize {
        let state = lock(&self.state);
        state.slabs.iter().flat_map(|slab| &slab.blocks).map(|piece| piece.bytes).sum()
    }

    /// Bytes handed out since the last reset.
    pub fn used_bytes(&self) -> usize {
        let state = lock(&self.state);
        state.slabs[state.current].used
    }

    /// An array whose content is unspecified: zeros, or what an earlier run has left.
    #[track_caller]
    pub fn array<T: Element, const R: usize>(&self, shape: [usize; R]) -> Result<Array<'_, T, R>> {
        let bytes = at_caller(checked_bytes::<T>(&shape))?.next_multiple_of(ALIGN);
        let base = self.runtime.tasks.new_base();
        let mut state = lock(&self.state);
        let current = state.current;
        let pointer = match state.slabs[current].take(bytes, &self.runtime, &self.name) {
            Ok(pointer) => pointer,
            Err(error) => {
                self.runtime.tasks.free_base(base);
                return at_caller(Err(error));
            }
        };
        state.slabs[current].bases.push(base);
        Ok(Array::new(
            Arc::clone(&self.runtime),
            Raw::row_major(pointer.cast(), shape),
            BaseRegion::whole(base, &shape),
        ))
    }

    /// An array of zeros.
    #[track_caller]
    pub fn zeros<T: Element, const R: usize>(&self, shape: [usize; R]) -> Result<Array<'_, T, R>> {
        self.filled(shape, T::default())
    }

    /// An array with the same value everywhere.
    #[track_caller]
    pub fn filled<T: Element, const R: usize>(&self, shape: [usize; R], value: T) -> Result<Array<'_, T, R>> {
        let mut array = self.array(shape)?;
        array.write()?.fill(value);
        Ok(array)
    }

    /// An array with a copy of these values, last dimension fastest.
    #[track_caller]
    pub fn array_from<T: Element, const R: usize>(
        &self,
        shape: [usize; R],
        values: &[T],
    ) -> Result<Array<'_, T, R>> {
        let mut array = self.array(shape)?;
        array.write()?.copy_from(values)?;
        Ok(array)
    }

    /// Takes all memory back. No array of this arena is alive, which the borrow checker sees to; tasks may
    /// be. Waits only for tasks of the run before last, whose slab is used next.
    #[track_caller]
    pub fn reset(&mut self) -> Result<()> {
        let runtime = Arc::clone(&self.runtime);
        let mut state = lock(&self.state);
        let State { slabs, current, high_water } = &mut *state;
        let next = &mut slabs[1 - *current];
        at_caller(runtime.tasks.wait_idle(&next.bases))?;
        next.bases.drain(..).for_each(|base| runtime.tasks.free_base(base));
        (next.mark, next.used) = (0, 0);
        *high_water = slabs[*current].used.max(*high_water);
        *current = 1 - *current;
        let slab = &mut slabs[*current];
        if *high_water > 0 && (slab.blocks.len() != 1 || slab.blocks[0].bytes < *high_water) {
            slab.blocks.drain(..).for_each(|piece| runtime.slabs.free(piece.id));
            at_caller(slab.grow(*high_water, &runtime, &self.name))?;
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *lock(&self.state));
        for slab in state.slabs {
            let blocks = slab.blocks.iter().map(|piece| piece.id).collect();
            self.runtime.slabs.retire(blocks, slab.bases, &self.runtime.tasks);
        }
    }
}

impl Slab {
    fn take(&mut self, bytes: usize, runtime: &Inner, name: &str) -> Result<*mut u8> {
        if self.blocks.last().is_none_or(|piece| piece.bytes - self.mark < bytes) {
            // Twice as much as there is keeps the number of blocks small while the need is unknown.
            let held: usize = self.blocks.iter().map(|piece| piece.bytes).sum();
            self.grow(bytes.max(held).max(MIN_BLOCK), runtime, name)?;
        }
        let piece = self.blocks.last().expect("there is a block with enough room");
        let pointer = piece.address.0.wrapping_add(self.mark);
        self.mark += bytes;
        self.used += bytes;
        Ok(pointer)
    }

    fn grow(&mut self, bytes: usize, runtime: &Inner, name: &str) -> Result<()> {
        let (id, pointer) = runtime.slabs.allocate(bytes, name)?;
        self.blocks.push(Piece { id, address: crate::engine::submit::Address(pointer), bytes });
        self.mark = 0;
        Ok(())
    }
}
