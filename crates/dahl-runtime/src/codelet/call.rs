//! What a kernel gets: views of its arguments, the regions to read and write, and parameters.

#![expect(unsafe_code, reason = "its maker vouches for the engine's raw pointers")]

use super::spec::{ArgSpec, CallSpec};
use super::view::{Taken, View, ViewMut};
use crate::bytes::ALIGN;
use crate::shape::Element;
use std::cell::Cell;

/// One call of a kernel.
pub struct Call<'a> {
    spec: &'a CallSpec,
    pointers: &'a [*mut u8],
    /// What the kernel may use while it runs.
    scratch: *mut [u8],
    /// A bit for every output of which the kernel has a view.
    taken: Cell<u64>,
    /// Whether the kernel has its scratch.
    has_scratch: Cell<bool>,
}

impl<'a> Call<'a> {
    /// A call on memory that the caller vouches for.
    ///
    /// # Safety
    /// `pointers[i]` must be valid for `layout.len(tile)` elements of argument `i` (of a window: for the
    /// elements of its region, at their offsets), aligned to 64 bytes or at least to its element type and
    /// initialised. Every region must lie inside of its tile. For as long as the call lives, the elements of
    /// the regions of inputs must be readable, and those of outputs exclusively writable; other elements of
    /// the tiles may be in use elsewhere. An input may point to the same memory as an output only if
    /// [`CallSpec::in_place`] says so. Engines keep this by executing a graph whose edges order every
    /// conflicting pair.
    ///
    /// `scratch` has the bytes that the codelet [declares](super::Codelet::scratch) for this call, with
    /// anything in them. It must be aligned to [`ALIGN`] bytes (unless it is empty), initialised, and nobody
    /// else's for as long as the call lives.
    pub unsafe fn new(spec: &'a CallSpec, pointers: &'a [*mut u8], scratch: *mut [u8]) -> Self {
        assert_eq!(spec.args.len(), pointers.len(), "one pointer per argument");
        Call { spec, pointers, scratch, taken: Cell::new(0), has_scratch: Cell::new(false) }
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

    /// The memory that the kernel may use while it runs: as many bytes as its codelet
    /// [declares](super::Codelet::scratch) for this call, in elements of one type, from a cache line on, with
    /// anything in them.
    ///
    /// # Panics
    /// If it was asked for before (two would alias), or no whole number of elements was declared.
    #[expect(clippy::mut_from_ref, reason = "it is given out once")]
    pub fn scratch<T: Element>(&self) -> &mut [T] {
        assert!(!self.has_scratch.replace(true), "a kernel takes its scratch once");
        let bytes = self.scratch.len();
        if bytes == 0 {
            return &mut [];
        }
        debug_assert!(self.scratch.cast::<u8>().addr().is_multiple_of(ALIGN));
        assert!(bytes.is_multiple_of(size_of::<T>()), "{bytes} bytes of scratch are no whole elements");
        // SAFETY: our maker vouched for the bytes, which are aligned for every element type and are values
        // of each, and they are given out once.
        unsafe { std::slice::from_raw_parts_mut(self.scratch.cast(), bytes / size_of::<T>()) }
    }

    /// The memory of an argument, and what it is.
    pub(super) fn parts<T: Element>(&self, arg: usize) -> (*mut T, &'a ArgSpec) {
        let spec = &self.spec.args[arg];
        assert_eq!(spec.dtype, T::DTYPE, "argument {arg} has another element type than the kernel expects");
        (self.pointers[arg].cast::<T>(), spec)
    }

    /// Input `i`, for reading.
    pub fn input<T: Element>(&self, i: usize) -> View<'_, T> {
        assert!(i < self.spec.n_inputs, "input {i} of {}", self.spec.n_inputs);
        let (pointer, spec) = self.parts::<T>(i);
        // SAFETY: our maker vouched for all arguments, and inputs are only read.
        unsafe { View::new(pointer, spec, self.is_shared(i)) }
    }

    /// Output `i`, for writing (and reading, where it is also an input or accumulates).
    ///
    /// # Panics
    /// If there is another view of it: two would alias.
    pub fn output<T: Element>(&self, i: usize) -> ViewMut<'_, T> {
        let taken = self.take(i);
        let arg = self.spec.n_inputs + i;
        let (pointer, spec) = self.parts::<T>(arg);
        // SAFETY: our maker vouched for all arguments, and nobody else has taken this one.
        unsafe { ViewMut::new(pointer, spec, self.is_shared(arg), taken) }
    }

    /// Output `i` for one user at a time.
    ///
    /// # Panics
    /// If there is another.
    pub(super) fn take(&self, i: usize) -> Taken<'_> {
        Taken::new(&self.taken, i)
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
}
