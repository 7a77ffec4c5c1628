//! How an array is cut into tile buffers, and which of them hold a given region.

use super::Var;
use crate::array::{Dtype, Layout, Region, Shape};
use std::ops::Range;

/// The tiles of one array: a grid of ranges per dimension, one buffer each, numbered in row-major order.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    /// Extents of the array.
    shape: Shape,
    /// The ranges of each dimension; a single one where it is not cut.
    cuts: Vec<Vec<Range<usize>>>,
    /// Memory order of every tile.
    pub layout: Layout,
    /// Buffer of the first tile.
    pub first_buffer: usize,
}

/// A tile as seen through a view.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileOf {
    /// Its buffer.
    pub buffer: usize,
    /// What it holds, in coordinates of the view.
    pub region: Region,
    /// The elements before the view in the buffer.
    pub offset: usize,
    /// Its memory order.
    pub layout: Layout,
}

impl TileOf {
    /// The bytes that the tile takes up in its buffer.
    pub fn bytes(&self, dtype: Dtype) -> Range<usize> {
        let start = self.offset * dtype.bytes();
        start..start + self.layout.len(&self.region) * dtype.bytes()
    }
}

impl Tiles {
    /// One tile: the whole array.
    pub fn uncut(shape: Shape, layout: Layout, first_buffer: usize) -> Self {
        Tiles { shape, cuts: shape.iter().map(|&extent| whole(extent)).collect(), layout, first_buffer }
    }

    /// A grid of tiles.
    pub fn grid(shape: Shape, cuts: Vec<Vec<Range<usize>>>, layout: Layout, first_buffer: usize) -> Self {
        Tiles { shape, cuts, layout, first_buffer }
    }

    /// Number of tiles.
    pub fn n_tiles(&self) -> usize {
        self.cuts.iter().map(Vec::len).product()
    }

    /// The regions of the tiles, in buffer order, in coordinates of the array.
    pub fn regions(&self) -> Vec<Region> {
        let mut regions = vec![Vec::new()];
        for cuts in &self.cuts {
            regions = regions
                .iter()
                .flat_map(|prefix: &Vec<Range<usize>>| {
                    cuts.iter().map(|cut| [&prefix[..], std::slice::from_ref(cut)].concat())
                })
                .collect();
        }
        regions.iter().map(|ranges| Region::new(ranges)).collect()
    }

    /// The tiles as a view sees them, or none if the view's shape does not go with the cut: a reshaped view must
    /// keep dimension 0, and the array must be cut along that dimension only.
    pub fn through(&self, var: &Var) -> Option<Vec<TileOf>> {
        if self.n_tiles() == 1 && self.layout == Layout::RowMajor {
            let region = Region::whole(var.shape);
            let (buffer, offset, layout) = (self.first_buffer, var.offset, self.layout);
            return Some(vec![TileOf { buffer, region, offset, layout }]);
        }
        let same_shape = var.shape == self.shape;
        let same_samples =
            var.shape.first() == self.shape.first() && self.cuts.iter().skip(1).all(|cut| cut.len() == 1);
        if var.shape.len() != self.shape.len() || !(same_shape || same_samples) {
            return None;
        }
        let regions = self.regions().into_iter().map(|region| {
            if same_shape {
                return region;
            }
            let rest = var.shape[1..].iter().map(|&extent| 0..extent);
            Region::new(&std::iter::once(region.range(0)).chain(rest).collect::<Vec<_>>())
        });
        let layout = self.layout;
        let tile = |(i, region)| TileOf { buffer: self.first_buffer + i, region, offset: 0, layout };
        let tiles = regions.enumerate().map(tile);
        Some(tiles.collect())
    }
}

/// The cut of a dimension that is not cut.
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges that happens to have one")]
pub(super) fn whole(extent: usize) -> Vec<Range<usize>> {
    vec![0..extent]
}
