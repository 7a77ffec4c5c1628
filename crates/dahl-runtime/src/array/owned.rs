//! Arrays with memory of their own: what models hold.

use super::Element;
use super::base::BaseRegion;
use super::dense::Array;
use super::raw::{Raw, checked_bytes};
use crate::error::Result;
use crate::runtime::Inner;
use crate::sync::Arc;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A single value with memory of its own.
pub type OwnedScalar<T> = Owned<T, 0>;
/// A 1-D array with memory of its own.
pub type OwnedVector<T> = Owned<T, 1>;
/// A 2-D array with memory of its own.
pub type OwnedMatrix<T> = Owned<T, 2>;
/// A 3-D array with memory of its own.
pub type OwnedBlock<T> = Owned<T, 3>;
/// A 4-D array with memory of its own.
pub type OwnedTensor<T> = Owned<T, 4>;

/// An array with memory of its own. It can be used wherever an [`Array`] can; when it goes, its memory is
/// freed as soon as the tasks on it have finished.
pub struct Owned<T: Element, const R: usize> {
    array: Array<'static, T, R>,
}

impl<T: Element, const R: usize> Owned<T, R> {
    pub(crate) fn zeros(runtime: &Arc<Inner>, shape: [usize; R]) -> Result<Self> {
        runtime.slabs.sweep(&runtime.tasks);
        let (block, pointer) = runtime.slabs.allocate(checked_bytes::<T>(&shape)?, "an owned array")?;
        let place = BaseRegion::whole(runtime.tasks.new_base(), &shape);
        let mut array = Array::new(Arc::clone(runtime), Raw::row_major(pointer.cast(), shape), place);
        array.block = Some(block);
        Ok(Owned { array })
    }

    /// The same memory in another shape; see [`Array::into_reshaped`].
    #[track_caller]
    pub fn into_reshaped<const S: usize>(self, shape: [usize; S]) -> Result<Owned<T, S>> {
        self.array.check_reshape(&shape)?;
        Ok(Owned { array: self.into_array().reshaped(shape) })
    }

    /// The same memory as a vector; see [`Array::into_flat`].
    #[track_caller]
    pub fn into_flat(self) -> Result<Owned<T, 1>> {
        let len = self.len();
        self.into_reshaped([len])
    }

    /// The array without its owner. Its memory is not freed before the runtime goes.
    fn into_array(mut self) -> Array<'static, T, R> {
        let array = &mut self.array;
        let block = array.block.take();
        let mut moved = Array::new(Arc::clone(&array.runtime), array.raw, array.place);
        moved.block = block;
        moved
    }
}

impl<T: Element, const R: usize> Drop for Owned<T, R> {
    fn drop(&mut self) {
        let array = &mut self.array;
        if let Some(block) = array.block.take() {
            array.runtime.slabs.retire(vec![block], vec![array.place.base], &array.runtime.tasks);
        }
    }
}

impl<T: Element, const R: usize> Deref for Owned<T, R> {
    type Target = Array<'static, T, R>;
    fn deref(&self) -> &Self::Target {
        &self.array
    }
}

impl<T: Element, const R: usize> DerefMut for Owned<T, R> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.array
    }
}

impl<T: Element, const R: usize> fmt::Debug for Owned<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.array.fmt(f)
    }
}
