//! The store of state arrays: what outlives graphs.

#![expect(unsafe_code, reason = "views memory as elements")]

use crate::arena::Bytes;
use crate::array::{Dtype, Element, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, Role, StateId, Var};
use crate::machine::{HOST, MemoryId, resident_bytes_at};
use std::slice;

/// Zeroed memory for a run or an array, or a sentence.
pub(super) fn allocate(bytes: usize) -> Result<Bytes> {
    Bytes::zeroed(bytes).ok_or_else(|| {
        let message = format!("cannot allocate {bytes} bytes: use a smaller batch or fewer images");
        Error::new(ErrorKind::Memory, message)
    })
}

/// The arena of a session in one memory: what was planned for it, and what of it was touched so far. Resident bytes are none
/// where the system does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The memory.
    pub memory: MemoryId,
    /// Bytes of the arena.
    pub planned_bytes: usize,
    /// Bytes of it that were touched, in whole pages.
    pub resident_bytes: Option<usize>,
    /// Bytes of it for ports and outputs, in all versions.
    pub ring_bytes: usize,
    /// Bytes of those that were touched.
    pub ring_resident_bytes: Option<usize>,
    /// Bytes of it for copies of state, in memories other than the host's.
    pub copy_bytes: usize,
}

impl Default for MemoryUse {
    fn default() -> Self {
        MemoryUse {
            memory: HOST,
            planned_bytes: 0,
            resident_bytes: Some(0),
            ring_bytes: 0,
            ring_resident_bytes: Some(0),
            copy_bytes: 0,
        }
    }
}

struct Entry {
    name: String,
    dtype: Dtype,
    shape: Shape,
    /// Not there after the store was abandoned.
    bytes: Option<Bytes>,
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
        let bytes = allocate(shape.len().saturating_mul(size_of::<T>()))?;
        self.entries.push(Entry { name: name.to_string(), dtype: T::DTYPE, shape, bytes: Some(bytes) });
        Ok(StateId(self.entries.len() - 1))
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.shape.len() * entry.dtype.bytes()).sum()
    }

    /// Bytes of all arrays that were touched, in whole pages; none where the system does not tell.
    pub fn resident_bytes(&self) -> Option<usize> {
        let of = |bytes: &Bytes| resident_bytes_at(bytes.pointer(), bytes.len());
        self.entries.iter().filter_map(|entry| entry.bytes.as_ref()).map(of).sum()
    }

    /// The array of a graph that stands for a stored one; added if there is none yet.
    pub fn record(&self, graph: &mut Graph, id: StateId) -> Var {
        if let Some(array) = graph.arrays().iter().position(|array| array.role == Role::State(id)) {
            return graph.var(array);
        }
        let entry = &self.entries[id.0];
        graph.array(&entry.name, entry.dtype, entry.shape, Role::State(id))
    }

    /// First element and number of elements of an array.
    fn elements<T: Element>(&self, id: StateId) -> (*mut T, usize) {
        let entry = &self.entries[id.0];
        assert_eq!(entry.dtype, T::DTYPE, "{} has another element type", entry.name);
        match &entry.bytes {
            Some(bytes) => (bytes.pointer().cast(), entry.shape.len()),
            None => panic!("{} was lost with a run that was given up", entry.name),
        }
    }

    /// The elements of an array.
    ///
    /// # Panics
    /// If it has another element type, or if the watchdog gave up a run that used this store (see
    /// [`Session::set_watchdog`](super::Session::set_watchdog)).
    pub fn get<T: Element>(&self, id: StateId) -> &[T] {
        let (pointer, len) = self.elements::<T>(id);
        // SAFETY: the entry owns `shape.len()` initialised elements of `T`, for which every bit pattern is valid,
        // and no run is under way: a run holds `&mut Store`.
        unsafe { slice::from_raw_parts(pointer, len) }
    }

    /// The elements of an array, for writing.
    ///
    /// # Panics
    /// As [`Store::get`].
    pub fn get_mut<T: Element>(&mut self, id: StateId) -> &mut [T] {
        let (pointer, len) = self.elements::<T>(id);
        // SAFETY: as in `get`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(pointer, len) }
    }

    /// Address and size in bytes of an array, for engines. What is done through the address must respect that the
    /// store lends its arrays out by reference; engines keep the store exclusively borrowed during a run.
    pub fn raw(&mut self, id: StateId) -> Option<(*mut u8, usize)> {
        let entry = self.entries.get(id.0)?;
        Some((entry.bytes.as_ref()?.pointer(), entry.shape.len() * entry.dtype.bytes()))
    }

    /// Gives up the memory of all arrays, which a kernel may still be using. They cannot be used any more.
    pub(super) fn abandon(&mut self) -> Vec<Bytes> {
        self.entries.iter_mut().filter_map(|entry| entry.bytes.take()).collect()
    }

    /// Whether arrays were given up.
    pub(super) fn is_lost(&self) -> bool {
        self.entries.iter().any(|entry| entry.bytes.is_none())
    }
}
