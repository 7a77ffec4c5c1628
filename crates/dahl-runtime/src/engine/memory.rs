//! Zeroed, aligned memory, and what lives in it: the store of state arrays.

#![expect(unsafe_code, reason = "allocates raw memory and views it as elements")]

use crate::array::{Dtype, Element, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Role, StateId, Var};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::slice;

/// Alignment of every allocation: a cache line.
const ALIGN: usize = 64;

/// A zeroed piece of memory, aligned to 64 bytes, that does not move.
pub(crate) struct Bytes {
    pointer: *mut u8,
    len: usize,
}

// SAFETY: `Bytes` owns its memory; what happens through the raw pointer is answered for by whoever uses it.
unsafe impl Send for Bytes {}
// SAFETY: as above; shared references only hand out the pointer.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<Self> {
        if len == 0 {
            return Ok(Bytes { pointer: std::ptr::without_provenance_mut(ALIGN), len });
        }
        let too_large = || {
            let message = format!("cannot allocate {len} bytes: use a smaller batch or fewer images");
            Error::new(ErrorKind::Memory, message)
        };
        let layout = Layout::from_size_align(len, ALIGN).map_err(|_| too_large())?;
        // SAFETY: the layout has a non-zero size.
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() { Err(too_large()) } else { Ok(Bytes { pointer, len }) }
    }

    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with this very layout, which was valid then.
            unsafe { dealloc(self.pointer, Layout::from_size_align_unchecked(self.len, ALIGN)) }
        }
    }
}

struct Entry {
    name: String,
    dtype: Dtype,
    shape: Shape,
    bytes: Bytes,
}

/// Arrays that outlive graphs: parameters, optimiser state, data sets. Graphs refer to them by [`StateId`].
#[derive(Default)]
pub struct Store {
    entries: Vec<Entry>,
}

impl Store {
    /// An empty store.
    pub fn new() -> Self {
        Store::default()
    }

    /// Adds a zeroed array.
    pub fn add<T: Element>(&mut self, name: &str, shape: impl Into<Shape>) -> Result<StateId> {
        let shape = shape.into();
        let bytes = Bytes::zeroed(shape.len() * size_of::<T>())?;
        self.entries.push(Entry { name: name.to_string(), dtype: T::DTYPE, shape, bytes });
        Ok(StateId(self.entries.len() - 1))
    }

    /// Adds an array to a graph that stands for a stored one.
    pub fn record(&self, graph: &mut Graph, id: StateId) -> Var {
        let entry = &self.entries[id.0];
        graph.array(&entry.name, entry.dtype, entry.shape, Role::State(id))
    }

    fn entry<T: Element>(&self, id: StateId) -> &Entry {
        let entry = &self.entries[id.0];
        assert_eq!(entry.dtype, T::DTYPE, "{} has another element type", entry.name);
        entry
    }

    /// The elements of an array.
    pub fn get<T: Element>(&self, id: StateId) -> &[T] {
        let entry = self.entry::<T>(id);
        // SAFETY: the entry owns `shape.len()` initialised elements of `T`, for which every bit pattern is valid,
        // and no run is under way: a run holds `&mut Store`.
        unsafe { slice::from_raw_parts(entry.bytes.pointer().cast::<T>(), entry.shape.len()) }
    }

    /// The elements of an array, for writing.
    pub fn get_mut<T: Element>(&mut self, id: StateId) -> &mut [T] {
        let entry = self.entry::<T>(id);
        // SAFETY: as in `get`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(entry.bytes.pointer().cast::<T>(), entry.shape.len()) }
    }

    /// Address and size in bytes of an array, for engines. What is done through the address must respect that the
    /// store lends its arrays out by reference; engines keep the store exclusively borrowed during a run.
    pub fn raw(&mut self, id: StateId) -> Option<(*mut u8, usize)> {
        let entry = self.entries.get(id.0)?;
        Some((entry.bytes.pointer(), entry.shape.len() * entry.dtype.bytes()))
    }
}
