//! Outputs whose tiles are no contiguous parts of the array's buffers are written beside it and put together.
//!
//! Weights and gradients lie in flat arrays, and ports, outputs and state in one buffer each. A tile of some
//! rows is a contiguous part of such a buffer; a tile of some channels or columns is not. Its task writes a
//! buffer of its own, and when all tiles are there, `assemble` tasks copy rows of them to where they belong.

use super::super::cut::Grid;
use super::super::lowered::{Buffer, BufferKind};
use super::super::tiles::{TileOf, Tiles, View, whole};
use super::super::{Recorded, Var};
use super::Lowering;
use super::arguments::Ready;
use super::arrays::too_large;
use crate::codelet::relation::{Mode, Tile};
use crate::error::Result;
use crate::shape::{Layout, Region};
use std::ops::Range;

/// Where the tiles of an output are written instead of the array.
pub(super) struct Stage {
    tiles: View,
    /// The ranges of dimension 0 that are put together one by one.
    rows: Vec<Range<usize>>,
    /// Where they belong.
    target: View,
}

impl Stage {
    /// The tiles.
    pub fn view(&self) -> &View {
        &self.tiles
    }
}

impl Lowering<'_> {
    /// Makes buffers for the tiles of an output, if they cannot be written where they belong: if some of them
    /// are not contiguous there, or lie in several buffers, or in another layout than that of a tile beside
    /// them.
    pub fn stage(
        &mut self,
        (task, recorded): (usize, &Recorded),
        arg: usize,
        tiles: &[(Tile, Vec<usize>)],
    ) -> Result<Option<Stage>> {
        let var = &recorded.args[arg];
        let (layouts, implementations) =
            (&self.cut.layouts[var.array], &self.cut.tasks[task].implementations);
        let is_overwritten = recorded.codelet.relation().args()[arg].mode == Mode::Write;
        let need = |tile: usize| implementations.of(tile).need(arg);
        // Where all tiles lie alike and none fits, the cut is wrong, which whoever writes it is told.
        let is_wrong = match (layouts.only(), implementations.only()) {
            (Some(layout), Some(_)) => need(0).is_some_and(|need| need != layout),
            _ => false,
        };
        if !is_overwritten || tiles.len() == 1 || is_wrong {
            return Ok(None);
        }
        let Some(target) = self.tiles[var.array].through(var) else { return Ok(None) };
        let fits = |(number, (tile, _)): (usize, &(Tile, Vec<usize>))| {
            let region = recorded.bound.regions(tile)[arg];
            let fits = |tile: TileOf| {
                let is_needed = need(number).is_none_or(|need| need == tile.layout);
                is_needed && Self::ready(var, &tile, region).spec.is_contiguous()
            };
            region.is_empty() || target.containing(&region).is_some_and(fits)
        };
        if tiles.iter().enumerate().all(fits) {
            return Ok(None);
        }
        let cuts = self.output_cuts(task, arg)?;
        // In lanes, some samples may be no contiguous part of a tile either.
        let rows = match layouts.only() {
            Some(Layout::RowMajor) => cuts.first().cloned().unwrap_or_default(),
            _ => whole(var.shape.first().copied().unwrap_or(0)),
        };
        let layouts = match layouts.only() {
            Some(layout) if implementations.only().is_some() => layout.into(),
            _ => {
                let grid = Grid::new(&cuts);
                let mut layouts = vec![None; grid.n_tiles()];
                for (number, (tile, _)) in tiles.iter().enumerate() {
                    let region = recorded.bound.regions(tile)[arg];
                    layouts[grid.number(&region)] = need(number);
                }
                Grid::layouts(&layouts)
            }
        };
        let staged = Tiles::grid(var.shape, cuts, layouts.clone(), self.out.buffers.len());
        for (i, region) in staged.regions().iter().enumerate() {
            let name = &self.graph.arrays()[var.array].name;
            let bytes = layouts.of(i).checked_bytes(region, var.dtype);
            let bytes = bytes.ok_or_else(|| too_large(name, var.shape))?;
            let (name, kind) = (format!("{name}.tiles.{i}"), BufferKind::Temporary);
            self.out.buffers.push(Buffer { name, dtype: var.dtype, bytes, kind, versions: 1 });
        }
        let view = staged.through(&Var { offset: 0, ..*var });
        Ok(view.map(|tiles| Stage { tiles, rows, target }))
    }

    /// Puts the tiles where they belong.
    pub fn unstage(&mut self, var: &Var, stage: &Stage) -> Result<()> {
        for staged in stage.tiles.tiles() {
            self.finish_partials(staged.buffer, &staged.bytes(var.dtype))?;
        }
        let parts = stage.target.tiles().flat_map(|tile| {
            let part = move |rows: &Range<usize>| {
                let all = tile.region.range(0);
                let rows = rows.start.max(all.start)..rows.end.min(all.end);
                (tile, tile.region.with_range(0, rows))
            };
            stage.rows.iter().map(part)
        });
        let parts: Vec<(TileOf, Region)> = parts.filter(|(_, region)| !region.is_empty()).collect();
        for (i, (tile, region)) in parts.iter().enumerate() {
            let pieces = stage.tiles.overlapping(region);
            let piece = |staged: TileOf| Self::ready(var, &staged, staged.region.intersection(region));
            let pieces: Vec<Ready> = pieces.map(piece).collect();
            let Ready { place, spec, access } = Self::ready(var, tile, *region);
            self.push_assemble(pieces, spec, place, access.range, (i, parts.len()))?;
        }
        Ok(())
    }
}
