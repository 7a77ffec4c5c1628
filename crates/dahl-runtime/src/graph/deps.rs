//! Which earlier tasks a task must wait for, found from the regions it reads and writes.
//!
//! Recording, lowering and dynamic submission hand their accesses to a [`Tracker`] in program order; it
//! answers with the tasks that must come first: the last overlapping writes before a read, the last
//! overlapping reads and writes before a write.
//!
//! The invariant: the cells of a base are pairwise disjoint, and each cell knows the last task that wrote all
//! of it and the tasks that have read all of it since. An access that matches no cell exactly cuts the cells
//! it meets along its border, so every edge found is a true conflict, and every conflict is found or follows
//! from the edges found. Tilings that come back find their cells again, in constant time.

use crate::shape::Region;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The dependency analysis of a sequence of accesses. Tasks are values of `T`; bases (the allocations that
/// regions belong to) are small numbers.
///
/// ```
/// use dahl_runtime::array::Region;
/// use dahl_runtime::graph::deps::Tracker;
///
/// let mut tracker = Tracker::default();
/// let mut predecessors = Vec::new();
/// tracker.access(0, &Region::new(&[0..8]), true, 'w', &mut predecessors);
/// tracker.access(0, &Region::new(&[0..4]), false, 'r', &mut predecessors);
/// assert_eq!(predecessors, ['w']);
/// ```
pub struct Tracker<T> {
    bases: Vec<Base<T>>,
    /// Reader lists of cells that are gone, so that a steady state allocates nothing.
    spare: Vec<Vec<T>>,
    boxes: Vec<Region>,
    boxes_next: Vec<Region>,
}

struct Base<T> {
    cells: Vec<Cell<T>>,
    index: HashMap<Region, u32, BuildHasherDefault<RegionHasher>>,
    /// Where the last exact access was: tiles are mostly visited in order or again and again.
    last: usize,
    /// The number of cells at which cells of finished tasks are looked for again.
    prune_at: usize,
}

struct Cell<T> {
    region: Region,
    writer: Option<T>,
    readers: Vec<T>,
}

/// Below this number of cells they are compared one by one rather than hashed.
const HASH_FROM: usize = 8;
/// Below this number of predecessors duplicates are looked for one by one rather than by sorting.
const SORT_FROM: usize = 32;
const FIRST_PRUNE: usize = 64;
/// Room for readers in a cell that has any.
const FEW_READERS: usize = 24;

impl<T> Default for Tracker<T> {
    fn default() -> Self {
        Tracker { bases: Vec::new(), spare: Vec::new(), boxes: Vec::new(), boxes_next: Vec::new() }
    }
}

impl<T: Copy + Ord> Tracker<T> {
    /// An empty tracker.
    pub fn new() -> Self {
        Tracker::default()
    }

    /// Records that `task` reads or writes `region` of `base`, and adds to `preds` the tasks that must
    /// precede it. `preds` stays free of duplicates and never contains `task` itself, whose accesses may come
    /// in any order but must not be interleaved with those of other tasks. The order inside `preds` is
    /// deterministic.
    pub fn access(&mut self, base: usize, region: &Region, writes: bool, task: T, preds: &mut Vec<T>) {
        self.access_alive(base, region, writes, task, preds, |_| true);
    }

    /// Like [`Tracker::access`], for tasks that finish while others are still being added: tasks for which
    /// `alive` is false (it must hold for `task` itself) are not reported and are forgotten in time, so that
    /// memory stays bounded by the number of unfinished tasks and of regions in use.
    pub fn access_alive(
        &mut self,
        base: usize,
        region: &Region,
        writes: bool,
        task: T,
        preds: &mut Vec<T>,
        alive: impl Fn(T) -> bool,
    ) {
        if region.is_empty() {
            return;
        }
        if base >= self.bases.len() {
            self.bases.resize_with(base + 1, Base::default);
        }
        let push = |preds: &mut Vec<T>, pred: T| {
            let known = match preds.len() {
                0..SORT_FROM => preds.contains(&pred),
                n => preds[n - 1] == pred,
            };
            if !known && pred != task && alive(pred) {
                preds.push(pred);
            }
        };
        match self.bases[base].find(region) {
            Some(hit) => {
                let cells = &mut self.bases[base];
                cells.last = hit;
                cells.cells[hit].record(writes, task, preds, push, &alive);
            }
            None => self.cut(base, region, writes, task, preds, push, &alive),
        }
        if preds.len() >= SORT_FROM {
            preds.sort_unstable();
            preds.dedup();
        }
    }

    /// Adds to `preds` the tasks that an access would have to wait for, without recording one.
    pub fn pending(
        &self,
        base: usize,
        region: &Region,
        writes: bool,
        preds: &mut Vec<T>,
        alive: impl Fn(T) -> bool,
    ) {
        let Some(base) = self.bases.get(base) else { return };
        for cell in base.cells.iter().filter(|cell| cell.region.overlaps(region)) {
            let readers = if writes { &cell.readers[..] } else { &[] };
            preds.extend(cell.writer.iter().chain(readers).copied().filter(|&pred| alive(pred)));
        }
        preds.sort_unstable();
        preds.dedup();
    }

    /// Adds to `tasks` every task that `base` is known to have and that is still alive, perhaps several
    /// times. When none is, all tasks that ever touched the base have finished, as each comes after those it
    /// replaced.
    pub fn unfinished(&self, base: usize, tasks: &mut Vec<T>, alive: impl Fn(T) -> bool) {
        let cells = self.bases.get(base).map_or(&[][..], |base| &base.cells);
        let known = cells.iter().flat_map(|cell| cell.writer.iter().chain(&cell.readers));
        tasks.extend(known.copied().filter(|&task| alive(task)));
    }

    /// Forgets every task for which `alive` is false.
    pub fn retain(&mut self, alive: impl Fn(T) -> bool) {
        for base in &mut self.bases {
            base.prune(&alive, &mut self.spare);
        }
    }

    /// Forgets everything about `base`, whose number may then stand for another allocation.
    pub fn drop_base(&mut self, base: usize) {
        if let Some(base) = self.bases.get_mut(base) {
            base.index.clear();
            self.spare.extend(base.cells.drain(..).map(|cell| cleared(cell.readers)));
            (base.last, base.prune_at) = (0, FIRST_PRUNE);
        }
    }

    /// Number of cells kept for `base`: what an access that matches none of them looks through.
    pub fn n_cells(&self, base: usize) -> usize {
        self.bases.get(base).map_or(0, |base| base.cells.len())
    }

    /// The access to a region that is no cell: cuts what it meets and visits every piece inside.
    #[expect(clippy::too_many_arguments, reason = "the two closures and the access travel together")]
    fn cut(
        &mut self,
        base: usize,
        region: &Region,
        writes: bool,
        task: T,
        preds: &mut Vec<T>,
        push: impl Fn(&mut Vec<T>, T),
        alive: &impl Fn(T) -> bool,
    ) {
        let Tracker { bases, spare, boxes, boxes_next } = self;
        let base = &mut bases[base];
        if base.cells.len() >= base.prune_at {
            base.prune(alive, spare);
        }
        let mut n_covered = 0;
        let mut i = 0;
        // Remainders of cut cells are appended; they lie outside the region, so visiting them does nothing.
        while i < base.cells.len() {
            let met = base.cells[i].region;
            if !met.overlaps(region) {
                i += 1;
                continue;
            }
            let inside = met.intersection(region);
            if inside != met {
                boxes.clear();
                subtract(&met, region, boxes);
                for rest in &*boxes {
                    let mut readers = spare.pop().unwrap_or_else(|| Vec::with_capacity(FEW_READERS));
                    readers.extend_from_slice(&base.cells[i].readers);
                    let writer = base.cells[i].writer;
                    base.push(Cell { region: *rest, writer, readers });
                }
            }
            if writes {
                let cell = base.remove(i);
                cell.writer.into_iter().chain(cell.readers.iter().copied()).for_each(|t| push(preds, t));
                spare.push(cleared(cell.readers));
            } else {
                base.shrink(i, inside);
                base.cells[i].record(false, task, preds, &push, alive);
                n_covered += inside.len();
                i += 1;
            }
        }
        if writes {
            let readers = spare.pop().unwrap_or_else(|| Vec::with_capacity(FEW_READERS));
            base.last = base.cells.len();
            base.push(Cell { region: *region, writer: Some(task), readers });
        } else if n_covered < region.len() {
            boxes.clear();
            boxes.push(*region);
            for cell in base.cells.iter().filter(|cell| cell.region.overlaps(region)) {
                boxes_next.clear();
                for rest in &*boxes {
                    subtract(rest, &cell.region, boxes_next);
                }
                std::mem::swap(boxes, boxes_next);
            }
            for rest in &*boxes {
                let mut readers = spare.pop().unwrap_or_else(|| Vec::with_capacity(FEW_READERS));
                readers.push(task);
                base.push(Cell { region: *rest, writer: None, readers });
            }
        }
    }
}

impl<T> Default for Base<T> {
    fn default() -> Self {
        Base { cells: Vec::new(), index: HashMap::default(), last: 0, prune_at: FIRST_PRUNE }
    }
}

impl<T: Copy + Ord> Base<T> {
    /// The cell with exactly this region. As cells are disjoint, it is the only one that the region meets.
    fn find(&self, region: &Region) -> Option<usize> {
        let is = |i: usize| self.cells.get(i).is_some_and(|cell| cell.region == *region);
        if is(self.last) {
            Some(self.last)
        } else if is(self.last + 1) {
            Some(self.last + 1)
        } else if self.cells.len() < HASH_FROM {
            (0..self.cells.len()).find(|&i| is(i))
        } else {
            self.index.get(region).map(|&i| i as usize)
        }
    }

    fn push(&mut self, cell: Cell<T>) {
        self.index.insert(cell.region, self.cells.len() as u32);
        self.cells.push(cell);
    }

    fn remove(&mut self, i: usize) -> Cell<T> {
        let cell = self.cells.swap_remove(i);
        self.index.remove(&cell.region);
        if let Some(moved) = self.cells.get(i) {
            self.index.insert(moved.region, i as u32);
        }
        cell
    }

    fn shrink(&mut self, i: usize, region: Region) {
        if self.cells[i].region != region {
            self.index.remove(&self.cells[i].region);
            self.index.insert(region, i as u32);
            self.cells[i].region = region;
        }
    }

    fn prune(&mut self, alive: &impl Fn(T) -> bool, spare: &mut Vec<Vec<T>>) {
        for i in (0..self.cells.len()).rev() {
            let cell = &mut self.cells[i];
            cell.readers.retain(|&reader| alive(reader));
            cell.writer = cell.writer.filter(|&writer| alive(writer));
            if cell.writer.is_none() && cell.readers.is_empty() {
                spare.push(cleared(self.remove(i).readers));
            }
        }
        self.last = 0;
        self.prune_at = FIRST_PRUNE.max(2 * self.cells.len());
    }
}

impl<T: Copy + Ord> Cell<T> {
    /// An access to all of this cell.
    fn record(
        &mut self,
        writes: bool,
        task: T,
        preds: &mut Vec<T>,
        push: impl Fn(&mut Vec<T>, T),
        alive: &impl Fn(T) -> bool,
    ) {
        if let Some(writer) = self.writer {
            push(preds, writer);
        }
        if writes {
            self.readers.drain(..).for_each(|reader| push(preds, reader));
            self.writer = Some(task);
        } else if self.readers.last() != Some(&task) {
            // Data that is read for ever and never written must not remember its readers for ever.
            // Whether a task is alive is mostly a cache miss; many in one go overlap.
            if self.readers.len() == self.readers.capacity() {
                self.readers.retain(|&reader| alive(reader));
                if 2 * self.readers.len() >= self.readers.capacity() {
                    self.readers.reserve(self.readers.len().max(FEW_READERS));
                }
            }
            self.readers.push(task);
        }
    }
}

fn cleared<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}

/// Adds to `out` disjoint boxes that together are `from` without `what`; the two must overlap or the result
/// is `from` itself.
pub(crate) fn subtract(from: &Region, what: &Region, out: &mut Vec<Region>) {
    if !from.overlaps(what) {
        out.push(*from);
        return;
    }
    let mut rest = *from;
    for dim in 0..from.rank() {
        let (all, gone) = (rest.range(dim), what.range(dim));
        if all.start < gone.start {
            out.push(rest.with_range(dim, all.start..gone.start));
        }
        if gone.end < all.end {
            out.push(rest.with_range(dim, gone.end..all.end));
        }
        rest = rest.with_range(dim, all.start.max(gone.start)..all.end.min(gone.end));
    }
}

/// A multiplicative hash: regions are hashed at every submission and come from the program itself.
#[derive(Default)]
struct RegionHasher(u64);

impl Hasher for RegionHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "regions of vectors have one range")]
mod tests;
