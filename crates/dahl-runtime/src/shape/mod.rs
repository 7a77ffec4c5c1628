//! What arrays are made of: element types, shapes, regions and memory layouts. Numbers and names only;
//! nothing here holds memory.

mod element;
mod region;
mod layout;

pub use element::{Dtype, Element, PerElement};
pub use layout::Layout;
pub use region::Region;

use std::fmt;
use std::ops::Deref;

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
    /// Number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

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
        // A number that does not fit is more than any memory holds; saturated, it is refused where it is
        // needed.
        self.iter().fold(1, |len: usize, &extent| len.saturating_mul(extent))
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.contains(&0)
    }
}

impl PartialEq for Shape {
    /// Extents beyond the rank are zero, so all are compared, without a branch per extent: submission does
    /// this several times per task.
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
