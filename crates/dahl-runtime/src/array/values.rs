//! Values in order, wherever they are: what is copied into arrays and compared.

use super::guard::{ReadGuard, WriteGuard};
use super::{Element, Shape};
use crate::error::{Error, ErrorKind, Result};

mod sealed {
    pub trait Sealed {}
}

/// Values that can be looked at, last dimension fastest: a guard of an array, a slice, a vector.
pub trait Values<T: Element>: sealed::Sealed {
    /// The extents; a slice or a vector has none and fits every shape of as many elements.
    fn extents(&self) -> Option<Shape>;

    /// The values, last dimension fastest.
    fn values(&self) -> impl ExactSizeIterator<Item = &T>;

    /// The values as a slice, if they lie in one piece.
    fn contiguous(&self) -> Option<&[T]>;
}

/// The common shape of two groups of values, or a sentence about the difference.
pub(super) fn common_shape<T: Element>(
    a: &(impl Values<T> + ?Sized),
    b: &(impl Values<T> + ?Sized),
) -> Result<Shape> {
    let (n, m) = (a.values().len(), b.values().len());
    let show = |shape: Option<Shape>, n: usize| match shape {
        Some(shape) => format!("an array of shape {shape}"),
        None => format!("a list of {n} values"),
    };
    let fits = match (a.extents(), b.extents()) {
        (Some(a), Some(b)) => a == b,
        _ => n == m,
    };
    if !fits {
        let (a, b) = (show(a.extents(), n), show(b.extents(), m));
        let message = format!("{a} and {b} do not fit each other: give both the same shape");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    Ok(a.extents().or(b.extents()).unwrap_or(Shape::new(&[n])))
}

impl<T: Element> sealed::Sealed for [T] {}
impl<T: Element> Values<T> for [T] {
    fn extents(&self) -> Option<Shape> {
        None
    }
    fn values(&self) -> impl ExactSizeIterator<Item = &T> {
        self.iter()
    }
    fn contiguous(&self) -> Option<&[T]> {
        Some(self)
    }
}

macro_rules! values {
    ($(($($parameters:tt)*) $list:ty, $extents:expr, $slice:expr;)*) => {$(
        impl<$($parameters)*> sealed::Sealed for $list {}
        impl<$($parameters)*> Values<T> for $list {
            fn extents(&self) -> Option<Shape> {
                $extents(self)
            }
            fn values(&self) -> impl ExactSizeIterator<Item = &T> {
                self.iter()
            }
            fn contiguous(&self) -> Option<&[T]> {
                let slice: fn(&Self) -> Option<&[T]> = $slice;
                slice(self)
            }
        }
    )*};
}

values! {
    (T: Element, const N: usize) [T; N], |_| None, |list| Some(list);
    (T: Element) Vec<T>, |_| None, |list| Some(list);
    (T: Element, const R: usize) ReadGuard<'_, T, R>, |guard: &Self| Some(Shape::from(guard.shape())), Self::as_slice;
    (T: Element, const R: usize) WriteGuard<'_, T, R>, |guard: &Self| Some(Shape::from(guard.shape())), Self::as_slice;
}
