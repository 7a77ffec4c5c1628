//! Shapes and regions: the extents of an array and boxes inside it, up to four dimensions, slowest first.

use std::fmt;
use std::ops::{Deref, Range};

/// The most dimensions an array can have.
pub const MAX_RANK: usize = 4;

/// The extents of an array, slowest dimension first (NCHW for images). A scalar has rank 0.
#[derive(Clone, Copy, Eq, Hash, Default)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal by the same fields, only faster")]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// The shape with these extents.
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`] extents.
    #[inline]
    pub fn new(extents: &[usize]) -> Self {
        assert!(extents.len() <= MAX_RANK, "an array has at most {MAX_RANK} dimensions, not {extents:?}");
        let mut dims = [0; MAX_RANK];
        dims[..extents.len()].copy_from_slice(extents);
        Shape { rank: extents.len() as u8, dims }
    }

    /// Number of elements (1 for a scalar).
    #[inline]
    pub fn len(&self) -> usize {
        // A number that does not fit is more than any memory holds; saturated, it is refused where it is needed.
        self.iter().fold(1, |len: usize, &extent| len.saturating_mul(extent))
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.contains(&0)
    }
}

impl PartialEq for Shape {
    /// Extents beyond the rank are zero, so all are compared, without a branch per extent: submission does this
    /// several times per task.
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        self.rank == other.rank && differences(&self.dims, &other.dims) == 0
    }
}

#[inline]
fn differences(a: &[usize; MAX_RANK], b: &[usize; MAX_RANK]) -> usize {
    (0..MAX_RANK).fold(0, |bits, i| bits | (a[i] ^ b[i]))
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    #[inline]
    fn from(extents: [usize; N]) -> Self {
        Shape::new(&extents)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (i, extent) in self.iter().enumerate() {
            write!(f, "{}{extent}", if i > 0 { "," } else { "" })?;
        }
        write!(f, "]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

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
        let mut region = Region { rank: shape.len_rank(), ..Region::default() };
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

    /// The same box with another range in dimension `dim`; a range that ends before it starts counts as empty.
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

impl Shape {
    #[inline]
    fn len_rank(&self) -> u8 {
        self.rank
    }

    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_has_one_element_and_an_empty_extent_none() {
        assert_eq!(Shape::new(&[]).len(), 1);
        assert!(!Region::whole(Shape::new(&[])).is_empty());
        assert_eq!(Shape::new(&[3, 0]).len(), 0);
        assert!(Region::whole(Shape::new(&[3, 0])).is_empty());
    }

    #[test]
    fn overlap_containment_and_intersection_agree() {
        let a = Region::new(&[0..4, 2..6]);
        let b = Region::new(&[3..5, 5..9]);
        let c = Region::new(&[4..5, 0..9]);
        assert!(a.overlaps(&b) && !a.overlaps(&c));
        assert_eq!(a.intersection(&b), Region::new(&[3..4, 5..6]));
        assert!(a.intersection(&c).is_empty());
        assert!(a.contains(&a.intersection(&b)) && !a.contains(&b));
    }
}
