//! How an array is cut into tile buffers, and which of them hold a given region.

use super::{PerTile, Var};
use crate::shape::{Dtype, Layout, Region, Shape};
use std::ops::Range;

/// The tiles of one array: a grid of ranges per dimension, one buffer each, numbered in row-major order.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    /// Extents of the array.
    shape: Shape,
    /// The ranges of each dimension; a single one where it is not cut.
    cuts: Vec<Vec<Range<usize>>>,
    /// Memory order of each tile.
    pub layouts: PerTile<Layout>,
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
    /// How many steps ago the tile is looked at.
    pub age: usize,
    /// Its memory order.
    pub layout: Layout,
}

/// The tiles of an array as a view sees them.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The ranges of each dimension, in coordinates of the view.
    cuts: Vec<Vec<Range<usize>>>,
    /// Whether the ranges of every dimension lie in order, as they nearly always do.
    is_sorted: bool,
    /// Buffer of the first tile.
    first_buffer: usize,
    /// The elements before the view in every buffer.
    offset: usize,
    /// How many steps ago the tiles are looked at.
    age: usize,
    /// Memory order of each tile.
    layouts: PerTile<Layout>,
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
    pub fn uncut(shape: Shape, layouts: PerTile<Layout>, first_buffer: usize) -> Self {
        Tiles { shape, cuts: shape.iter().map(|&extent| whole(extent)).collect(), layouts, first_buffer }
    }

    /// A grid of tiles.
    pub fn grid(
        shape: Shape,
        cuts: Vec<Vec<Range<usize>>>,
        layouts: PerTile<Layout>,
        first_buffer: usize,
    ) -> Self {
        Tiles { shape, cuts, layouts, first_buffer }
    }

    /// Number of tiles.
    pub fn n_tiles(&self) -> usize {
        self.cuts.iter().map(Vec::len).product()
    }

    /// The regions of the tiles, in buffer order, in coordinates of the array.
    pub fn regions(&self) -> Vec<Region> {
        regions(&self.cuts)
    }

    /// The tiles as a view sees them, or none if the view's shape does not go with the cut: a reshaped view
    /// must keep dimension 0, and the array must be cut along that dimension only.
    pub fn through(&self, var: &Var) -> Option<View> {
        let first_buffer = self.first_buffer;
        if self.n_tiles() == 1 && self.layouts.of(0) == Layout::RowMajor {
            return Some(View { age: var.age, ..View::uncut(var, first_buffer) });
        }
        let same_shape = var.shape == self.shape;
        let same_samples =
            var.shape.first() == self.shape.first() && self.cuts.iter().skip(1).all(|cut| cut.len() == 1);
        if var.shape.len() != self.shape.len() || !(same_shape || same_samples) {
            return None;
        }
        let cuts = match same_shape {
            true => self.cuts.clone(),
            false => {
                let rest = var.shape[1..].iter().map(|&extent| whole(extent));
                self.cuts[..1].iter().cloned().chain(rest).collect()
            }
        };
        let in_order = |a: &Range<usize>, b: &Range<usize>| a.start <= b.start && a.end <= b.end;
        let is_sorted = cuts.iter().all(|cut: &Vec<_>| cut.is_sorted_by(in_order));
        let layouts = self.layouts.clone();
        Some(View { cuts, is_sorted, first_buffer, offset: 0, age: var.age, layouts })
    }
}

impl View {
    /// A view of an array that lies in one buffer, in row-major order.
    pub fn uncut(var: &Var, buffer: usize) -> Self {
        let cuts = var.shape.iter().map(|&extent| whole(extent)).collect();
        let (first_buffer, offset, layouts) = (buffer, var.offset, Layout::RowMajor.into());
        View { cuts, is_sorted: true, first_buffer, offset, age: 0, layouts }
    }

    /// All tiles, in buffer order.
    pub fn tiles(&self) -> impl Iterator<Item = TileOf> {
        let all: Vec<Range<usize>> = self.cuts.iter().map(|ranges| 0..ranges.len()).collect();
        self.tiles_of(all)
    }

    /// The tiles that have elements of a region, in buffer order.
    pub fn overlapping(&self, region: &Region) -> impl Iterator<Item = TileOf> {
        let near = |(dim, cut): (usize, &Vec<Range<usize>>)| {
            if !self.is_sorted {
                return 0..cut.len();
            }
            let Range { start, end } = region.range(dim);
            let first = cut.partition_point(|range| range.end <= start);
            first..cut.partition_point(|range| range.start < end).max(first)
        };
        let near = self.cuts.iter().enumerate().map(near).collect();
        let region = *region;
        self.tiles_of(near).filter(move |tile| tile.region.overlaps(&region))
    }

    /// The first tile that has all elements of a region.
    pub fn containing(&self, region: &Region) -> Option<TileOf> {
        match region.is_empty() {
            true => self.tiles().next(),
            false => self.overlapping(region).find(|tile| tile.region.contains(region)),
        }
    }

    /// The tiles whose ranges have these numbers in each dimension.
    fn tiles_of(&self, numbers: Vec<Range<usize>>) -> impl Iterator<Item = TileOf> {
        let n_tiles = numbers.iter().map(Range::len).product();
        (0..n_tiles).map(move |mut rest: usize| {
            let (mut ranges, mut tile, mut stride) = (vec![0..0; self.cuts.len()], 0, 1);
            for (dim, cut) in self.cuts.iter().enumerate().rev() {
                let number = numbers[dim].start + rest % numbers[dim].len();
                rest /= numbers[dim].len();
                ranges[dim] = cut[number].clone();
                tile += number * stride;
                stride *= cut.len();
            }
            let (buffer, region) = (self.first_buffer + tile, Region::new(&ranges));
            TileOf { buffer, region, offset: self.offset, age: self.age, layout: self.layouts.of(tile) }
        })
    }
}

/// The regions of a grid of ranges per dimension, in row-major order.
pub(super) fn regions(cuts: &[Vec<Range<usize>>]) -> Vec<Region> {
    let mut regions = vec![Vec::new()];
    for cuts in cuts {
        regions = regions
            .iter()
            .flat_map(|prefix: &Vec<Range<usize>>| {
                cuts.iter().map(|cut| [&prefix[..], std::slice::from_ref(cut)].concat())
            })
            .collect();
    }
    regions.iter().map(|ranges| Region::new(ranges)).collect()
}

/// The cut of a dimension that is not cut.
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges that happens to have one")]
pub(super) fn whole(extent: usize) -> Vec<Range<usize>> {
    vec![0..extent]
}
