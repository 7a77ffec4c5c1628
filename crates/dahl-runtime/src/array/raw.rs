//! Where the elements of an array lie: address, extents and distances, and its place in its base allocation.

#![expect(unsafe_code, reason = "reads and writes elements through raw pointers")]

use super::{Element, Region, Shape};
use crate::error::{Error, ErrorKind, Result};
use std::slice;

/// A strided window of memory, last dimension fastest. Only an address: whoever uses it answers for it.
#[derive(Debug)]
pub(crate) struct Raw<T, const R: usize> {
    pub pointer: *mut T,
    pub shape: [usize; R],
    /// Elements between neighbours, per dimension.
    pub strides: [usize; R],
}

impl<T, const R: usize> Clone for Raw<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const R: usize> Copy for Raw<T, R> {}

// SAFETY: an address is only a number; the arrays and guards that use it carry the borrow that makes it sound, and
// elements are `Send` and `Sync`.
unsafe impl<T: Element, const R: usize> Send for Raw<T, R> {}
// SAFETY: as above.
unsafe impl<T: Element, const R: usize> Sync for Raw<T, R> {}

impl<T: Element, const R: usize> Raw<T, R> {
    /// An array in one piece.
    pub fn row_major(pointer: *mut T, shape: [usize; R]) -> Self {
        let mut strides = [1; R];
        for dim in (0..R.saturating_sub(1)).rev() {
            strides[dim] = strides[dim + 1] * shape[dim + 1];
        }
        Raw { pointer, shape, strides }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie in one piece, in order.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.len() == 0
            || (0..R).rev().all(|dim| {
                let fits = self.shape[dim] == 1 || self.strides[dim] == expected;
                expected *= self.shape[dim];
                fits
            })
    }

    /// Elements from the first to the last one, both included.
    pub fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        1 + (0..R).map(|dim| (self.shape[dim] - 1) * self.strides[dim]).sum::<usize>()
    }

    /// The part of this window with this range of dimension `dim`.
    pub fn slice(&self, dim: usize, start: usize, len: usize) -> Self {
        let mut part = *self;
        part.pointer = self.pointer.wrapping_add(start * self.strides[dim]);
        part.shape[dim] = len;
        part
    }

    /// The extents which, as those of a row-major array, give the same distances between elements.
    pub fn tile(&self) -> Shape {
        let mut tile = self.shape;
        if !self.is_contiguous() {
            for (extent, pair) in tile[1..].iter_mut().zip(self.strides.windows(2)) {
                *extent = pair[0] / pair[1];
            }
        }
        Shape::from(tile)
    }

    /// The element at an index.
    ///
    /// # Panics
    /// If the index is outside.
    #[inline(always)]
    pub fn at(&self, index: [usize; R]) -> *mut T {
        let mut offset = 0;
        for dim in 0..R {
            assert!(index[dim] < self.shape[dim], "index {index:?} is outside of the shape {:?}", self.shape);
            offset += index[dim] * self.strides[dim];
        }
        self.pointer.wrapping_add(offset)
    }

    /// Calls `f` with each row (the elements of the last dimension, which are neighbours), in order.
    ///
    /// # Safety
    /// The window's elements must be valid, initialised and not written to by anyone else meanwhile.
    pub unsafe fn for_each_row(&self, mut f: impl FnMut(&[T])) {
        self.for_each_row_start(|row, len| {
            // SAFETY: the row lies inside of the window, for which the caller vouches.
            f(unsafe { slice::from_raw_parts(row, len) });
        });
    }

    /// Calls `f` with each row, for writing.
    ///
    /// # Safety
    /// The window's elements must be valid, initialised and not touched by anyone else meanwhile.
    pub unsafe fn for_each_row_mut(&self, mut f: impl FnMut(&mut [T])) {
        self.for_each_row_start(|row, len| {
            // SAFETY: the row lies inside of the window, for which the caller vouches; rows do not overlap.
            f(unsafe { slice::from_raw_parts_mut(row, len) });
        });
    }

    fn for_each_row_start(&self, mut f: impl FnMut(*mut T, usize)) {
        if self.len() == 0 {
            return;
        }
        let row_len = self.shape.last().copied().unwrap_or(1);
        let n_rows = self.len() / row_len;
        for row in 0..n_rows {
            let (mut rest, mut offset) = (row, 0);
            for dim in (0..R.saturating_sub(1)).rev() {
                offset += rest % self.shape[dim] * self.strides[dim];
                rest /= self.shape[dim];
            }
            f(self.pointer.wrapping_add(offset), row_len);
        }
    }
}

/// The bytes of an array, or an error if they cannot be counted.
pub(crate) fn checked_bytes<T: Element>(shape: &[usize]) -> Result<usize> {
    let len = shape.iter().try_fold(size_of::<T>(), |product, &extent| product.checked_mul(extent));
    // Leaves room for rounding up, and no allocation may be larger anyway.
    len.filter(|&bytes| bytes < isize::MAX as usize / 2).ok_or_else(|| {
        let message = format!("an array of shape {shape:?} and element {} is too large", T::DTYPE);
        Error::new(ErrorKind::Memory, message)
    })
}

/// Which part of which base allocation a view is, for dependencies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub base: usize,
    /// The extents in which regions of the base are given, whatever the shape of the view.
    base_shape: Shape,
    /// A box that covers the view.
    pub region: Region,
    /// Where the first element lies in the base.
    offset: usize,
    /// Whether the dimensions of the view are those of the base; not so after a reshape.
    is_aligned: bool,
}

impl Place {
    /// All of an allocation.
    pub fn whole(base: usize, shape: &[usize]) -> Self {
        let base_shape = Shape::new(shape);
        Place { base, base_shape, region: Region::whole(base_shape), offset: 0, is_aligned: true }
    }

    /// The same memory in another shape.
    pub fn reshaped(mut self) -> Self {
        self.is_aligned = false;
        self
    }

    /// The place of `part`, which starts at index `start` of dimension `dim` of the window `of`.
    pub fn slice<T: Element, const R: usize>(
        &self,
        of: &Raw<T, R>,
        part: &Raw<T, R>,
        dim: usize,
        start: usize,
    ) -> Self {
        let offset = self.offset + start * of.strides[dim];
        let region = if self.is_aligned {
            let first = self.region.lo()[dim] + start;
            self.region.with_range(dim, first..first + part.shape[dim])
        } else {
            // Exact where the part is a range of the base's slowest dimensions; otherwise a box around it, which
            // may order tasks that could run together, but never the other way round.
            bounding_box(self.base_shape, offset, part.span())
        };
        Place { offset, region, ..*self }
    }
}

/// The smallest box that contains `len` neighbouring elements of an array.
fn bounding_box(shape: Shape, start: usize, len: usize) -> Region {
    let mut region = Region::whole(shape);
    if len == 0 {
        for dim in 0..shape.rank() {
            region = region.with_range(dim, 0..0);
        }
        return region;
    }
    let (mut first, mut last) = (start, start + len - 1);
    let mut stride: usize = shape.iter().product();
    for dim in 0..shape.rank() {
        stride /= shape[dim];
        let (from, to) = (first / stride, last / stride);
        region = region.with_range(dim, from..to + 1);
        if from != to {
            break;
        }
        (first, last) = (first % stride, last % stride);
    }
    region
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_around_neighbours_are_tight() {
        let shape = Shape::new(&[4, 3, 2]);
        assert_eq!(bounding_box(shape, 6, 12), Region::new(&[1..3, 0..3, 0..2]));
        assert_eq!(bounding_box(shape, 8, 4), Region::new(&[1..2, 1..3, 0..2]));
        assert_eq!(bounding_box(shape, 23, 1), Region::new(&[3..4, 2..3, 1..2]));
        assert_eq!(bounding_box(shape, 5, 2), Region::new(&[0..2, 0..3, 0..2]));
        assert!(bounding_box(shape, 5, 0).is_empty());
        assert_eq!(bounding_box(Shape::new(&[]), 0, 1), Region::new(&[]));
    }

    #[test]
    fn windows_know_whether_they_are_in_one_piece() {
        let mut memory = [0f32; 24];
        let whole = Raw::row_major(memory.as_mut_ptr(), [2, 3, 4]);
        assert!(whole.is_contiguous() && whole.span() == 24);
        let column = whole.slice(2, 1, 2);
        assert!(!column.is_contiguous());
        assert_eq!((column.tile(), column.span()), (Shape::new(&[2, 3, 4]), 22));
        let row = whole.slice(0, 1, 1).slice(1, 1, 1).slice(2, 1, 2);
        assert!(row.is_contiguous());
        assert_eq!((row.tile(), row.span()), (Shape::new(&[1, 1, 2]), 2));
    }
}
