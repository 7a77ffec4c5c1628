//! Regions that lie in several tiles, or in another layout than a kernel needs, are put together: halos,
//! whole batches.

use super::super::Var;
use super::super::lowered::{Access, Buffer, BufferKind, Place, Task};
use super::super::tiles::TileOf;
use super::Lowering;
use super::arguments::Ready;
use super::arrays::too_large;
use crate::codelet::{ArgSpec, builtin};
use crate::error::Result;
use crate::shape::{Layout, Region};
use std::ops::Range;

impl Lowering<'_> {
    /// Copies a region out of several tiles, or into another layout, once for all who need it.
    pub fn assemble(&mut self, var: &Var, tiles: &[TileOf], region: Region, layout: Layout) -> Result<Ready> {
        let key = (*var, region, layout);
        let spec = ArgSpec { dtype: var.dtype, layout, tile: region, region, extent: var.shape };
        let name = &self.graph.arrays()[var.array].name;
        let bytes =
            layout.checked_bytes(&region, var.dtype).ok_or_else(|| too_large(name, region.shape()))?;
        let known = self.assembled.get(&var.array).and_then(|regions| regions.get(&key));
        let place = match known {
            Some(&place) => place,
            None => {
                let (name, kind) = (format!("{name}{region}"), BufferKind::Temporary);
                self.out.buffers.push(Buffer { name, dtype: var.dtype, bytes, kind, versions: 1 });
                let place = Place { buffer: self.out.buffers.len() - 1, age: 0, offset: 0 };
                let pieces: Vec<Ready> = tiles
                    .iter()
                    .map(|tile| Self::ready(var, tile, tile.region.intersection(&region)))
                    .collect();
                let ranges: Option<Vec<Range<usize>>> =
                    pieces.iter().map(|piece| range_within(&region, layout, &piece.spec.region)).collect();
                match ranges {
                    // Pieces that lie one after the other are each copied where they come from, as soon as
                    // they are there.
                    Some(ranges) if pieces.len() > 1 => {
                        let all = &self.tiles[var.array];
                        let numbers = tiles.iter().map(|tile| tile.buffer.wrapping_sub(all.first_buffer));
                        let (numbers, n_tiles) = (numbers.collect::<Vec<_>>(), all.n_tiles());
                        for ((piece, range), number) in pieces.into_iter().zip(ranges).zip(numbers) {
                            let own = if number < n_tiles { (number, n_tiles) } else { self.tile };
                            let spec = ArgSpec { region: piece.spec.region, ..spec.clone() };
                            let size = var.dtype.bytes();
                            self.push_assemble(
                                vec![piece],
                                spec,
                                place,
                                range.start * size..range.end * size,
                                own,
                            )?;
                        }
                    }
                    _ => self.push_assemble(pieces, spec.clone(), place, 0..bytes, self.tile)?,
                }
                self.assembled.entry(var.array).or_default().insert(key, place);
                place
            }
        };
        let (buffer, range) = (place.buffer, 0..bytes);
        let access = Access { arg: 0, buffer, age: 0, range, reads: true, writes: false };
        Ok(Ready { place, spec, access })
    }

    /// Appends a task that copies pieces into a range of an assembled buffer.
    pub fn push_assemble(
        &mut self,
        pieces: Vec<Ready>,
        spec: ArgSpec,
        place: Place,
        range: Range<usize>,
        tile: (usize, usize),
    ) -> Result<()> {
        let mut task = Task::inserted(builtin::ASSEMBLE, builtin::assemble(spec.dtype), spec.dtype, tile);
        task.spec.n_inputs = pieces.len();
        (task.priority, task.location) = (self.priority, self.line);
        task.scopes = self.scopes.to_vec();
        for piece in pieces {
            task.argument(piece.spec, piece.place, [piece.access]);
        }
        let written = Access { arg: 0, buffer: place.buffer, age: 0, range, reads: false, writes: true };
        task.argument(spec, place, [written]);
        self.push(task)
    }
}

/// Which elements of a buffer that holds the region `all` a part of it takes up, if they are a range:
/// samples, in whole groups where they lie in lanes, with all that belongs to them.
fn range_within(all: &Region, layout: Layout, part: &Region) -> Option<Range<usize>> {
    let is_whole = all.rank() > 0 && (1..all.rank()).all(|dim| all.range(dim) == part.range(dim));
    let before = part.lo().first()? - all.lo()[0];
    let is_last = part.hi()[0] == all.hi()[0];
    let lanes = match layout {
        Layout::RowMajor => 1,
        Layout::Lanes(lanes) => lanes,
        Layout::Strided(_) => return None,
    };
    let in_groups = before.is_multiple_of(lanes) && (is_last || part.shape()[0].is_multiple_of(lanes));
    let start = before * part.shape()[1..].iter().product::<usize>();
    (is_whole && in_groups).then(|| start..start + layout.len(part))
}
