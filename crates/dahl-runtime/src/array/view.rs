//! Views: an array, or what is borrowed from one, seen in another way. Nothing is copied and nothing waits.
//!
//! [`Array::view`] and [`Array::view_mut`] borrow; the methods called `into_…` move a name on to another
//! shape, a region, every so many indices, or another order of the dimensions. For example, the transposed
//! upper half of a matrix, which stays where it is:
//!
//! ```
//! # use dahl_runtime::{Runtime, machine::Machine};
//! # fn main() -> dahl_runtime::Result<()> {
//! # let runtime = Runtime::new(&Machine::with_workers(1))?;
//! let x = runtime.owned_from([4, 3], &[0u8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])?;
//! let upper = x.view().into_region([0..2, 0..3])?.into_transposed();
//! assert_eq!(upper.read()?.to_string(), "[[0 3]\n [1 4]\n [2 5]]");
//! # Ok(())
//! # }
//! ```
//!
//! Tasks take views of all kinds. A kernel sees a view that is a window of a row-major array as a tile that
//! reaches beyond the extents, and any other one as [`Layout::Strided`](super::Layout::Strided).
//! Implementations that need certain layouts refuse both at submission; tile buffers of graphs are never
//! strided.

use super::dense::Array;
use super::raw::Raw;
use super::split::{Cut, Split, SplitMut};
use super::{Element, Shape};
use crate::codelet::relation::TileSize;
use crate::error::{Error, ErrorKind, Result};
use std::ops::{Deref, Range};
use std::panic::Location;

#[track_caller]
fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Shape, message).at(Location::caller()))
}

impl<'a, T: Element, const R: usize> Array<'a, T, R> {
    /// A view for reading. The array stays readable.
    pub fn view(&self) -> Part<'_, T, R> {
        Part(self.at(self.raw, self.place))
    }

    /// A view for writing. While it lives the array itself cannot be used.
    pub fn view_mut(&mut self) -> Array<'_, T, R> {
        self.at(self.raw, self.place)
    }

    /// The part with these ranges of indices.
    #[track_caller]
    pub fn into_region(self, ranges: [Range<usize>; R]) -> Result<Self> {
        let (mut raw, mut place) = (self.raw, self.place);
        for (dim, range) in ranges.iter().enumerate() {
            if range.start > range.end || range.end > raw.shape[dim] {
                return refuse(format!(
                    "the range {range:?} of dimension {dim} is outside of an array of shape {}",
                    Shape::new(&self.raw.shape)
                ));
            }
            let whole = raw;
            raw = whole.slice(dim, range.start, range.len());
            place = place.slice(&whole, &raw, dim, range.start);
        }
        Ok(Array { raw, place, ..self })
    }

    /// The part with every `step`-th index of a dimension, the first one included.
    #[track_caller]
    pub fn into_stepped(self, axis: usize, step: usize) -> Result<Self> {
        if axis >= R || step == 0 {
            return refuse(format!(
                "an array of {R} dimensions has no steps of {step} along dimension {axis}; steps are at least 1, \
                 dimensions are counted from 0"
            ));
        }
        Ok(self.rearranged(|raw| raw.stepped(axis, step)))
    }

    /// The same elements with the dimensions in another order: dimension `i` is what was dimension `axes[i]`.
    #[track_caller]
    pub fn into_permuted(self, axes: [usize; R]) -> Result<Self> {
        if !(0..R).all(|axis| axes.contains(&axis)) {
            return refuse(format!("{axes:?} is no order of {R} dimensions: name each of them once"));
        }
        Ok(self.rearranged(|raw| raw.permuted(axes)))
    }

    /// The same memory in another shape; the old name is gone.
    ///
    /// Fails if the number of elements differs or if the array is not in one piece (then [`Array::to_array`]
    /// makes a copy that is).
    #[track_caller]
    pub fn into_reshaped<const S: usize>(self, shape: [usize; S]) -> Result<Array<'a, T, S>> {
        self.check_reshape(&shape)?;
        Ok(self.reshaped(shape))
    }

    /// The same memory as a vector, under the conditions of [`Array::into_reshaped`].
    #[track_caller]
    pub fn into_flat(self) -> Result<Array<'a, T, 1>> {
        let len = self.len();
        self.into_reshaped([len])
    }

    /// A grid of disjoint parts that live as long as the array would have: for partitions of parts.
    #[track_caller]
    pub fn into_grid(self, sizes: [TileSize; R]) -> Result<SplitMut<'a, T, R>> {
        Ok(SplitMut::new(Cut::new(self, sizes)?))
    }

    fn rearranged(self, change: impl FnOnce(&Raw<T, R>) -> Raw<T, R>) -> Self {
        let raw = change(&self.raw);
        let place = self.place.rearranged(&raw);
        Array { raw, place, ..self }
    }

    #[track_caller]
    pub(super) fn check_reshape(&self, shape: &[usize]) -> Result<()> {
        let old = Shape::new(&self.raw.shape);
        let len = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
        if len != Some(self.len()) {
            let (n, new) = (self.len(), Shape::new(shape));
            return refuse(format!(
                "an array of shape {old} has {n} elements and cannot become one of shape {new}"
            ));
        }
        if !self.is_contiguous() {
            return refuse(format!(
                "a part of shape {old} that is not in one piece cannot be reshaped: make a copy with `to_array`"
            ));
        }
        Ok(())
    }

    /// A reshape that has been checked.
    pub(super) fn reshaped<const S: usize>(self, shape: [usize; S]) -> Array<'a, T, S> {
        let Array { runtime, raw, place, block, borrow } = self;
        let place = if S == R && raw.shape[..] == shape[..] { place } else { place.reshaped() };
        Array { runtime, raw: Raw::row_major(raw.pointer, shape), place, block, borrow }
    }
}

impl<T: Element> Array<'_, T, 2> {
    /// The same matrix with rows and columns exchanged.
    pub fn into_transposed(self) -> Self {
        self.rearranged(|raw| raw.permuted([1, 0]))
    }
}

/// A view of an array that can only be read: an input of tasks, never an output.
pub struct Part<'s, T, const R: usize>(Array<'s, T, R>);

impl<'s, T: Element, const R: usize> Part<'s, T, R> {
    pub(super) fn new(array: Array<'s, T, R>) -> Self {
        Part(array)
    }

    /// See [`Array::into_region`].
    #[track_caller]
    pub fn into_region(self, ranges: [Range<usize>; R]) -> Result<Self> {
        self.0.into_region(ranges).map(Part)
    }

    /// See [`Array::into_stepped`].
    #[track_caller]
    pub fn into_stepped(self, axis: usize, step: usize) -> Result<Self> {
        self.0.into_stepped(axis, step).map(Part)
    }

    /// See [`Array::into_permuted`].
    #[track_caller]
    pub fn into_permuted(self, axes: [usize; R]) -> Result<Self> {
        self.0.into_permuted(axes).map(Part)
    }

    /// See [`Array::into_reshaped`].
    #[track_caller]
    pub fn into_reshaped<const S: usize>(self, shape: [usize; S]) -> Result<Part<'s, T, S>> {
        self.0.into_reshaped(shape).map(Part)
    }

    /// See [`Array::into_flat`].
    #[track_caller]
    pub fn into_flat(self) -> Result<Part<'s, T, 1>> {
        self.0.into_flat().map(Part)
    }

    /// A grid of parts, as [`Array::grid`].
    #[track_caller]
    pub fn into_grid(self, sizes: [TileSize; R]) -> Result<Split<'s, T, R>> {
        Ok(Split::new(Cut::new(self.0, sizes)?))
    }
}

impl<T: Element> Part<'_, T, 2> {
    /// The same matrix with rows and columns exchanged.
    pub fn into_transposed(self) -> Self {
        Part(self.0.into_transposed())
    }
}

impl<'s, T: Element, const R: usize> Deref for Part<'s, T, R> {
    type Target = Array<'s, T, R>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
