//! Views of arguments: elements by index, rows, pieces, and slices where no other view can be of the same
//! memory.
//!
//! A kernel reaches the elements of its regions and no others of the tile. An output has one user at a time.
//! Of memory that is an input and an output at once there are elements and [`Pieces`], but no slices. So
//! kernels are safe code, whoever writes them; the tests `misuse` have some that try to reach further.

#![expect(unsafe_code, reason = "turns the engine's raw pointers into views for kernels")]

use super::pieces::{Pieces, PiecesMut};
use super::spec::ArgSpec;
use crate::shape::{Element, Layout, MAX_RANK, Region, Shape};
use std::cell::Cell;
use std::marker::PhantomData;
use std::slice;

/// An input of a kernel.
///
/// A view holds a pointer and not a slice: a neighbouring task may be writing to other elements of the same
/// tile at this moment, and a slice would claim those as well.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pointer: *const T,
    /// Elements from `pointer` on that offsets may reach.
    len: usize,
    spec: &'a ArgSpec,
    /// Whether an output may lie in the same memory, so that no slice of it may be made.
    is_shared: bool,
    memory: PhantomData<&'a [T]>,
}

/// An output of a kernel.
pub struct ViewMut<'a, T> {
    pointer: *mut T,
    /// Elements from `pointer` on that offsets may reach.
    len: usize,
    spec: &'a ArgSpec,
    /// Whether an input lies in the same memory, so that no slice of it may be made.
    is_shared: bool,
    memory: PhantomData<&'a mut [T]>,
    _taken: Taken<'a>,
}

/// An output is taken for as long as its view lives.
pub(super) struct Taken<'a> {
    all: &'a Cell<u64>,
    bit: u64,
}

impl<'a> Taken<'a> {
    /// Takes output `i`, whose bit is then set.
    ///
    /// # Panics
    /// If it is taken already.
    #[inline]
    pub(super) fn new(all: &'a Cell<u64>, i: usize) -> Self {
        assert!(i < 64 && all.get() >> i & 1 == 0, "output {i} is taken twice");
        all.set(all.get() | 1 << i);
        Taken { all, bit: 1 << i }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.set(self.all.get() & !self.bit);
    }
}

macro_rules! view_accessors {
    () => {
        /// What this call reads or writes of the array.
        pub fn region(&self) -> &'a Region {
            &self.spec.region
        }

        /// What the memory holds of the array.
        pub fn tile(&self) -> &'a Region {
            &self.spec.tile
        }

        /// The extents of the whole array.
        pub fn extent(&self) -> &'a Shape {
            &self.spec.extent
        }

        /// The memory order of the tile.
        pub fn layout(&self) -> Layout {
            self.spec.layout
        }

        /// The element at `index` (in coordinates of the whole array), which must be in the region.
        #[inline(always)]
        pub fn at<const R: usize>(&self, index: [usize; R]) -> T {
            self.get(&index)
        }

        /// The element at `index`, for kernels that work at any rank.
        #[inline(always)]
        pub fn get(&self, index: &[usize]) -> T {
            // SAFETY: `offset` checks that the element is in the region, which `Call::new`'s caller vouches
            // for.
            unsafe { self.pointer.add(self.offset(index)).read() }
        }

        /// Where an element of the region lies. Others of the tile are none of this call's business: another
        /// task may be writing them, or the program may hold a guard of them.
        #[inline(always)]
        fn offset(&self, index: &[usize]) -> usize {
            assert!(self.spec.region.has(index), "index {index:?} is outside of {}", self.spec.region);
            let offset = self.spec.layout.offset(&self.spec.tile, index);
            debug_assert!(offset < self.len, "{} is outside of {}", self.spec.region, self.spec.tile);
            offset
        }

        /// Refuses a slice of memory that is an input and an output at the same time.
        #[inline(always)]
        fn check_slice(&self) {
            assert!(
                !self.is_shared,
                "an input and an output are the same memory, of which no slice can be had: use `pieces` or elements"
            );
        }
    };
}

impl<'a, T: Element> View<'a, T> {
    /// # Safety
    /// As for [`Call::new`](super::Call::new), of this argument.
    pub(super) unsafe fn new(pointer: *const T, spec: &'a ArgSpec, is_shared: bool) -> Self {
        View { pointer, len: spec.span(), spec, is_shared, memory: PhantomData }
    }

    view_accessors!();

    /// One row of a two-dimensional region in row-major order. Not of memory that is also an output's.
    pub fn row(&self, row: usize) -> &'a [T] {
        self.check_slice();
        assert!(self.spec.layout == Layout::RowMajor && self.spec.region.range(0).contains(&row));
        let columns = self.spec.region.range(1);
        let start = if columns.is_empty() { 0 } else { self.offset(&[row, columns.start]) };
        // SAFETY: the row is part of the region, which `Call::new`'s caller vouches for and nobody else
        // writes to.
        unsafe { slice::from_raw_parts(self.pointer.add(start), columns.len()) }
    }

    /// The memory of the region, which must be contiguous and whole pieces: for implementations that need
    /// layouts and may work in place.
    pub fn pieces<const N: usize>(&self) -> Pieces<'a, [T; N]> {
        let range = self.spec.contiguous_range(self.len);
        assert!(range.len().is_multiple_of(N), "{} elements are no pieces of {N}", range.len());
        // SAFETY: the range is the region, which `Call::new`'s caller vouches for; arrays are aligned as
        // their elements.
        unsafe { Pieces::new(self.pointer.add(range.start).cast(), range.len() / N) }
    }

    /// The memory of the region, which must be contiguous: for implementations that need layouts. Not of
    /// memory that is also an output's, for which there are [pieces](View::pieces).
    pub fn contiguous(&self) -> &'a [T] {
        self.check_slice();
        let range = self.spec.contiguous_range(self.len);
        // SAFETY: the range is the region, which `Call::new`'s caller vouches for and nobody else writes to.
        unsafe { slice::from_raw_parts(self.pointer.add(range.start), range.len()) }
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// # Safety
    /// As for [`Call::new`](super::Call::new), of this argument.
    pub(super) unsafe fn new(pointer: *mut T, spec: &'a ArgSpec, is_shared: bool, taken: Taken<'a>) -> Self {
        ViewMut { pointer, len: spec.span(), spec, is_shared, memory: PhantomData, _taken: taken }
    }

    view_accessors!();

    /// Writes the element at `index` (in coordinates of the whole array), which must be in the region.
    #[inline(always)]
    pub fn set<const R: usize>(&mut self, index: [usize; R], value: T) {
        self.put(&index, value);
    }

    /// Writes the element at `index`, for kernels that work at any rank.
    #[inline(always)]
    pub fn put(&mut self, index: &[usize], value: T) {
        // SAFETY: `offset` checks that the element is in the region, to which `Call::new`'s caller grants
        // exclusive access.
        unsafe { self.pointer.add(self.offset(index)).write(value) }
    }

    /// Copies the region of a piece of the same array: in runs along the last dimension where both lie alike,
    /// and one element at a time where not.
    pub(super) fn copy_from(&mut self, piece: &View<'_, T>) {
        let region = piece.region();
        if region.is_empty() {
            return;
        }
        let Some(lanes) = shared_lanes(piece.spec, self.spec) else {
            return for_each_index(region, |index| self.put(index, piece.get(index)));
        };
        let (rank, shape) = (region.rank(), region.shape());
        // The first index of every run: one per group of samples and row, or a single one.
        let mut ranges = [(); MAX_RANK].map(|()| 0..1);
        let mut len = shape[rank - 1];
        if rank > 1 {
            ranges[0] = 0..shape[0].div_ceil(lanes);
            (1..rank - 1).for_each(|dim| ranges[dim] = region.range(dim));
            ranges[rank - 1] = region.lo()[rank - 1]..region.lo()[rank - 1] + 1;
            len *= lanes;
        }
        let mut first = [0; MAX_RANK];
        for_each_index(&Region::new(&ranges[..rank]), |index| {
            first[..rank].copy_from_slice(index);
            first[0] = region.lo()[0] + index[0] * lanes;
            let (from, to) = (piece.offset(&first[..rank]), self.offset(&first[..rank]));
            assert!(from + len <= piece.len && to + len <= self.len, "{region} is outside of its tile");
            // SAFETY: both runs lie inside of their tiles, which `Call::new`'s caller vouches for; an output
            // is no input's memory where the codelet does not work in place, and the one that assembles does
            // not.
            unsafe { piece.pointer.add(from).copy_to_nonoverlapping(self.pointer.add(to), len) }
        });
    }

    /// The memory of the region, which must be contiguous and whole pieces: for implementations that need
    /// layouts and may work in place.
    pub fn pieces<const N: usize>(&mut self) -> PiecesMut<'_, [T; N]> {
        let range = self.spec.contiguous_range(self.len);
        assert!(range.len().is_multiple_of(N), "{} elements are no pieces of {N}", range.len());
        // SAFETY: the range is the region, to which `Call::new`'s caller grants exclusive access; arrays are
        // aligned as their elements.
        unsafe { PiecesMut::new(self.pointer.add(range.start).cast(), range.len() / N) }
    }

    /// The memory of the region, which must be contiguous: for implementations that need layouts. Not of
    /// memory that is also an input's, for which there are [pieces](ViewMut::pieces).
    pub fn contiguous(&mut self) -> &mut [T] {
        self.check_slice();
        let range = self.spec.contiguous_range(self.len);
        // SAFETY: the range is the region, to which `Call::new`'s caller grants exclusive access.
        unsafe { slice::from_raw_parts_mut(self.pointer.add(range.start), range.len()) }
    }
}

/// How many samples lie side by side in both tiles, 1 in row-major order, if the region of `piece` lies alike
/// in both: in whole groups of samples, but for the last one of both tiles, whose padding may be copied
/// along.
fn shared_lanes(piece: &ArgSpec, out: &ArgSpec) -> Option<usize> {
    let (region, rank) = (&piece.region, piece.region.rank());
    match (piece.layout, out.layout) {
        (Layout::RowMajor, Layout::RowMajor) if rank > 0 => Some(1),
        (Layout::Lanes(lanes), Layout::Lanes(others)) if lanes == others && rank > 0 => {
            let starts = |spec: &ArgSpec| (region.lo()[0] - spec.tile.lo()[0]).is_multiple_of(lanes);
            let ends = |spec: &ArgSpec| region.hi()[0] == spec.tile.hi()[0];
            let whole = region.shape()[0].is_multiple_of(lanes) || ends(piece) && ends(out);
            (starts(piece) && starts(out) && whole).then_some(lanes)
        }
        _ => None,
    }
}

/// Calls `f` with every index of the region, last dimension fastest.
pub fn for_each_index(region: &Region, mut f: impl FnMut(&[usize])) {
    if region.is_empty() {
        return;
    }
    let rank = region.rank();
    let mut index = [0; MAX_RANK];
    index[..rank].copy_from_slice(region.lo());
    loop {
        f(&index[..rank]);
        let mut dim = rank;
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            index[dim] += 1;
            if index[dim] < region.hi()[dim] {
                break;
            }
            index[dim] = region.lo()[dim];
        }
    }
}
