//! Arguments of tasks: which bytes of which buffers a region of an array is.

use super::super::Var;
use super::super::lowered::{Access, Place};
use super::super::tiles::{TileOf, View};
use super::Lowering;
use crate::codelet::ArgSpec;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Layout, Region};

/// An argument made ready for a call.
pub(super) struct Ready {
    pub place: Place,
    pub spec: ArgSpec,
    pub access: Access,
}

impl Lowering<'_> {
    /// The tiles of a view that is read, once per task. Where the cut of the array does not go with the
    /// view's shape, the whole array is assembled first.
    pub fn view_to_read(&mut self, var: &Var) -> Result<View> {
        if let Some(view) = self.tiles[var.array].through(var) {
            return Ok(view);
        }
        let info = &self.graph.arrays()[var.array];
        let whole = Var { offset: 0, shape: info.shape, ..*var };
        let tiles: Vec<TileOf> = self.tiles[var.array].through(&whole).iter().flat_map(View::tiles).collect();
        self.finish_tiles(&tiles, var.dtype)?;
        let ready = self.assemble(&whole, &tiles, Region::whole(whole.shape), Layout::RowMajor)?;
        Ok(View::uncut(var, ready.place.buffer))
    }

    /// Reduces what is pending for tiles of this step; those of earlier ones are complete.
    fn finish_tiles(&mut self, tiles: &[TileOf], dtype: Dtype) -> Result<()> {
        let mut current = tiles.iter().filter(|tile| tile.age == 0);
        current.try_for_each(|tile| self.finish_partials(tile.buffer, &tile.bytes(dtype)))
    }

    /// A region of a tile, to be read.
    pub fn ready(var: &Var, tile: &TileOf, region: Region) -> Ready {
        let layout = tile.layout;
        let spec = ArgSpec { dtype: var.dtype, layout, tile: tile.region, region, extent: var.shape };
        let size = var.dtype.bytes();
        let elements = match (layout, region.is_empty()) {
            (_, true) => 0..0,
            (Layout::RowMajor, _) => {
                let last: Vec<usize> = region.hi().iter().map(|hi| hi - 1).collect();
                layout.offset(&tile.region, region.lo())..layout.offset(&tile.region, &last) + 1
            }
            (Layout::Lanes(_) | Layout::Strided(_), _) => 0..layout.len(&tile.region),
        };
        let offset = tile.offset * size;
        let range = offset + elements.start * size..offset + elements.end * size;
        let TileOf { buffer, age, .. } = *tile;
        Ready {
            place: Place { buffer, age, offset },
            spec,
            access: Access { arg: 0, buffer, age, range, reads: true, writes: false },
        }
    }

    /// A region that is read: where it is if it lies in one tile as it is needed, or else assembled.
    pub fn input(&mut self, var: &Var, view: &View, region: Region, need: Option<Layout>) -> Result<Ready> {
        let touched: Vec<TileOf> = view.overlapping(&region).collect();
        self.finish_tiles(&touched, var.dtype)?;
        let one = match touched.as_slice() {
            [] => view.tiles().next(),
            [tile] => Some(*tile),
            _ => None,
        };
        if let Some(tile) = one {
            let inside = if touched.is_empty() { Region::new(&vec![0..0; region.rank()]) } else { region };
            let ready = Self::ready(var, &tile, inside);
            let fits = need.is_none_or(|layout| layout == ready.spec.layout && ready.spec.is_contiguous());
            if fits || touched.is_empty() {
                return Ok(ready);
            }
        }
        self.assemble(var, &touched, region, need.unwrap_or(Layout::RowMajor))
    }

    /// A region that is written, in one piece.
    pub fn output(
        &mut self,
        var: &Var,
        view: Option<&View>,
        region: Region,
        need: Option<Layout>,
    ) -> Result<Ready> {
        let tile = view.and_then(|view| view.containing(&region));
        let name = &self.graph.arrays()[var.array].name;
        let Some(tile) = tile else {
            let message =
                format!("the region {region} of {name} is written in one piece but lies in several tiles");
            return Err(Error::new(ErrorKind::Plan, message));
        };
        let region = if region.is_empty() { Region::new(&vec![0..0; region.rank()]) } else { region };
        let mut ready = Self::ready(var, &tile, region);
        if !ready.spec.is_contiguous() || need.is_some_and(|layout| layout != ready.spec.layout) {
            let message = format!("the region {region} of {name} must be written contiguously in {need:?}");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        ready.access.writes = true;
        Ok(ready)
    }
}
