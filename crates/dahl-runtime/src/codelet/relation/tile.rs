//! Tiles: a range of every axis of a bound relation, and how to cut an axis into ranges.

use super::{Bound, Split};
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;

/// A part of the iteration space: a range per axis. Axes that follow from others keep their whole range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    ranges: Vec<Range<usize>>,
}

impl Tile {
    /// The tile that is everything.
    pub fn whole(bound: &Bound) -> Self {
        Tile { ranges: bound.axes().iter().map(|axis| 0..axis.extent).collect() }
    }

    /// This tile with another range of one axis.
    pub fn with(mut self, axis: usize, range: Range<usize>) -> Self {
        self.ranges[axis] = range;
        self
    }

    /// The range of an axis.
    pub fn range(&self, axis: usize) -> Range<usize> {
        self.ranges[axis].clone()
    }

    /// The range of every axis.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
}

/// How to cut an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileSize {
    /// Ranges of this length, the last one shorter where the extent is no multiple.
    Size(usize),
    /// As few ranges of at most this length as possible, nearly equal, the longer ones first.
    AtMost(usize),
    /// This many ranges, nearly equal, the longer ones first; never more than the axis is long.
    Count(usize),
    /// Ranges of the first length, which is doubled, up to the second, as long as 16 are left. A rest of at
    /// most an eighth of that goes with the last of them: it would be a task of its own for next to nothing.
    Between(usize, usize),
}

/// So many tiles are enough for load to be balanced between some workers.
const MANY_TILES: usize = 16;

impl TileSize {
    /// The ranges of an axis of this extent, in order. They cover it once; an empty axis has one empty range,
    /// so that accumulating outputs are still set to their start value.
    ///
    /// # Panics
    /// If the size or count is 0.
    pub fn cut(self, extent: usize) -> Vec<Range<usize>> {
        (0..self.n_tiles(extent)).map(|i| self.tile(extent, i)).collect()
    }

    /// How many ranges an axis of this extent is cut into.
    ///
    /// # Panics
    /// If the size or count is 0.
    pub fn n_tiles(self, extent: usize) -> usize {
        assert!(!self.is_zero(), "an axis cannot be cut into tiles of {self:?}");
        match self.of_extent(extent) {
            TileSize::Count(count) => count.min(extent).max(1),
            TileSize::Size(size) if matches!(self, TileSize::Between(..)) => {
                let is_little = extent % size <= size / 8;
                (extent / size + usize::from(!is_little)).max(1)
            }
            TileSize::Size(size) | TileSize::AtMost(size) | TileSize::Between(size, _) => {
                extent.div_ceil(size).max(1)
            }
        }
    }

    /// The same for an axis of this extent, where the size does not depend on it any more.
    fn of_extent(self, extent: usize) -> TileSize {
        let TileSize::Between(mut size, most) = self else { return self };
        while size <= most / 2 && extent / size / 2 >= MANY_TILES {
            size *= 2;
        }
        TileSize::Size(size)
    }

    /// Range number `i` of an axis of this extent, of [`TileSize::n_tiles`].
    pub fn tile(self, extent: usize, i: usize) -> Range<usize> {
        if let TileSize::Size(size) = self.of_extent(extent) {
            let hi = if i + 1 < self.n_tiles(extent) { (i + 1) * size } else { extent };
            return i * size..hi;
        }
        let count = self.n_tiles(extent);
        let (len, longer) = (extent / count, extent % count);
        let lo = |i: usize| i * len + i.min(longer);
        lo(i)..lo(i + 1)
    }

    /// Whether this asks for tiles of no index, or for no tiles, which is always a mistake.
    pub fn is_zero(self) -> bool {
        matches!(self, TileSize::Size(0) | TileSize::AtMost(0) | TileSize::Count(0) | TileSize::Between(0, _))
    }
}

impl Bound {
    /// Every tile when the given axes are cut: the cross product of their ranges, the last axis fastest.
    ///
    /// Axes are numbered as in [`Bound::axes`]. Cutting an axis twice, one that must not be split, or into
    /// tiles of size 0 is an error.
    pub fn tiles(&self, cuts: &[(usize, TileSize)]) -> Result<Vec<Tile>> {
        let refuse = |sentence: String| Err(Error::new(ErrorKind::Plan, sentence));
        let mut tiles = vec![Tile::whole(self)];
        for (i, &(axis, size)) in cuts.iter().enumerate() {
            let Some(bound_axis) = self.axes().get(axis) else {
                return refuse(format!("there is no axis {axis}: the relation has {}", self.axes().len()));
            };
            let name = &bound_axis.name;
            if bound_axis.split == Split::Never {
                return refuse(format!("the axis {name} must not be split"));
            }
            if cuts[..i].iter().any(|&(earlier, _)| earlier == axis) {
                return refuse(format!("the axis {name} is cut twice; give one tile size per axis"));
            }
            if size.is_zero() {
                return refuse(format!(
                    "the axis {name} cannot be cut into tiles of {size:?}; use at least 1"
                ));
            }
            let ranges = size.cut(bound_axis.extent);
            tiles = tiles
                .iter()
                .flat_map(|tile| ranges.iter().map(|range| tile.clone().with(axis, range.clone())))
                .collect();
        }
        Ok(tiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_by_size_are_ragged_at_the_end_and_by_count_nearly_equal() {
        assert_eq!(TileSize::Size(4).cut(10), [0..4, 4..8, 8..10]);
        assert_eq!(TileSize::Count(4).cut(10), [0..3, 3..6, 6..8, 8..10]);
        assert_eq!(TileSize::Count(7).cut(3), [0..1, 1..2, 2..3]);
        assert_eq!(TileSize::Size(usize::MAX).cut(3).len(), 1);
        let sizes = [0, 1, 64, 256, 511, 512, 600, 1024, 1 << 16].map(|extent| {
            let ranges = TileSize::Between(16, 64).cut(extent);
            assert_eq!(ranges.last().map(|range| range.end), Some(extent));
            ranges[0].len()
        });
        assert_eq!(sizes, [0, 1, 16, 16, 16, 32, 32, 64, 64]);
        assert_eq!(TileSize::Between(16, 8).cut(1024).len(), 64);
        assert_eq!(TileSize::Between(16, 64).cut(34), [0..16, 16..34]);
        assert_eq!(TileSize::Between(16, 64).cut(35), [0..16, 16..32, 32..35]);
        assert_eq!(TileSize::Size(4).cut(0).len(), 1);
    }
}
