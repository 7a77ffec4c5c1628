//! What a kernel gets: views of its arguments, the regions to read and write, and parameters.

#![expect(unsafe_code, reason = "turns the engine's raw pointers into views for kernels")]

use super::pieces::{Pieces, PiecesMut};
use crate::shape::{Dtype, Element, Layout, Region, Shape};
use std::cell::Cell;
use std::marker::PhantomData;
use std::slice;

/// Everything about a call that does not change from run to run.
#[derive(Clone, Debug, Default)]
pub struct CallSpec {
    /// The arguments, inputs first, in the order of the relation line; an argument named on both sides appears
    /// once, among the outputs.
    pub args: Vec<ArgSpec>,
    /// How many of `args` are only read.
    pub n_inputs: usize,
    /// Integer parameters, in the order in which the relation line mentions them.
    pub ints: Vec<i64>,
    /// Floating-point parameters, as the codelet defines them.
    pub scalars: Vec<f64>,
    /// Whether accumulating outputs add to what is there (true) or start afresh (false).
    pub accumulate: bool,
    /// Whether an output may be the same memory as an input: the codelet [works in place](super::Codelet::in_place).
    pub in_place: bool,
}

impl CallSpec {
    /// The shapes, layouts and element types (where they are not `dtype`) of all arguments, the integer parameters and `+` for a call
    /// that accumulates. Dimensions that data index are `*`: how long they are plays no part.
    pub fn footprint(&self, dtype: Dtype, is_gathered: impl Fn(usize, usize) -> bool) -> String {
        let mut text = String::new();
        for (number, arg) in self.args.iter().enumerate() {
            if number == self.n_inputs {
                text.push_str("> ");
            }
            let extents = arg.region.shape();
            let dims = extents.iter().enumerate().map(|(dim, extent)| match is_gathered(number, dim) {
                true => "*".to_string(),
                false => extent.to_string(),
            });
            let dims: Vec<String> = dims.collect();
            text.push_str(if dims.is_empty() { "scalar" } else { "" });
            text.push_str(&dims.join("x"));
            match arg.layout {
                Layout::RowMajor => {}
                Layout::Lanes(lanes) => text.push_str(&format!("/{lanes}")),
                Layout::Strided(_) => text.push_str("/strided"),
            }
            if arg.dtype != dtype {
                text.push_str(&format!(":{}", arg.dtype));
            }
            text.push(' ');
        }
        for (i, int) in self.ints.iter().enumerate() {
            text.push_str(if i == 0 { "| " } else { "" });
            text.push_str(&format!("{int} "));
        }
        if self.accumulate {
            text.push('+');
        }
        text
    }
}

/// One argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgSpec {
    /// Element type.
    pub dtype: Dtype,
    /// Memory order of the tile.
    pub layout: Layout,
    /// The part of the array that the memory holds. A tile that reaches beyond `extent` only says how far apart
    /// the elements of the region lie: the memory is a window of a larger array, of which the call may touch
    /// nothing but the region (see [`ArgSpec::is_window`]).
    pub tile: Region,
    /// The part that this call reads or writes; inside `tile`.
    pub region: Region,
    /// The extents of the whole array.
    pub extent: Shape,
}

/// One call of a kernel.
pub struct Call<'a> {
    spec: &'a CallSpec,
    pointers: &'a [*mut u8],
    /// A bit for every output of which the kernel has a view.
    taken: Cell<u64>,
}

impl<'a> Call<'a> {
    /// A call on memory that the caller vouches for.
    ///
    /// # Safety
    /// `pointers[i]` must be valid for `layout.len(tile)` elements of argument `i` (of a window: for the elements
    /// of its region, at their offsets), aligned to 64 bytes or at least to its element type and initialised. Every
    /// region must lie inside of its tile. For as long as the call lives, the elements of the regions of inputs must be
    /// readable, and those of outputs exclusively writable; other elements of the tiles may be in use elsewhere. An input
    /// may point to the same memory as an output only if [`CallSpec::in_place`] says so. Engines keep this by
    /// executing a graph whose edges order every conflicting pair.
    pub unsafe fn new(spec: &'a CallSpec, pointers: &'a [*mut u8]) -> Self {
        assert_eq!(spec.args.len(), pointers.len(), "one pointer per argument");
        Call { spec, pointers, taken: Cell::new(0) }
    }

    /// The unchanging part of the call.
    pub fn spec(&self) -> &CallSpec {
        self.spec
    }

    /// Integer parameter `i` of the relation line, as a `usize`.
    pub fn int(&self, i: usize) -> usize {
        self.spec.ints[i] as usize
    }

    /// Floating-point parameter `i`.
    pub fn scalar(&self, i: usize) -> f64 {
        self.spec.scalars[i]
    }

    /// Whether accumulating outputs add to what is there.
    pub fn accumulate(&self) -> bool {
        self.spec.accumulate
    }

    fn parts<T: Element>(&self, arg: usize) -> (*mut T, &'a ArgSpec) {
        let spec = &self.spec.args[arg];
        assert_eq!(spec.dtype, T::DTYPE, "argument {arg} has another element type than the kernel expects");
        (self.pointers[arg].cast::<T>(), spec)
    }

    /// Input `i`, for reading.
    pub fn input<T: Element>(&self, i: usize) -> View<'_, T> {
        assert!(i < self.spec.n_inputs, "input {i} of {}", self.spec.n_inputs);
        let (pointer, spec) = self.parts::<T>(i);
        View { pointer, len: spec.span(), spec, is_shared: self.is_shared(i), memory: PhantomData }
    }

    /// Output `i`, for writing (and reading, where it is also an input or accumulates).
    ///
    /// # Panics
    /// If there is another view of it: two would alias.
    pub fn output<T: Element>(&self, i: usize) -> ViewMut<'_, T> {
        let taken = self.take(i);
        let arg = self.spec.n_inputs + i;
        let (pointer, spec) = self.parts::<T>(arg);
        let is_shared = self.is_shared(arg);
        ViewMut { pointer, len: spec.span(), spec, is_shared, memory: PhantomData, _taken: taken }
    }

    /// Output `i` for one user at a time.
    ///
    /// # Panics
    /// If there is another.
    fn take(&self, i: usize) -> Taken<'_> {
        assert!(i < 64 && self.taken.get() >> i & 1 == 0, "output {i} is taken twice");
        let taken = Taken { all: &self.taken, bit: 1 << i };
        taken.all.set(taken.all.get() | taken.bit);
        taken
    }

    /// Whether an argument lies in the same memory as one that is on the other side of the arrow.
    fn is_shared(&self, arg: usize) -> bool {
        let CallSpec { args, n_inputs, in_place, .. } = self.spec;
        if !in_place {
            return false;
        }
        let bytes = |arg: usize| {
            let (start, spec) = (self.pointers[arg] as usize, &args[arg]);
            if spec.region.is_empty() { 0..0 } else { start..start + spec.span() * spec.dtype.bytes() }
        };
        let own = bytes(arg);
        let mut others = if arg < *n_inputs { *n_inputs..args.len() } else { 0..*n_inputs };
        others.any(|other| own.start.max(bytes(other).start) < own.end.min(bytes(other).end))
    }

    /// One end of elementwise work: an argument that is checked to have the region of output 0 to itself.
    fn elementwise<T: Element>(&self, arg: usize) -> (*mut T, &'a ArgSpec) {
        let (_, out) = self.parts::<T>(self.spec.n_inputs);
        let (pointer, spec) = self.parts::<T>(arg);
        let has_region = spec.region.rank() == out.region.rank() && spec.region.contains(&out.region);
        assert!(
            out.region.is_empty() || has_region,
            "argument {arg} is given for {}, not for the region {} of the output",
            spec.region,
            out.region
        );
        (pointer, spec)
    }

    /// Elementwise work: `out[i] = f(a[i])` over the region of output 0, which input 0 holds too. Both may be
    /// the same memory.
    pub fn map<T: Element>(&self, f: impl Fn(T) -> T) {
        let _taken = self.take(0);
        let (from, a) = self.elementwise::<T>(0);
        let (to, out) = self.elementwise::<T>(self.spec.n_inputs);
        for_each_index(&out.region, |index| {
            let i = a.layout.offset(&a.tile, index);
            let o = out.layout.offset(&out.tile, index);
            // SAFETY: `elementwise` checked that the index is in the regions of both, which are valid by
            // `Call::new`, and the read ends before the write, so that shared memory is fine.
            unsafe { to.add(o).write(f(from.add(i).read())) }
        });
    }

    /// Elementwise work on two inputs: `out[i] = f(a[i], b[i])` over the region of output 0, which inputs 0 and
    /// 1 hold too. The output may be the same memory as either.
    pub fn map2<T: Element>(&self, f: impl Fn(T, T) -> T) {
        let _taken = self.take(0);
        let (first, a) = self.elementwise::<T>(0);
        let (second, b) = self.elementwise::<T>(1);
        let (to, out) = self.elementwise::<T>(self.spec.n_inputs);
        for_each_index(&out.region, |index| {
            let i = a.layout.offset(&a.tile, index);
            let j = b.layout.offset(&b.tile, index);
            let o = out.layout.offset(&out.tile, index);
            // SAFETY: as in `map`: the index is in all three regions, and both reads end before the write.
            unsafe { to.add(o).write(f(first.add(i).read(), second.add(j).read())) }
        });
    }

    /// The memory of the region of argument `arg`, checked to be laid out as that of output 0.
    fn flat<T: Element>(&self, arg: usize) -> (*mut T, usize) {
        let (_, out) = self.parts::<T>(self.spec.n_inputs);
        let (pointer, spec) = self.parts::<T>(arg);
        // There is nothing to lie anywhere in empty regions, and they may come in any layout, with padding.
        if out.region.is_empty() && spec.region.is_empty() {
            return (pointer, 0);
        }
        assert!(
            spec.layout == out.layout
                && spec.region == out.region
                && spec.is_contiguous()
                && out.is_contiguous(),
            "argument {arg} must be contiguous and laid out like the output"
        );
        let range = contiguous_range(spec, spec.span());
        // SAFETY: `contiguous_range` lies inside the tile, which is valid by `Call::new`.
        (unsafe { pointer.add(range.start) }, range.len())
    }

    /// [`Call::map`] in pieces of `N` elements in memory order, for arguments that are contiguous and laid out
    /// alike. Padding lanes are mapped too; the last piece is filled up with zeros whose images are dropped.
    #[inline(always)]
    pub fn map_flat<T: Element, const N: usize>(&self, f: impl Fn([T; N]) -> [T; N]) {
        let _taken = self.take(0);
        let (from, len) = self.flat::<T>(0);
        let (to, _) = self.flat::<T>(self.spec.n_inputs);
        for at in (0..len - len % N).step_by(N) {
            // SAFETY: `flat` checked that both hold `len` elements and `at + N <= len`; the piece is read before
            // it is written, so that shared memory is fine.
            unsafe { to.add(at).cast::<[T; N]>().write(f(from.add(at).cast::<[T; N]>().read())) }
        }
        let rest = len % N;
        let mut last = [T::default(); N];
        // SAFETY: the `rest` elements from `len - rest` lie inside both; `last` is memory of its own.
        unsafe {
            from.add(len - rest).copy_to_nonoverlapping(last.as_mut_ptr(), rest);
            last = f(last);
            to.add(len - rest).copy_from_nonoverlapping(last.as_ptr(), rest);
        }
    }

    /// [`Call::map2`] in pieces of `N` elements in memory order, as [`Call::map_flat`].
    #[inline(always)]
    pub fn map2_flat<T: Element, const N: usize>(&self, f: impl Fn([T; N], [T; N]) -> [T; N]) {
        let _taken = self.take(0);
        let (first, len) = self.flat::<T>(0);
        let (second, _) = self.flat::<T>(1);
        let (to, _) = self.flat::<T>(self.spec.n_inputs);
        for at in (0..len - len % N).step_by(N) {
            // SAFETY: `flat` checked that all three hold `len` elements and `at + N <= len`; both pieces are read
            // before the result is written, so that shared memory is fine.
            unsafe {
                let (a, b) = (first.add(at).cast::<[T; N]>().read(), second.add(at).cast::<[T; N]>().read());
                to.add(at).cast::<[T; N]>().write(f(a, b));
            }
        }
        let rest = len % N;
        let (mut a, mut b) = ([T::default(); N], [T::default(); N]);
        // SAFETY: the `rest` elements from `len - rest` lie inside all three; `a` and `b` are memory of their own.
        unsafe {
            first.add(len - rest).copy_to_nonoverlapping(a.as_mut_ptr(), rest);
            second.add(len - rest).copy_to_nonoverlapping(b.as_mut_ptr(), rest);
            a = f(a, b);
            to.add(len - rest).copy_from_nonoverlapping(a.as_ptr(), rest);
        }
    }
}

/// Calls `f` with every index of the region, last dimension fastest.
pub fn for_each_index(region: &Region, mut f: impl FnMut(&[usize])) {
    if region.is_empty() {
        return;
    }
    let rank = region.rank();
    let mut index = [0; crate::shape::MAX_RANK];
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

/// An input of a kernel.
///
/// A view holds a pointer and not a slice: a neighbouring task may be writing to other elements of the same tile
/// at this moment, and a slice would claim those as well.
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
struct Taken<'a> {
    all: &'a Cell<u64>,
    bit: u64,
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
            // SAFETY: `offset` checks that the element is in the region, which `Call::new`'s caller vouches for.
            unsafe { self.pointer.add(self.offset(index)).read() }
        }

        /// Where an element of the region lies. Others of the tile are none of this call's business: another task may
        /// be writing them, or the program may hold a guard of them.
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
    view_accessors!();

    /// One row of a two-dimensional region in row-major order. Not of memory that is also an output's.
    pub fn row(&self, row: usize) -> &'a [T] {
        self.check_slice();
        assert!(self.spec.layout == Layout::RowMajor && self.spec.region.range(0).contains(&row));
        let columns = self.spec.region.range(1);
        let start = if columns.is_empty() { 0 } else { self.offset(&[row, columns.start]) };
        // SAFETY: the row is part of the region, which `Call::new`'s caller vouches for and nobody else writes to.
        unsafe { slice::from_raw_parts(self.pointer.add(start), columns.len()) }
    }

    /// The memory of the region, which must be contiguous and whole pieces: for implementations that need layouts and
    /// may work in place.
    pub fn pieces<const N: usize>(&self) -> Pieces<'a, [T; N]> {
        let range = contiguous_range(self.spec, self.len);
        assert!(range.len().is_multiple_of(N), "{} elements are no pieces of {N}", range.len());
        // SAFETY: the range is the region, which `Call::new`'s caller vouches for; arrays are aligned as their elements.
        unsafe { Pieces::new(self.pointer.add(range.start).cast(), range.len() / N) }
    }

    /// The memory of the region, which must be contiguous: for implementations that need layouts. Not of memory that is
    /// also an output's, for which there are [pieces](View::pieces).
    pub fn contiguous(&self) -> &'a [T] {
        self.check_slice();
        let range = contiguous_range(self.spec, self.len);
        // SAFETY: the range is the region, which `Call::new`'s caller vouches for and nobody else writes to.
        unsafe { slice::from_raw_parts(self.pointer.add(range.start), range.len()) }
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    view_accessors!();

    /// Writes the element at `index` (in coordinates of the whole array), which must be in the region.
    #[inline(always)]
    pub fn set<const R: usize>(&mut self, index: [usize; R], value: T) {
        self.put(&index, value);
    }

    /// Writes the element at `index`, for kernels that work at any rank.
    #[inline(always)]
    pub fn put(&mut self, index: &[usize], value: T) {
        // SAFETY: `offset` checks that the element is in the region, to which `Call::new`'s caller grants exclusive access.
        unsafe { self.pointer.add(self.offset(index)).write(value) }
    }

    /// Copies the region of a piece of the same array: in runs along the last dimension where both lie alike, and one element at
    /// a time where not.
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
        let mut ranges = [(); crate::shape::MAX_RANK].map(|()| 0..1);
        let mut len = shape[rank - 1];
        if rank > 1 {
            ranges[0] = 0..shape[0].div_ceil(lanes);
            (1..rank - 1).for_each(|dim| ranges[dim] = region.range(dim));
            ranges[rank - 1] = region.lo()[rank - 1]..region.lo()[rank - 1] + 1;
            len *= lanes;
        }
        let mut first = [0; crate::shape::MAX_RANK];
        for_each_index(&Region::new(&ranges[..rank]), |index| {
            first[..rank].copy_from_slice(index);
            first[0] = region.lo()[0] + index[0] * lanes;
            let (from, to) = (piece.offset(&first[..rank]), self.offset(&first[..rank]));
            assert!(from + len <= piece.len && to + len <= self.len, "{region} is outside of its tile");
            // SAFETY: both runs lie inside of their tiles, which `Call::new`'s caller vouches for; an output is no input's memory
            // where the codelet does not work in place, and the one that assembles does not.
            unsafe { piece.pointer.add(from).copy_to_nonoverlapping(self.pointer.add(to), len) }
        });
    }

    /// The memory of the region, which must be contiguous and whole pieces: for implementations that need layouts and
    /// may work in place.
    pub fn pieces<const N: usize>(&mut self) -> PiecesMut<'_, [T; N]> {
        let range = contiguous_range(self.spec, self.len);
        assert!(range.len().is_multiple_of(N), "{} elements are no pieces of {N}", range.len());
        // SAFETY: the range is the region, to which `Call::new`'s caller grants exclusive access; arrays are aligned as
        // their elements.
        unsafe { PiecesMut::new(self.pointer.add(range.start).cast(), range.len() / N) }
    }

    /// The memory of the region, which must be contiguous: for implementations that need layouts. Not of memory that is
    /// also an input's, for which there are [pieces](ViewMut::pieces).
    pub fn contiguous(&mut self) -> &mut [T] {
        self.check_slice();
        let range = contiguous_range(self.spec, self.len);
        // SAFETY: the range is the region, to which `Call::new`'s caller grants exclusive access.
        unsafe { slice::from_raw_parts_mut(self.pointer.add(range.start), range.len()) }
    }
}

/// How many samples lie side by side in both tiles, 1 in row-major order, if the region of `piece` lies alike in both: in whole groups
/// of samples, but for the last one of both tiles, whose padding may be copied along.
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

fn contiguous_range(spec: &ArgSpec, len: usize) -> std::ops::Range<usize> {
    assert!(spec.is_contiguous(), "{} of {} is not contiguous", spec.region, spec.tile);
    let range = match spec.layout {
        _ if spec.region.is_empty() => 0..0,
        Layout::Lanes(_) | Layout::Strided(_) => 0..spec.layout.len(&spec.tile),
        Layout::RowMajor => {
            let start = spec.layout.offset(&spec.tile, spec.region.lo());
            start..start + spec.region.len()
        }
    };
    assert!(range.end <= len, "{} is outside of {}", spec.region, spec.tile);
    range
}

impl ArgSpec {
    /// Whether the memory is a window of a larger array: there is nothing but the region to look at.
    pub fn is_window(&self) -> bool {
        self.tile.hi().iter().zip(self.extent.iter()).any(|(end, extent)| end > extent)
    }

    /// How many elements, from the first one of the tile, a call may reach.
    fn span(&self) -> usize {
        if !self.is_window() {
            return self.layout.len(&self.tile);
        }
        if self.region.is_empty() {
            return 0;
        }
        let mut last = [0; crate::shape::MAX_RANK];
        for (index, end) in last.iter_mut().zip(self.region.hi()) {
            *index = end - 1;
        }
        self.layout.offset(&self.tile, &last[..self.region.rank()]) + 1
    }

    /// Whether the region lies in one piece: the whole tile in lanes, a range in row-major order.
    pub fn is_contiguous(&self) -> bool {
        if self.region.is_empty() {
            return true;
        }
        match self.layout {
            Layout::Strided(_) => false,
            _ if self.region == self.tile => true,
            Layout::Lanes(_) => false,
            Layout::RowMajor => {
                // After the first dimension with more than one index, every dimension must be full.
                let (region, tile) = (self.region.shape(), self.tile.shape());
                let first = region.iter().position(|&extent| extent > 1).unwrap_or(region.rank());
                (first + 1..region.rank()).all(|i| region[i] == tile[i])
            }
        }
    }
}
