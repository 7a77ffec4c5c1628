//! Parts of arrays: views that borrow the array they are cut from, as chunks of a slice do.
//!
//! Cutting and putting together are free: a part is a region of the same base allocation, and dependencies
//! between parts, other parts and the whole follow from the regions. Arrays are cut as plans cut axes
//! ([`TileSize`]).
//!
//! Parts that are read may overlap by a halo. There are never more parts than indices, and an empty array has
//! one empty part. Putting parts together is the end of a borrow: nothing waits and nothing is recorded.

use super::Element;
use super::dense::Array;
use super::view::Part;
use crate::codelet::relation::TileSize;
use crate::error::{Error, ErrorKind, Result};
use std::marker::PhantomData;
use std::ops::Range;

/// How an array is cut: into a grid of parts, which come last dimension fastest.
pub(super) struct Cut<'s, T, const R: usize> {
    array: Array<'s, T, R>,
    sizes: [TileSize; R],
    /// How far the parts reach beyond what is cut.
    halo: [usize; R],
    /// Parts per dimension.
    n_parts: [usize; R],
    todo: Range<usize>,
}

impl<'s, T: Element, const R: usize> Cut<'s, T, R> {
    /// To be called with an array that nobody uses while the parts are in use.
    #[track_caller]
    pub fn new(array: Array<'s, T, R>, sizes: [TileSize; R]) -> Result<Self> {
        if let Some(dim) = sizes.iter().position(|size| size.is_zero()) {
            let message = format!("dimension {dim} cannot be cut into {:?}: give at least 1", sizes[dim]);
            return Err(Error::new(ErrorKind::Shape, message).at(std::panic::Location::caller()));
        }
        let mut cut = Cut { array, sizes, halo: [0; R], n_parts: [0; R], todo: 0..0 };
        cut.count();
        Ok(cut)
    }

    /// One dimension cut, the others whole.
    #[track_caller]
    pub fn along(array: Array<'s, T, R>, axis: usize, size: TileSize) -> Result<Self> {
        let mut sizes = [TileSize::Count(1); R];
        match sizes.get_mut(axis) {
            Some(of_axis) => *of_axis = size,
            None => {
                let message = format!("an array of {R} dimensions cannot be cut along dimension {axis}");
                return Err(Error::new(ErrorKind::Shape, message).at(std::panic::Location::caller()));
            }
        }
        Cut::new(array, sizes)
    }

    fn count(&mut self) {
        let extents = self.array.shape();
        self.n_parts = std::array::from_fn(|dim| self.sizes[dim].n_tiles(extents[dim] - 2 * self.halo[dim]));
        self.todo = 0..self.n_parts.iter().product();
    }

    fn part(&self, number: usize) -> Array<'s, T, R> {
        let (mut raw, mut place) = (self.array.raw, self.array.place);
        let mut rest = number;
        for dim in (0..R).rev() {
            let (n, halo) = (self.n_parts[dim], self.halo[dim]);
            if n == 1 {
                // The halo of the only part ends where the array does.
                continue;
            }
            let range = self.sizes[dim].tile(raw.shape[dim] - 2 * halo, rest % n);
            rest /= n;
            let whole = raw;
            raw = whole.slice(dim, range.start, range.len() + 2 * halo);
            place = place.slice(&whole, &raw, dim, range.start);
        }
        self.array.at(raw, place)
    }
}

/// The parts of an array that is cut for writing: an iterator over disjoint arrays.
pub struct SplitMut<'s, T, const R: usize> {
    cut: Cut<'s, T, R>,
    borrow: PhantomData<&'s mut [T]>,
}

impl<'s, T: Element, const R: usize> SplitMut<'s, T, R> {
    /// To be called with a cut of an exclusively borrowed array.
    pub(super) fn new(cut: Cut<'s, T, R>) -> Self {
        SplitMut { cut, borrow: PhantomData }
    }

    /// Parts per dimension.
    pub fn n_parts(&self) -> [usize; R] {
        self.cut.n_parts
    }
}

impl<'s, T: Element, const R: usize> Iterator for SplitMut<'s, T, R> {
    type Item = Array<'s, T, R>;
    // Each part is given out once, so parts never overlap.
    fn next(&mut self) -> Option<Self::Item> {
        self.cut.todo.next().map(|i| self.cut.part(i))
    }
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.cut.todo.nth(n).map(|i| self.cut.part(i))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.cut.todo.size_hint()
    }
}

impl<T: Element, const R: usize> ExactSizeIterator for SplitMut<'_, T, R> {}

/// The parts of an array that is cut for reading: an iterator over parts, which overlap if they have a halo.
pub struct Split<'s, T, const R: usize> {
    cut: Cut<'s, T, R>,
}

impl<'s, T: Element, const R: usize> Split<'s, T, R> {
    pub(super) fn new(cut: Cut<'s, T, R>) -> Self {
        Split { cut }
    }

    /// Parts per dimension.
    pub fn n_parts(&self) -> [usize; R] {
        self.cut.n_parts
    }

    /// Parts that overlap: what is cut is the array without its outermost `halo` indices at both ends, and
    /// each part reaches `halo` indices further on all sides. So the parts match those of an array that is
    /// smaller by twice the halo, as the output of a stencil is.
    ///
    /// ```
    /// # use dahl_runtime::{Runtime, machine::Machine};
    /// # fn main() -> dahl_runtime::Result<()> {
    /// # let runtime = Runtime::new(&Machine::with_workers(1))?;
    /// let x = runtime.owned_from([8], &[0u8, 1, 2, 3, 4, 5, 6, 7])?;
    /// let parts = x.split(0, 3)?.with_halo([1])?;
    /// let seen: Vec<_> = parts.map(|part| part.to_vec()).collect::<Result<_, _>>()?;
    /// assert_eq!(seen, [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn with_halo(mut self, halo: [usize; R]) -> Result<Self> {
        let extents = self.cut.array.shape();
        if let Some(dim) = (0..R).find(|&dim| extents[dim] / 2 < halo[dim]) {
            let message = format!(
                "dimension {dim} has {} indices, too few for a halo of {} at both ends",
                extents[dim], halo[dim]
            );
            return Err(Error::new(ErrorKind::Shape, message).at(std::panic::Location::caller()));
        }
        self.cut.halo = halo;
        self.cut.count();
        Ok(self)
    }
}

impl<'s, T: Element, const R: usize> Iterator for Split<'s, T, R> {
    type Item = Part<'s, T, R>;
    fn next(&mut self) -> Option<Self::Item> {
        self.cut.todo.next().map(|i| Part::new(self.cut.part(i)))
    }
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.cut.todo.nth(n).map(|i| Part::new(self.cut.part(i)))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.cut.todo.size_hint()
    }
}

impl<T: Element, const R: usize> ExactSizeIterator for Split<'_, T, R> {}
