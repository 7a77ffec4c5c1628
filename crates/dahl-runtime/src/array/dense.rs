//! Arrays as a program holds them: typed, borrowed from an arena, known to the runtime by their base
//! allocation.

use super::base::BaseRegion;
use super::guard::{ReadGuard, WriteGuard};
use super::owned::Owned;
use super::raw::Raw;
use super::split::{Cut, Split, SplitMut};
use super::{Element, Shape};
use crate::arena::{Arena, BlockId};
use crate::codelet::relation::TileSize;
use crate::error::{Result, at_caller};
use crate::runtime::Inner;
use crate::sync::Arc;
use std::fmt;
use std::marker::PhantomData;

/// A single value in memory.
pub type Scalar<'a, T> = Array<'a, T, 0>;
/// A 1-D array.
pub type Vector<'a, T> = Array<'a, T, 1>;
/// A 2-D array, rows slowest.
pub type Matrix<'a, T> = Array<'a, T, 2>;
/// A 3-D array.
pub type Block<'a, T> = Array<'a, T, 3>;
/// A 4-D array: NCHW, with W fastest.
pub type Tensor<'a, T> = Array<'a, T, 4>;

/// An array of rank `R` that borrows its arena, or a part of another array that borrows that array.
///
/// It is neither `Clone` nor `Drop`: one name per memory, and nothing happens when it goes. Tasks take `&`
/// for inputs and `&mut` for outputs when they are [submitted](super::submit); they hold no borrow while they
/// run. The program looks at the content through [`Array::read`] and [`Array::write`], which wait for exactly
/// the tasks that matter.
pub struct Array<'a, T, const R: usize> {
    pub(crate) runtime: Arc<Inner>,
    pub(crate) raw: Raw<T, R>,
    pub(crate) place: BaseRegion,
    /// The block that an [`Owned`] array frees. It travels with the memory it stands for, so that exchanging
    /// the arrays inside of two owners, or of an owner and a longer-lived array, frees nothing that is in
    /// use.
    pub(crate) block: Option<BlockId>,
    pub(crate) borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element, const R: usize> Array<'a, T, R> {
    pub(crate) fn new(runtime: Arc<Inner>, raw: Raw<T, R>, place: BaseRegion) -> Self {
        Array { runtime, raw, place, block: None, borrow: PhantomData }
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

    /// Whether the elements lie in one piece, last dimension fastest. Parts along the first dimension of an
    /// array do, column tiles and transposed views do not.
    pub fn is_contiguous(&self) -> bool {
        self.raw.is_contiguous()
    }

    /// Waits for the tasks that write to this array and gives access to its elements. Tasks that only read it
    /// may run meanwhile; tasks that would write to it cannot even be submitted while the guard lives.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_, T, R>> {
        at_caller(self.runtime.tasks.wait(self.place.base, &self.place.region, false))?;
        Ok(ReadGuard::new(self.raw))
    }

    /// Waits for the tasks that read or write this array and gives access to its elements for writing.
    #[track_caller]
    pub fn write(&mut self) -> Result<WriteGuard<'_, T, R>> {
        at_caller(self.runtime.tasks.wait(self.place.base, &self.place.region, true))?;
        Ok(WriteGuard::new(self.raw))
    }

    /// Cuts the array into `n` parts along a dimension, as even as possible, for writing. While a part lives
    /// the array itself cannot be used. There are never more parts than indices; an empty array has one empty
    /// part.
    #[track_caller]
    pub fn split_mut(&mut self, axis: usize, n: usize) -> Result<SplitMut<'_, T, R>> {
        Ok(SplitMut::new(Cut::along(self.view_mut(), axis, TileSize::Count(n))?))
    }

    /// Cuts the array into parts of `size` indices along a dimension (the last may be smaller), for writing.
    #[track_caller]
    pub fn tiles_mut(&mut self, axis: usize, size: usize) -> Result<SplitMut<'_, T, R>> {
        Ok(SplitMut::new(Cut::along(self.view_mut(), axis, TileSize::Size(size))?))
    }

    /// Cuts the array along all dimensions, for writing: `[TileSize::Size(8), TileSize::Count(2)]` gives
    /// tiles of 8 rows and half the columns, last dimension fastest. `TileSize::Count(1)` leaves a dimension
    /// whole.
    #[track_caller]
    pub fn grid_mut(&mut self, sizes: [TileSize; R]) -> Result<SplitMut<'_, T, R>> {
        self.view_mut().into_grid(sizes)
    }

    /// Cuts the array into `n` parts along a dimension, for reading. The array stays readable.
    #[track_caller]
    pub fn split(&self, axis: usize, n: usize) -> Result<Split<'_, T, R>> {
        Ok(Split::new(Cut::along(self.at(self.raw, self.place), axis, TileSize::Count(n))?))
    }

    /// Cuts the array into parts of `size` indices along a dimension (the last may be smaller), for reading.
    #[track_caller]
    pub fn tiles(&self, axis: usize, size: usize) -> Result<Split<'_, T, R>> {
        Ok(Split::new(Cut::along(self.at(self.raw, self.place), axis, TileSize::Size(size))?))
    }

    /// Cuts the array along all dimensions, for reading; see [`Array::grid_mut`].
    #[track_caller]
    pub fn grid(&self, sizes: [TileSize; R]) -> Result<Split<'_, T, R>> {
        self.view().into_grid(sizes)
    }

    /// Another view of the same allocation; whoever asks for it sees to it that it is borrowed as it is used.
    pub(super) fn at(&self, raw: Raw<T, R>, place: BaseRegion) -> Array<'a, T, R> {
        Array::new(Arc::clone(&self.runtime), raw, place)
    }

    /// A copy of the elements, last dimension fastest.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        Ok(self.read()?.to_vec())
    }

    /// A copy in an arena.
    #[track_caller]
    pub fn to_array<'b>(&self, arena: &'b Arena) -> Result<Array<'b, T, R>> {
        let mut copy = arena.array(self.shape())?;
        copy.write()?.copy_from(&self.read()?)?;
        Ok(copy)
    }

    /// A copy with memory of its own.
    #[track_caller]
    pub fn to_owned(&self) -> Result<Owned<T, R>> {
        let mut copy = at_caller(Owned::zeros(&self.runtime, self.shape()))?;
        copy.write()?.copy_from(&self.read()?)?;
        Ok(copy)
    }
}

impl<T: Element, const R: usize> fmt::Debug for Array<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The content may not be there yet, and printing must not wait.
        write!(f, "Array {}{}", T::DTYPE, Shape::new(&self.raw.shape))
    }
}
