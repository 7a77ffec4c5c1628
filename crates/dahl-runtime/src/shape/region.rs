//! Boxes of indices inside an array, up to four dimensions, slowest first.

use super::{MAX_RANK, Shape, differences};
use std::fmt;
use std::ops::Range;

/// A box of indices inside an array: a half-open range per dimension. The region of a scalar has rank 0.
#[derive(Clone, Copy, Eq, Hash, Default)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal by the same fields, only faster")]
pub struct Region {
    rank: u8,
    lo: [usize; MAX_RANK],
    hi: [usize; MAX_RANK],
}

impl PartialEq for Region {
    /// See [`Shape::eq`].
    #[inline]
    fn eq(&self, other: &Region) -> bool {
        let bits = differences(&self.lo, &other.lo) | differences(&self.hi, &other.hi);
        self.rank == other.rank && bits == 0
    }
}

impl Region {
    /// The region of these ranges; a range that ends before it starts counts as empty.
    #[inline]
    pub fn new(ranges: &[Range<usize>]) -> Self {
        assert!(ranges.len() <= MAX_RANK, "a region has at most {MAX_RANK} dimensions, not {}", ranges.len());
        let (mut lo, mut hi) = ([0; MAX_RANK], [0; MAX_RANK]);
        for (i, range) in ranges.iter().enumerate() {
            lo[i] = range.start;
            hi[i] = range.end.max(range.start);
        }
        Region { rank: ranges.len() as u8, lo, hi }
    }

    /// All of an array.
    #[inline]
    pub fn whole(shape: Shape) -> Self {
        let mut region = Region { rank: shape.rank, ..Region::default() };
        region.hi[..shape.rank()].copy_from_slice(&shape);
        region
    }

    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// First index per dimension.
    #[inline]
    pub fn lo(&self) -> &[usize] {
        &self.lo[..self.rank()]
    }

    /// One past the last index per dimension.
    #[inline]
    pub fn hi(&self) -> &[usize] {
        &self.hi[..self.rank()]
    }

    /// The range of dimension `dim`.
    #[inline]
    pub fn range(&self, dim: usize) -> Range<usize> {
        self.lo()[dim]..self.hi()[dim]
    }

    /// The extents of the box.
    #[inline]
    pub fn shape(&self) -> Shape {
        let mut dims = [0; MAX_RANK];
        for (dim, extent) in dims.iter_mut().enumerate().take(self.rank()) {
            *extent = self.hi[dim] - self.lo[dim];
        }
        Shape { rank: self.rank, dims }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape().len()
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape().is_empty()
    }

    /// Whether both have an element in common.
    #[inline]
    pub fn overlaps(&self, other: &Region) -> bool {
        debug_assert_eq!(self.rank, other.rank, "regions of different arrays");
        (0..self.rank()).all(|i| self.lo[i].max(other.lo[i]) < self.hi[i].min(other.hi[i]))
    }

    /// Whether the element at `index` is in this region.
    #[inline(always)]
    pub fn has(&self, index: &[usize]) -> bool {
        index.len() == self.rank()
            && (0..index.len()).all(|i| self.lo[i] <= index[i] && index[i] < self.hi[i])
    }

    /// Whether every element of `other` is in this region.
    #[inline]
    pub fn contains(&self, other: &Region) -> bool {
        debug_assert_eq!(self.rank, other.rank, "regions of different arrays");
        other.is_empty() || (0..self.rank()).all(|i| self.lo[i] <= other.lo[i] && other.hi[i] <= self.hi[i])
    }

    /// The same box with another range in dimension `dim`; a range that ends before it starts counts as
    /// empty.
    #[inline]
    pub fn with_range(&self, dim: usize, range: Range<usize>) -> Region {
        debug_assert!(dim < self.rank(), "dimension {dim} of {}", self.rank());
        let mut changed = *self;
        changed.lo[dim] = range.start;
        changed.hi[dim] = range.end.max(range.start);
        changed
    }

    /// What both have in common (possibly empty).
    #[inline]
    pub fn intersection(&self, other: &Region) -> Region {
        let mut both = *self;
        for i in 0..self.rank() {
            both.lo[i] = self.lo[i].max(other.lo[i]);
            both.hi[i] = self.hi[i].min(other.hi[i]).max(both.lo[i]);
        }
        both
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for i in 0..self.rank() {
            write!(f, "{}{}..{}", if i > 0 { "," } else { "" }, self.lo[i], self.hi[i])?;
        }
        write!(f, "]")
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
