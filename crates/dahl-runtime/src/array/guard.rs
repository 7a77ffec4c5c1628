//! Access guards: the program's own look at the elements of an array.
//!
//! A guard is made after the tasks that matter have finished, and it borrows the array, so that no task which
//! conflicts with it can be submitted while it lives. There is nothing to release, no lock, and no cost per
//! element beyond the bounds check. Forgetting a guard is harmless.

#![expect(unsafe_code, reason = "turns the address of an array into references to its elements")]

use super::Element;
use super::print;
use super::raw::Raw;
use super::values::{Values, common_shape};
use crate::error::{Result, at_caller};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::slice;

/// Read access to an array: `guard[[row, column]]`, slices, and printing with aligned columns (`{:.3}`,
/// `{:.2e}`).
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
                // SAFETY: the elements are valid as long as the array lives, the tasks that write to them
                // have finished before the guard was made, and the borrow keeps others from being submitted.
                let slice = || unsafe { slice::from_raw_parts(self.raw.pointer, self.raw.len()) };
                self.raw.is_contiguous().then(slice)
            }

            /// The rows (the elements along the last dimension), in order, if their elements are neighbours:
            /// always, unless the view is transposed or leaves out columns.
            pub fn rows(&self) -> Option<impl ExactSizeIterator<Item = &[T]>> {
                let (starts, len) = self.raw.rows();
                // SAFETY: as in `as_slice`; a row lies in one piece, as is checked below.
                let row = move |start: *mut T| unsafe { slice::from_raw_parts(start.cast_const(), len) };
                self.raw.has_rows().then(|| starts.map(row))
            }

            /// The elements, last dimension fastest, however they lie.
            pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
                // SAFETY: as in `as_slice`.
                self.raw.elements().map(|element| unsafe { &*element })
            }

            /// A copy of the elements, last dimension fastest.
            pub fn to_vec(&self) -> Vec<T> {
                match self.as_slice() {
                    Some(elements) => elements.to_vec(),
                    None => self.iter().copied().collect(),
                }
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
                print::print(f, self.raw.shape, |index| self[index], |x, f| fmt::Display::fmt(&x, f))
            }
        }

        impl<T: Element, const R: usize> fmt::LowerExp for $guard<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print::print(f, self.raw.shape, |index| self[index], |x, f| fmt::LowerExp::fmt(&x, f))
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
        // SAFETY: the elements are valid as long as the array lives; the tasks that touch them have finished
        // before the guard was made, and the exclusive borrow keeps everything else away.
        let slice = || unsafe { slice::from_raw_parts_mut(self.raw.pointer, self.raw.len()) };
        self.raw.is_contiguous().then(slice)
    }

    /// The rows (the elements along the last dimension), in order, for writing, if their elements are
    /// neighbours.
    pub fn rows_mut(&mut self) -> Option<impl ExactSizeIterator<Item = &mut [T]>> {
        let (starts, len) = self.raw.rows();
        // SAFETY: as in `as_mut_slice`; a row lies in one piece, as is checked below, and rows do not
        // overlap.
        let row = move |start| unsafe { slice::from_raw_parts_mut(start, len) };
        self.raw.has_rows().then(|| starts.map(row))
    }

    /// The elements, last dimension fastest, however they lie, for writing.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        // SAFETY: as in `as_mut_slice`; the elements are all different.
        self.raw.elements().map(|element| unsafe { &mut *element })
    }

    /// Sets every element.
    pub fn fill(&mut self, value: T) {
        match self.as_mut_slice() {
            Some(elements) => elements.fill(value),
            None => self.iter_mut().for_each(|element| *element = value),
        }
    }

    /// Copies these values, last dimension fastest: those of another array of the same shape, or of a slice.
    #[track_caller]
    pub fn copy_from(&mut self, values: &(impl Values<T> + ?Sized)) -> Result<()> {
        at_caller(common_shape(self, values))?;
        match (self.as_mut_slice(), values.contiguous()) {
            (Some(elements), Some(values)) => elements.copy_from_slice(values),
            _ => self.iter_mut().zip(values.values()).for_each(|(element, &value)| *element = value),
        }
        Ok(())
    }
}

impl<T: Element, const R: usize> IndexMut<[usize; R]> for WriteGuard<'_, T, R> {
    #[inline(always)]
    fn index_mut(&mut self, index: [usize; R]) -> &mut T {
        // SAFETY: as in `as_mut_slice`; `at` has checked the index.
        unsafe { &mut *self.raw.at(index) }
    }
}
