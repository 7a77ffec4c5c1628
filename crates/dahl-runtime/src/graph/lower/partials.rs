//! Sums over cut axes: groups of tiles have partial results, which are reduced in order just before somebody
//! needs the sum.

use super::super::cut::{TaskCut, cut_axes};
use super::super::lowered::{Access, Buffer, BufferKind, Place, Task};
use super::super::scopes::union;
use super::super::{Recorded, ScopeId};
use super::arguments::Ready;
use super::{Line, Lowering};
use crate::bytes::ALIGN;
use crate::codelet::relation::{Accumulate, Split, Tile, TileSize};
use crate::codelet::{ArgSpec, builtin};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Layout, Region, Shape};
use std::collections::BTreeMap;
use std::ops::Range;

/// Elements that one reducing task handles: enough to outweigh its overhead, few enough to share the work
/// out.
pub(super) const REDUCE_ELEMENTS: usize = 4096;

/// A sum that is still in partial results.
struct Pending<'a> {
    /// How many groups have one.
    groups: usize,
    how: Accumulate,
    /// The line that recorded the task.
    line: Line,
    /// What the task is for.
    scopes: &'a [ScopeId],
}

impl Pending<'_> {
    /// Whether both can be reduced by one task.
    fn goes_with(&self, other: &Self) -> bool {
        self.groups == other.groups && self.how == other.how
    }
}

/// The first byte of a sum, the one after its last, and what is pending there.
type Part<'a> = ((usize, usize), Pending<'a>);

/// Partial results of one buffer, not yet reduced.
pub(super) struct Partials<'a> {
    buffer: usize,
    dtype: Dtype,
    /// Bytes from one group's part to the next.
    stride: usize,
    /// What is pending for each byte range.
    pending: BTreeMap<(usize, usize), Pending<'a>>,
    /// The longest of these ranges so far.
    longest: usize,
}

impl<'a> Partials<'a> {
    /// Takes out what is pending for these bytes.
    fn take(&mut self, bytes: &Range<usize>) -> Vec<Part<'a>> {
        // What begins earlier is too short to come so far.
        let from = (bytes.start.saturating_sub(self.longest), 0);
        let near = self.pending.range(from..(bytes.end, 0));
        let keys: Vec<(usize, usize)> = near
            .map(|(&key, _)| key)
            .filter(|&(start, end)| start < bytes.end && bytes.start < end)
            .collect();
        keys.into_iter().filter_map(|key| Some((key, self.pending.remove(&key)?))).collect()
    }
}

/// How the tiles of a task come together in one accumulating output.
pub(super) struct Reduction {
    pub how: Accumulate,
    /// Which of the cut axes are reduced for this output, and into how many ranges each is cut.
    pub axes: Vec<Option<usize>>,
    pub n_tiles: usize,
}

impl Reduction {
    /// The number of a tile among those that are reduced into the same output elements.
    pub fn tile_number(&self, position: &[usize]) -> usize {
        let reduced = self.axes.iter().zip(position);
        reduced.fold(0, |number, (count, &i)| count.map_or(number, |count| number * count + i))
    }
}

/// For each argument that accumulates, over which of the cut axes.
pub(super) fn reductions(recorded: &Recorded, cut: &TaskCut) -> Vec<Option<Reduction>> {
    let whole = Tile::whole(&recorded.bound);
    let args = recorded.codelet.relation().args();
    let of_arg = |arg: usize| {
        let how = args[arg].accumulate?;
        let axes: Vec<Option<usize>> = cut_axes(recorded, &cut.tiles)
            .iter()
            .map(|(axis, ranges)| {
                let reduced = recorded.bound.axes()[*axis].split == Split::Reduce;
                let region = |range: &Range<usize>| {
                    recorded.bound.regions(&whole.clone().with(*axis, range.clone()))[arg]
                };
                // The output has the axis if cutting it cuts the output.
                (reduced && ranges.iter().all(|range| region(range) == region(&ranges[0])))
                    .then_some(ranges.len())
            })
            .collect();
        let n_tiles = axes.iter().flatten().product();
        Some(Reduction { how, axes, n_tiles })
    };
    (0..args.len()).map(of_arg).collect()
}

impl Lowering<'_> {
    /// Lets an output go to the partial result of `group` instead of the array itself.
    pub fn divert_to_partials(
        &mut self,
        ready: &mut Ready,
        groups: usize,
        group: usize,
        how: Accumulate,
    ) -> Result<()> {
        let target = ready.access.buffer;
        let bytes = self.out.buffers[target].bytes.next_multiple_of(ALIGN);
        let buffers = &mut self.out.buffers;
        let partials = self.partials.entry(target).or_insert_with(|| {
            let name = format!("{}.parts", buffers[target].name);
            let dtype = ready.spec.dtype;
            buffers.push(Buffer { name, dtype, bytes: 0, kind: BufferKind::Temporary, versions: 1 });
            let (buffer, pending) = (buffers.len() - 1, BTreeMap::new());
            Partials { buffer, dtype, stride: bytes, pending, longest: 0 }
        });
        let bytes = groups.checked_mul(partials.stride).filter(|&bytes| bytes <= isize::MAX as usize);
        let Some(bytes) = bytes else {
            let message = format!(
                "{groups} partial results of {} are too large for any memory: use fewer groups or smaller arrays",
                buffers[target].name
            );
            return Err(Error::new(ErrorKind::Memory, message));
        };
        let size = &mut buffers[partials.buffer].bytes;
        *size = (*size).max(bytes);
        let range = (ready.access.range.start, ready.access.range.end);
        partials.longest = partials.longest.max(ready.access.range.len());
        partials.pending.insert(range, Pending { groups, how, line: self.line, scopes: self.scopes });
        let shift = group * partials.stride;
        ready.place = Place { buffer: partials.buffer, age: 0, offset: ready.place.offset + shift };
        ready.access.buffer = partials.buffer;
        ready.access.range = ready.access.range.start + shift..ready.access.range.end + shift;
        Ok(())
    }

    /// Reduces what is pending for these bytes of a buffer, neighbouring ranges together.
    pub fn finish_partials(&mut self, target: usize, bytes: &Range<usize>) -> Result<()> {
        let Some(partials) = self.partials.get_mut(&target) else { return Ok(()) };
        let parts = partials.take(bytes);
        let is_one_sum = |((_, end), before): &Part<'_>, ((start, _), after): &Part<'_>| {
            end == start && before.goes_with(after)
        };
        parts.chunk_by(is_one_sum).try_for_each(|sum| self.push_reduce(target, sum))
    }

    /// Appends the tasks that add up the partial results of neighbouring ranges of bytes.
    fn push_reduce(&mut self, target: usize, sum: &[Part<'_>]) -> Result<()> {
        let [((start, _), pending), ..] = sum else { return Ok(()) };
        let range = *start..sum.last().map_or(*start, |((_, end), _)| *end);
        let Partials { buffer: source, dtype, stride, .. } = self.partials[&target];
        let (groups, size) = (pending.groups, dtype.bytes());
        let total = self.out.buffers[target].bytes / size;
        let elements = range.start / size..range.end / size;
        let cut = TileSize::AtMost(REDUCE_ELEMENTS);
        let n_tiles = cut.n_tiles(elements.len());
        self.reserve(n_tiles)?;
        for tile in 0..n_tiles {
            let part = cut.tile(elements.len(), tile);
            let part = elements.start + part.start..elements.start + part.end;
            let bytes = |group: usize| group * stride + part.start * size..group * stride + part.end * size;
            let access = |buffer, range, writes: bool| Access {
                arg: 0,
                buffer,
                age: 0,
                range,
                reads: !writes,
                writes,
            };
            let argument = |extent: Shape, region| {
                let (layout, tile) = (Layout::RowMajor, Region::whole(extent));
                ArgSpec { dtype, layout, tile, region, extent }
            };
            let kernel = builtin::reduce(dtype, pending.how);
            let mut task = Task::inserted(builtin::REDUCE, kernel, dtype, (tile, n_tiles));
            task.spec.n_inputs = 1;
            task.flops = (part.len() * (groups - 1)) as f64;
            (task.priority, task.location) = (self.priority, pending.line);
            let added = bytes(0);
            let adds = |((start, end), _): &&Part<'_>| *start < added.end && added.start < *end;
            task.scopes = union(sum.iter().filter(adds).map(|(_, pending)| pending.scopes));
            task.argument(
                argument(Shape::new(&[groups, stride / size]), Region::new(&[0..groups, part.clone()])),
                Place { buffer: source, age: 0, offset: 0 },
                (0..groups).map(|group| access(source, bytes(group), false)),
            );
            task.argument(
                argument(Shape::new(&[total]), Region::new(std::slice::from_ref(&part))),
                Place { buffer: target, age: 0, offset: 0 },
                [access(target, bytes(0), true)],
            );
            self.out.tasks.push(task);
        }
        Ok(())
    }
}
