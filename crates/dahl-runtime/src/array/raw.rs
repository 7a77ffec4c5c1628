//! Where the elements of an array lie: address, extents and distances.

#![expect(unsafe_code, reason = "lets addresses travel between threads")]

use super::{Element, MAX_RANK, Shape};
use crate::error::{Error, ErrorKind, Result};

/// A strided window of memory. Only an address: whoever uses it answers for it.
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

// SAFETY: an address is only a number; the arrays and guards that use it carry the borrow that makes it
// sound, and elements are `Send` and `Sync`.
unsafe impl<T: Element, const R: usize> Send for Raw<T, R> {}
// SAFETY: as above.
unsafe impl<T: Element, const R: usize> Sync for Raw<T, R> {}

impl<T: Element, const R: usize> Raw<T, R> {
    /// An array in one piece, last dimension fastest.
    pub fn row_major(pointer: *mut T, shape: [usize; R]) -> Self {
        let mut strides = [1; R];
        for dim in (0..R.saturating_sub(1)).rev() {
            // An empty array may have any other extents; its strides are never used.
            strides[dim] = usize::saturating_mul(strides[dim + 1], shape[dim + 1]);
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

    /// Whether the elements along the last dimension are neighbours.
    pub fn has_rows(&self) -> bool {
        R == 0 || self.shape[R - 1] <= 1 || self.strides[R - 1] == 1
    }

    /// The part of this window with this range of dimension `dim`.
    pub fn slice(&self, dim: usize, start: usize, len: usize) -> Self {
        let mut part = *self;
        part.pointer = self.pointer.wrapping_add(start * self.strides[dim]);
        part.shape[dim] = len;
        part
    }

    /// Every `step`-th index of dimension `dim`.
    pub fn stepped(&self, dim: usize, step: usize) -> Self {
        let mut part = *self;
        part.shape[dim] = self.shape[dim].div_ceil(step);
        if part.shape[dim] > 1 {
            part.strides[dim] *= step;
        }
        part
    }

    /// The same window with its dimensions in another order.
    pub fn permuted(&self, axes: [usize; R]) -> Self {
        Raw {
            pointer: self.pointer,
            shape: axes.map(|axis| self.shape[axis]),
            strides: axes.map(|axis| self.strides[axis]),
        }
    }

    /// The extents which, as those of a row-major array, give the same distances between elements, if there
    /// are any: not for a transposed window, nor where the elements of a row are not neighbours.
    pub fn tile(&self) -> Option<Shape> {
        let mut tile = self.shape;
        if self.is_contiguous() {
            return Some(Shape::from(tile));
        }
        // The distance from one index to the next of `faster`, the last dimension that has to keep to one:
        // dimensions with a single index fit anywhere.
        let (mut distance, mut faster) = (1, R - 1);
        if !self.has_rows() {
            return None;
        }
        for dim in (0..R - 1).rev().filter(|&dim| self.shape[dim] > 1) {
            let extent = self.strides[dim] / distance;
            if extent < self.shape[faster] || !self.strides[dim].is_multiple_of(distance) {
                return None;
            }
            tile[faster] = extent;
            (distance, faster) = (self.strides[dim], dim);
        }
        Some(Shape::from(tile))
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

    /// The address of every element, last dimension fastest. They are all different.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = *mut T> + use<T, R> {
        let pointer = self.pointer;
        Offsets::new(&self.shape, &self.strides).map(move |offset| pointer.wrapping_add(offset))
    }

    /// The address of every row (the elements along the last dimension), in order, and how many elements a
    /// row has. Rows do not overlap.
    pub fn rows(&self) -> (impl ExactSizeIterator<Item = *mut T> + use<T, R>, usize) {
        let mut starts = *self;
        let len = starts.shape.last_mut().map_or(1, |last| std::mem::replace(last, (*last).min(1)));
        (starts.elements(), len)
    }
}

/// The offsets of the elements of a strided window, last dimension fastest.
struct Offsets {
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
    index: [usize; MAX_RANK],
    offset: usize,
    n_left: usize,
}

impl Offsets {
    fn new(shape: &[usize], strides: &[usize]) -> Self {
        let n_left = shape.iter().product();
        let mut offsets =
            Offsets { shape: [1; MAX_RANK], strides: [0; MAX_RANK], index: [0; MAX_RANK], offset: 0, n_left };
        let first = MAX_RANK - shape.len();
        offsets.shape[first..].copy_from_slice(shape);
        offsets.strides[first..].copy_from_slice(strides);
        offsets
    }
}

impl Iterator for Offsets {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.n_left = self.n_left.checked_sub(1)?;
        let offset = self.offset;
        for dim in (0..MAX_RANK).rev() {
            self.index[dim] += 1;
            self.offset += self.strides[dim];
            if self.index[dim] < self.shape[dim] {
                break;
            }
            self.offset -= self.index[dim] * self.strides[dim];
            self.index[dim] = 0;
        }
        Some(offset)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.n_left, Some(self.n_left))
    }
}

impl ExactSizeIterator for Offsets {}

/// The bytes of an array, or an error if they cannot be counted.
pub(crate) fn checked_bytes<T: Element>(shape: &[usize]) -> Result<usize> {
    let len = shape.iter().try_fold(size_of::<T>(), |product, &extent| product.checked_mul(extent));
    // Leaves room for rounding up, and no allocation may be larger anyway.
    len.filter(|&bytes| bytes < isize::MAX as usize / 2).ok_or_else(|| {
        let message = format!("an array of shape {shape:?} and element {} is too large", T::DTYPE);
        Error::new(ErrorKind::Memory, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_know_whether_they_are_in_one_piece() {
        let mut memory = [0f32; 24];
        let whole = Raw::row_major(memory.as_mut_ptr(), [2, 3, 4]);
        assert!(whole.is_contiguous());
        let column = whole.slice(2, 1, 2);
        assert!(!column.is_contiguous());
        assert_eq!(column.tile(), Some(Shape::new(&[2, 3, 4])));
        let row = whole.slice(0, 1, 1).slice(1, 1, 1).slice(2, 1, 2);
        assert!(row.is_contiguous());
        assert_eq!(row.tile(), Some(Shape::new(&[1, 1, 2])));
    }

    #[test]
    fn some_windows_are_no_part_of_a_row_major_array() {
        let mut memory = [0f32; 24];
        let whole = Raw::row_major(memory.as_mut_ptr(), [2, 3, 4]);
        assert_eq!(whole.stepped(0, 2).tile(), Some(Shape::new(&[1, 3, 4])));
        assert_eq!(whole.slice(0, 1, 1).stepped(1, 2).tile(), Some(Shape::new(&[1, 2, 8])));
        assert_eq!(whole.stepped(1, 2).tile(), None, "rows 0, 2, 3 and 5");
        assert_eq!(whole.stepped(2, 2).tile(), None);
        assert_eq!(whole.permuted([1, 0, 2]).tile(), None);
        // A dimension with one index may come from anywhere.
        let flat = whole.slice(0, 1, 1).permuted([1, 0, 2]);
        assert_eq!(flat.tile(), Some(Shape::new(&[3, 1, 4])));
        assert_eq!(flat.slice(2, 0, 2).tile(), Some(Shape::new(&[3, 1, 4])));
    }

    #[test]
    fn elements_and_rows_come_in_order() {
        let mut memory: Vec<u32> = (0..24).collect();
        let whole = Raw::row_major(memory.as_mut_ptr(), [2, 3, 4]);
        let seen = |raw: Raw<u32, 3>| -> Vec<usize> {
            raw.elements().map(|at| (at as usize - memory.as_ptr() as usize) / 4).collect()
        };
        assert_eq!(seen(whole), (0..24).collect::<Vec<_>>());
        assert_eq!(seen(whole.slice(1, 1, 1).slice(2, 2, 2)), [6, 7, 18, 19]);
        assert_eq!(seen(whole.slice(1, 0, 1).permuted([2, 1, 0])), [0, 12, 1, 13, 2, 14, 3, 15]);
        assert_eq!(seen(whole.stepped(2, 3).slice(0, 1, 1)), [12, 15, 16, 19, 20, 23]);
        assert!(seen(whole.slice(1, 0, 0)).is_empty());
        let (rows, len) = whole.slice(2, 1, 2).rows();
        assert_eq!((rows.len(), len), (6, 2));
        let (rows, len) = whole.slice(2, 1, 0).rows();
        assert_eq!((rows.len(), len), (0, 0));
        let (rows, len) = Raw::row_major(memory.as_mut_ptr(), []).rows();
        assert_eq!((rows.len(), len), (1, 1));
    }
}
