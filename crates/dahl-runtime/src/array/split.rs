//! Parts of arrays: views that borrow the array they are cut from, as chunks of a slice do.
//!
//! Cutting and putting together are free: a part is a region of the same base allocation, and dependencies between
//! parts, other parts and the whole follow from the regions.

use super::Element;
use super::dense::Array;
use super::raw::{Place, Raw};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Inner;
use crate::sync::Arc;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// How an array is cut.
pub(crate) struct Cut<'s, T, const R: usize> {
    runtime: &'s Arc<Inner>,
    raw: Raw<T, R>,
    place: Place,
    axis: usize,
    /// The size of the parts, or nothing if they are as even as possible.
    size: Option<usize>,
    n: usize,
    todo: Range<usize>,
}

impl<'s, T: Element, const R: usize> Cut<'s, T, R> {
    pub fn by_count(array: &'s Array<'_, T, R>, axis: usize, n: usize) -> Result<Self> {
        let extent = extent(array, axis)?;
        if n == 0 || n > extent {
            let message = format!("dimension {axis} has {extent} indices and cannot be cut into {n} parts");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Cut::new(array, axis, None, n))
    }

    pub fn by_size(array: &'s Array<'_, T, R>, axis: usize, size: usize) -> Result<Self> {
        let extent = extent(array, axis)?;
        if size == 0 {
            let message = format!("dimension {axis} cannot be cut into tiles of no index");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Cut::new(array, axis, Some(size), extent.div_ceil(size)))
    }

    fn new(array: &'s Array<'_, T, R>, axis: usize, size: Option<usize>, n: usize) -> Self {
        Cut { runtime: &array.runtime, raw: array.raw, place: array.place, axis, size, n, todo: 0..n }
    }

    fn part(&self, i: usize) -> Array<'s, T, R> {
        let extent = self.raw.shape[self.axis];
        let (start, end) = match self.size {
            Some(size) => (i * size, (i * size + size).min(extent)),
            None => (i * extent / self.n, (i + 1) * extent / self.n),
        };
        let raw = self.raw.slice(self.axis, start, end - start);
        let place = self.place.slice(&self.raw, &raw, self.axis, start);
        Array::new(Arc::clone(self.runtime), raw, place)
    }
}

fn extent<T: Element, const R: usize>(array: &Array<'_, T, R>, axis: usize) -> Result<usize> {
    array.shape().get(axis).copied().ok_or_else(|| {
        let message = format!("an array of {R} dimensions cannot be cut along dimension {axis}");
        Error::new(ErrorKind::Shape, message)
    })
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
}

impl<'s, T: Element, const R: usize> Iterator for SplitMut<'s, T, R> {
    type Item = Array<'s, T, R>;
    fn next(&mut self) -> Option<Self::Item> {
        // Each part is given out once, so parts never overlap.
        self.cut.todo.next().map(|i| self.cut.part(i))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.cut.todo.size_hint()
    }
}

impl<T: Element, const R: usize> ExactSizeIterator for SplitMut<'_, T, R> {}

/// The parts of an array that is cut for reading.
pub struct Split<'s, T, const R: usize> {
    cut: Cut<'s, T, R>,
}

impl<'s, T: Element, const R: usize> Split<'s, T, R> {
    pub(super) fn new(cut: Cut<'s, T, R>) -> Self {
        Split { cut }
    }
}

impl<'s, T: Element, const R: usize> Iterator for Split<'s, T, R> {
    type Item = Part<'s, T, R>;
    fn next(&mut self) -> Option<Self::Item> {
        self.cut.todo.next().map(|i| Part(self.cut.part(i)))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.cut.todo.size_hint()
    }
}

impl<T: Element, const R: usize> ExactSizeIterator for Split<'_, T, R> {}

/// A part of an array that can only be read: an input of tasks, never an output.
pub struct Part<'s, T, const R: usize>(Array<'s, T, R>);

impl<'s, T: Element, const R: usize> Deref for Part<'s, T, R> {
    type Target = Array<'s, T, R>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
