//! Access guards: the program's own look at the elements of an array.
//!
//! A guard is made after the tasks that matter have finished, and it borrows the array, so that no task which
//! conflicts with it can be submitted while it lives. There is nothing to release, no lock, and no cost per
//! element beyond the bounds check. Forgetting a guard is harmless.

#![expect(unsafe_code, reason = "turns the address of an array into references to its elements")]

use super::Element;
use super::print;
use super::raw::Raw;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::slice;

/// Read access to an array: `guard[[row, column]]`, slices, and printing with aligned columns (`{:.3}`).
pub struct ReadGuard<'g, T, const R: usize> {
    raw: Raw<T, R>,
    borrow: PhantomData<&'g [T]>,
}

/// Write access to an array.
pub struct WriteGuard<'g, T, const R: usize> {
    raw: Raw<T, R>,
    borrow: PhantomData<&'g mut [T]>,
}

macro_rules! reading {
    ($guard:ident) => {
        impl<'g, T: Element, const R: usize> $guard<'g, T, R> {
            /// Called after the wait, with the borrow of the array that the guard's lifetime stands for.
            pub(super) fn new(raw: Raw<T, R>) -> Self {
                $guard { raw, borrow: PhantomData }
            }

            /// The extents, slowest dimension first.
            pub fn shape(&self) -> [usize; R] {
                self.raw.shape
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                self.raw.len()
            }

            /// Whether there is no element.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements in memory order, if they lie in one piece.
            pub fn as_slice(&self) -> Option<&[T]> {
                // SAFETY: the elements are valid as long as the array lives, the tasks that write to them have
                // finished before the guard was made, and the borrow keeps others from being submitted.
                let slice = || unsafe { slice::from_raw_parts(self.raw.pointer, self.raw.len()) };
                self.raw.is_contiguous().then(slice)
            }

            /// Calls `f` with each row (the elements along the last dimension), in order.
            pub fn for_each_row(&self, f: impl FnMut(&[T])) {
                // SAFETY: as in `as_slice`.
                unsafe { self.raw.for_each_row(f) }
            }

            /// A copy of the elements, last dimension fastest.
            pub fn to_vec(&self) -> Vec<T> {
                let mut elements = Vec::with_capacity(self.len());
                self.for_each_row(|row| elements.extend_from_slice(row));
                elements
            }
        }

        impl<T: Element, const R: usize> Index<[usize; R]> for $guard<'_, T, R> {
            type Output = T;
            #[inline(always)]
            fn index(&self, index: [usize; R]) -> &T {
                // SAFETY: as in `as_slice`; `at` has checked the index.
                unsafe { &*self.raw.at(index) }
            }
        }

        impl<T: Element, const R: usize> fmt::Display for $guard<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print::print(f, &self.raw.shape, &self.to_vec())
            }
        }

        impl<T: Element, const R: usize> fmt::Debug for $guard<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

reading!(ReadGuard);
reading!(WriteGuard);

impl<T: Element, const R: usize> WriteGuard<'_, T, R> {
    /// The elements in memory order, for writing, if they lie in one piece.
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        // SAFETY: the elements are valid as long as the array lives; the tasks that touch them have finished before
        // the guard was made, and the exclusive borrow keeps everything else away.
        let slice = || unsafe { slice::from_raw_parts_mut(self.raw.pointer, self.raw.len()) };
        self.raw.is_contiguous().then(slice)
    }

    /// Calls `f` with each row (the elements along the last dimension), in order, for writing.
    pub fn for_each_row_mut(&mut self, f: impl FnMut(&mut [T])) {
        // SAFETY: as in `as_mut_slice`.
        unsafe { self.raw.for_each_row_mut(f) }
    }

    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        self.for_each_row_mut(|row| row.fill(value));
    }

    /// Copies these values, last dimension fastest.
    pub fn copy_from(&mut self, values: &[T]) -> Result<()> {
        if values.len() != self.len() {
            let (n, shape) = (values.len(), self.shape());
            let message = format!("an array of shape {shape:?} needs {} values, not {n}", self.len());
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let mut rest = values;
        self.for_each_row_mut(|row| {
            let (head, tail) = rest.split_at(row.len());
            row.copy_from_slice(head);
            rest = tail;
        });
        Ok(())
    }

    /// Copies an array of the same shape that is not this one.
    pub(super) fn copy_rows(&mut self, from: &ReadGuard<'_, T, R>) {
        assert_eq!(self.shape(), from.shape(), "a copy has the shape of its original");
        match from.as_slice() {
            Some(values) => self.copy_from(values),
            None => self.copy_from(&from.to_vec()),
        }
        .expect("equal shapes have equally many elements");
    }
}

impl<T: Element, const R: usize> IndexMut<[usize; R]> for WriteGuard<'_, T, R> {
    #[inline(always)]
    fn index_mut(&mut self, index: [usize; R]) -> &mut T {
        // SAFETY: as in `as_mut_slice`; `at` has checked the index.
        unsafe { &mut *self.raw.at(index) }
    }
}
