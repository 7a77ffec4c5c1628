//! The store of state arrays: what outlives graphs.
//!
//! A run borrows its store exclusively. Images are in memory once: the store shares the bytes of the data set
//! ([`Store::share`]) and copies them only for a graph that writes them. Copies in other memories stay there
//! between runs (`replica.rs`).
//!
//! An array may have several versions ([`Store::set_versions`]). They are a ring: a step of a graph that
//! writes the array leaves its values in the version after the *newest*, which then is the newest. So it does
//! not matter which graph, session or run a step belongs to, and a graph that only reads leaves all as it is.
//! The program reads and writes the newest; what it writes counts as the value of all steps so far.

#![expect(unsafe_code, reason = "views memory as elements")]

use super::device::{Allocation, Device};
use super::replica::Replicas;
use crate::bytes::{ALIGN, Bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Graph, MAX_VERSIONS, Role, StateId, Var};
use crate::machine::{MemoryId, resident_bytes_at};
use crate::shape::{Dtype, Element, Shape};
use std::ops::Range;
use std::slice;
use std::sync::Arc;

/// Zeroed memory for a run or an array, or a sentence.
pub(super) fn allocate(bytes: usize) -> Result<Bytes> {
    Bytes::zeroed(bytes).ok_or_else(|| {
        let message = format!("cannot allocate {bytes} bytes: use a smaller batch or fewer images");
        Error::new(ErrorKind::Memory, message)
    })
}

/// The memory of a store that a run was given up with. It is freed when this is dropped.
#[must_use = "a kernel may still be using it"]
pub struct Abandoned {
    _held: Vec<Held>,
}

/// The memory of an array.
enum Held {
    /// The store's own.
    Own(Bytes),
    /// Somebody else's too, so nobody writes it.
    Shared(Arc<Vec<u8>>),
    /// A replica in another memory, which nobody looks at any more.
    Replica(#[expect(dead_code, reason = "it is kept, and freed in the end")] Allocation),
}

impl Held {
    /// First byte. It may be written only if the memory is the store's own.
    fn pointer(&self) -> *mut u8 {
        match self {
            Held::Own(bytes) => bytes.pointer(),
            Held::Shared(bytes) => bytes.as_ptr().cast_mut(),
            Held::Replica(_) => std::ptr::null_mut(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Held::Own(bytes) => bytes.len(),
            Held::Shared(bytes) => bytes.len(),
            Held::Replica(_) => 0,
        }
    }
}

struct Entry {
    name: String,
    dtype: Dtype,
    shape: Shape,
    /// All versions. Not there after the store was abandoned.
    held: Option<Held>,
    n_versions: usize,
    newest: usize,
    /// Whether the program may have written the newest version, and older ones are not what it wrote.
    is_set: bool,
    /// Copies in other memories.
    replicas: Replicas,
}

impl Entry {
    fn new(name: &str, dtype: Dtype, shape: Shape, held: Held) -> Self {
        let (name, held) = (name.to_string(), Some(held));
        Entry {
            name,
            dtype,
            shape,
            held,
            n_versions: 1,
            newest: 0,
            is_set: false,
            replicas: Replicas::default(),
        }
    }

    /// Bytes of a version.
    fn bytes(&self) -> usize {
        self.shape.len() * self.dtype.bytes()
    }

    /// Bytes from one version to the next.
    fn stride(&self) -> usize {
        self.bytes().next_multiple_of(ALIGN)
    }

    /// First byte of a version, if the memory is there.
    fn version(&self, version: usize) -> Option<*mut u8> {
        Some(self.held.as_ref()?.pointer().wrapping_add(version * self.stride()))
    }

    /// Gives an array whose memory is shared a copy of its own, if the system has room for it.
    fn own(&mut self) -> Result<()> {
        if let Some(Held::Shared(shared)) = &self.held {
            let own = allocate(shared.len())?;
            // SAFETY: the new memory has room for all bytes and is nobody else's.
            unsafe { own.pointer().copy_from_nonoverlapping(shared.as_ptr(), shared.len()) };
            self.held = Some(Held::Own(own));
        }
        Ok(())
    }
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
        self.entries.push(Entry::new(name, T::DTYPE, shape, Held::Own(bytes)));
        Ok(StateId(self.entries.len() - 1))
    }

    /// Adds an array of bytes that lie in memory already, without a copy of them. One is made when somebody
    /// writes the array.
    pub fn share(&mut self, name: &str, shape: impl Into<Shape>, bytes: &Arc<Vec<u8>>) -> Result<StateId> {
        let shape = shape.into();
        if bytes.len() != shape.len() {
            let (n, expected) = (bytes.len(), shape.len());
            let message = format!("{name} of {shape} has {expected} bytes, not {n}");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        self.entries.push(Entry::new(name, Dtype::U8, shape, Held::Shared(Arc::clone(bytes))));
        Ok(StateId(self.entries.len() - 1))
    }

    /// Keeps so many versions of an array, 1 unless told: its newest value and those that earlier steps left,
    /// which graphs that are recorded from now on can read ([`Var::aged`]). All of them are what the newest
    /// is.
    pub fn set_versions(&mut self, id: StateId, versions: usize) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Usage, message));
        let Some(entry) = self.entries.get_mut(id.0) else {
            return refuse(format!("there is no state {}: add it first", id.0));
        };
        let Some(newest) = entry.version(entry.newest) else {
            return refuse(format!("{} was lost with a run that was given up: make a new store", entry.name));
        };
        if !(1..=MAX_VERSIONS).contains(&versions) {
            let name = &entry.name;
            return refuse(format!("{name} cannot have {versions} versions: use 1 to {MAX_VERSIONS}"));
        }
        let all = if versions > 1 { versions.checked_mul(entry.stride()) } else { Some(entry.bytes()) };
        let own = allocate(all.unwrap_or(usize::MAX))?;
        // SAFETY: there are as many bytes in the newest version as in each of the new ones, and the new
        // memory is nobody else's.
        unsafe { own.pointer().copy_from_nonoverlapping(newest, entry.bytes()) };
        entry.held = Some(Held::Own(own));
        entry.replicas.forget();
        (entry.n_versions, entry.newest, entry.is_set) = (versions, 0, true);
        Ok(())
    }

    /// How many versions of an array are kept.
    pub fn versions(&self, id: StateId) -> usize {
        self.entries[id.0].n_versions
    }

    /// Bytes of all versions of all arrays.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes() * entry.n_versions).sum()
    }

    /// Bytes of all arrays that were touched, in whole pages; none where the system does not tell.
    pub fn resident_bytes(&self) -> Option<usize> {
        let of = |held: &Held| resident_bytes_at(held.pointer(), held.len());
        self.entries.iter().filter_map(|entry| entry.held.as_ref()).map(of).sum()
    }

    /// The array of a graph that stands for a stored one; added if there is none yet.
    pub fn record(&self, graph: &mut Graph, id: StateId) -> Var {
        if let Some(array) = graph.arrays().iter().position(|array| array.role == Role::State(id)) {
            return graph.var(array);
        }
        let entry = &self.entries[id.0];
        let var = graph.array(&entry.name, entry.dtype, entry.shape, Role::State(id));
        graph.keep_versions(&var, entry.n_versions);
        var
    }

    /// First element and number of elements of an array's newest version.
    fn elements<T: Element>(&self, id: StateId) -> (*mut T, usize) {
        let entry = &self.entries[id.0];
        assert_eq!(entry.dtype, T::DTYPE, "{} has another element type", entry.name);
        match entry.version(entry.newest) {
            Some(newest) => (newest.cast(), entry.shape.len()),
            None => panic!("{} was lost with a run that was given up", entry.name),
        }
    }

    /// The elements of an array: what the last step left, or what the program wrote since.
    ///
    /// # Panics
    /// If it has another element type, or if the watchdog gave up a run that used this store (see
    /// [`Session::set_watchdog`](super::Session::set_watchdog)).
    pub fn get<T: Element>(&self, id: StateId) -> &[T] {
        let (pointer, len) = self.elements::<T>(id);
        // SAFETY: the entry owns `shape.len()` initialised elements of `T`, for which every bit pattern is
        // valid, and no run is under way: a run holds `&mut Store`.
        unsafe { slice::from_raw_parts(pointer, len) }
    }

    /// The elements of an array, for writing. What is written counts as the value of all steps so far.
    ///
    /// # Panics
    /// As [`Store::get`], and if there is no memory left to copy what is [shared](Store::share).
    pub fn get_mut<T: Element>(&mut self, id: StateId) -> &mut [T] {
        self.own(id).unwrap_or_else(|error| panic!("{error}"));
        self.entries[id.0].is_set = true;
        self.entries[id.0].replicas.forget();
        let (pointer, len) = self.elements::<T>(id);
        // SAFETY: as in `get`; `&mut self` makes the access exclusive, and the memory is the store's own.
        unsafe { slice::from_raw_parts_mut(pointer, len) }
    }

    /// Gives an array that was [shared](Store::share) memory of its own, with the same contents.
    pub fn own(&mut self, id: StateId) -> Result<()> {
        self.entries.get_mut(id.0).map_or(Ok(()), Entry::own)
    }

    /// The element type of an array.
    pub fn dtype(&self, id: StateId) -> Option<Dtype> {
        self.entries.get(id.0).map(|entry| entry.dtype)
    }

    /// Address and size in bytes of the first version of an array, for engines. Others follow at distances of
    /// whole cache lines. What is done through the address must respect that
    /// the store lends its arrays out by reference; engines keep the store exclusively borrowed during a run.
    /// Nothing may be written there unless the array has memory of its [own](Store::own).
    pub fn raw(&mut self, id: StateId) -> Option<(*mut u8, usize)> {
        let entry = self.entries.get(id.0)?;
        Some((entry.version(0)?, entry.bytes()))
    }

    /// The number of the newest version of an array, for engines that are about to run steps. What the
    /// program wrote becomes the value of all versions.
    pub fn newest(&mut self, id: StateId) -> usize {
        let entry = &mut self.entries[id.0];
        if std::mem::take(&mut entry.is_set) {
            let others = (0..entry.n_versions).filter(|&version| version != entry.newest);
            let newest = entry.version(entry.newest);
            for (other, newest) in others.filter_map(|version| entry.version(version).zip(newest)) {
                // SAFETY: both are versions of this array, which do not overlap, and `&mut self` makes the
                // access exclusive. Memory that holds several versions is the store's own.
                unsafe { other.copy_from_nonoverlapping(newest, entry.bytes()) };
            }
        }
        entry.newest
    }

    /// Notes that so many steps have each left their values in the version after that of the step before, for
    /// engines.
    pub fn advance(&mut self, id: StateId, steps: u64) {
        let entry = &mut self.entries[id.0];
        let n_versions = entry.n_versions as u64;
        entry.newest = ((entry.newest as u64 + steps % n_versions) % n_versions) as usize;
    }

    /// The first byte of an array's replica in another memory than the host's, for engines. It has room for
    /// all versions, at the distances that they have in the host's. What is in it is worth nothing where
    /// [`Store::is_valid`] does not say so.
    pub fn replica(&mut self, id: StateId, memory: MemoryId) -> Result<*mut u8> {
        self.replica_on(id, memory, None)
    }

    /// The same in a memory that belongs to a device, if there is one.
    pub fn replica_on(
        &mut self,
        id: StateId,
        memory: MemoryId,
        device: Option<&Arc<dyn Device>>,
    ) -> Result<*mut u8> {
        let entry = &mut self.entries[id.0];
        let bytes = entry.stride() * (entry.n_versions - 1) + entry.bytes();
        entry.replicas.pointer(memory, bytes, device)
    }

    /// Whether bytes of an array's version are the same in another memory as in the host's.
    pub fn is_valid(&self, id: StateId, memory: MemoryId, version: usize, range: &Range<usize>) -> bool {
        let entry = &self.entries[id.0];
        let first = version * entry.stride();
        entry.replicas.is_valid(memory, &(first + range.start..first + range.end))
    }

    /// Notes what is the same in replicas as in the host's memory, for engines that end a run: for every
    /// memory, versions and ranges in ascending order, and nothing else.
    pub fn set_valid(
        &mut self,
        id: StateId,
        valid: impl IntoIterator<Item = (MemoryId, usize, Range<usize>)>,
    ) {
        let entry = &mut self.entries[id.0];
        let stride = entry.stride();
        entry.replicas.forget();
        for (memory, version, range) in valid {
            entry.replicas.note(memory, version * stride + range.start..version * stride + range.end);
        }
    }

    /// Bytes of all replicas in a memory.
    pub fn replica_bytes(&self, memory: MemoryId) -> usize {
        self.entries.iter().map(|entry| entry.replicas.len(memory)).sum()
    }

    /// Gives up the memory of all arrays, which a kernel may still be using, for engines that give up a run.
    /// They cannot be used any more. What is returned must be kept for as long as the kernel may run.
    pub fn abandon(&mut self) -> Abandoned {
        let held = |entry: &mut Entry| {
            let replicas = entry.replicas.take().map(Held::Replica);
            replicas.chain(entry.held.take()).collect::<Vec<Held>>()
        };
        Abandoned { _held: self.entries.iter_mut().flat_map(held).collect() }
    }

    /// Whether arrays were given up.
    pub fn is_lost(&self) -> bool {
        self.entries.iter().any(|entry| entry.held.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_not_copied_until_somebody_writes_them() {
        let bytes = Arc::new(vec![1, 2, 3]);
        let mut store = Store::new();
        let id = store.share("images", [3], &bytes).unwrap();
        assert_eq!(store.get::<u8>(id).as_ptr(), bytes.as_ptr());
        assert_eq!(store.raw(id), Some((bytes.as_ptr().cast_mut(), 3)));
        store.get_mut::<u8>(id)[1] = 9;
        assert_eq!((store.get::<u8>(id), &bytes[..]), (&[1, 9, 3][..], &[1, 2, 3][..]));
        assert_eq!(Arc::strong_count(&bytes), 1);
        let message = store.share("images", [2, 2], &bytes).unwrap_err().to_string();
        assert!(message.contains("has 4 bytes, not 3"), "{message}");
        let empty = store.share("none", [0], &Arc::default()).unwrap();
        assert!(store.get::<u8>(empty).is_empty() && store.get_mut::<u8>(empty).is_empty());
    }
}
