//! Ports and outputs: where the program writes what a step reads, and reads what it has written.
//!
//! Both are rings of versions, which steps use in turn: one at least for each of the `depth` steps that the
//! program may be ahead. They are addresses in the host's memory, and know nothing of whoever executes the
//! steps.

#![expect(unsafe_code, reason = "lends ring versions to the program while no task uses them")]

use crate::bytes::ALIGN;
use crate::graph::{Lowered, Role, Var};
use crate::shape::Element;
use std::{ptr, slice};

/// The ports and outputs of a bound graph.
///
/// No task touches the version of a step in a port before that step is released, nor the version of a step in
/// an output from when it is finished until the step `depth` later is released. In between they are the
/// program's.
pub struct Rings {
    /// By array of the recorded graph.
    rings: Vec<Option<Ring>>,
}

struct Ring {
    role: Role,
    buffer: usize,
    /// The first version.
    address: *mut u8,
    /// Bytes of a version.
    bytes: usize,
    versions: u64,
}

// SAFETY: the addresses are used through `Ports` and `Outputs` only, whose makers vouch for who else uses
// them.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Rings {
    /// The ports and outputs of a graph, which lie nowhere yet.
    pub fn new(lowered: &Lowered) -> Self {
        let ring = |&(buffer, role): &(usize, Role)| Ring {
            role,
            buffer,
            address: ptr::null_mut(),
            bytes: lowered.buffers[buffer].bytes,
            versions: lowered.buffers[buffer].versions as u64,
        };
        Rings { rings: lowered.rings.iter().map(|found| found.as_ref().map(ring)).collect() }
    }

    /// The buffers of all ports or outputs.
    pub fn buffers(&self, role: Role) -> impl Iterator<Item = usize> {
        self.rings.iter().flatten().filter(move |ring| ring.role == role).map(|ring| ring.buffer)
    }

    /// Says where the first version of each buffer lies. Others follow, each at the next multiple of
    /// [`ALIGN`].
    ///
    /// # Safety
    /// At each address there must be room for all versions, initialised, until the addresses are
    /// set anew or the last [`Ports`] and [`Outputs`] are gone.
    pub unsafe fn set_addresses(&mut self, address: impl Fn(usize) -> *mut u8) {
        self.rings.iter_mut().flatten().for_each(|ring| ring.address = address(ring.buffer));
    }

    /// The elements of a version that belong to an array.
    fn elements<T: Element>(&self, var: &Var, role: Role, step: u64) -> *mut [T] {
        assert_eq!(var.dtype(), T::DTYPE, "the array has another element type");
        let ring = match self.rings.get(var.array) {
            Some(Some(ring)) if ring.role == role => ring,
            _ => panic!("{var:?} is not a {role:?} of this graph"),
        };
        assert!((var.offset + var.shape.len()) * size_of::<T>() <= ring.bytes, "{var:?} is of another graph");
        let version = (step % ring.versions) as usize * ring.bytes.next_multiple_of(ALIGN);
        let first = ring.address.wrapping_add(version).cast::<T>().wrapping_add(var.offset);
        ptr::slice_from_raw_parts_mut(first, var.shape.len())
    }
}

/// The ports of a step that is about to be released.
pub struct Ports<'a> {
    rings: &'a Rings,
    step: u64,
}

impl<'a> Ports<'a> {
    /// The ports of a step.
    ///
    /// # Safety
    /// Addresses must be set, the step `depth` before must have finished, this one must not be released
    /// before the ports are gone, and there must be no others of this step.
    pub unsafe fn new(rings: &'a Rings, step: u64) -> Self {
        Ports { rings, step }
    }

    /// The elements of a port, to be filled.
    ///
    /// # Panics
    /// If `var` is not a port or has another element type.
    pub fn get_mut<T: Element>(&mut self, var: &Var) -> &mut [T] {
        // SAFETY: whoever made the ports vouches that no task uses this version; `&mut self` keeps the
        // program from holding two slices of it. It has so many initialised elements, aligned to more than
        // they need.
        unsafe { &mut *self.rings.elements(var, Role::Port, self.step) }
    }
}

/// The outputs of a finished step.
pub struct Outputs<'a> {
    rings: &'a Rings,
    step: u64,
}

impl<'a> Outputs<'a> {
    /// The outputs of a step.
    ///
    /// # Safety
    /// Addresses must be set, the step must have finished with its outputs in the host's memory, and the step
    /// `depth` later must not be released before the outputs are gone.
    pub unsafe fn new(rings: &'a Rings, step: u64) -> Self {
        Outputs { rings, step }
    }

    /// The elements of an output.
    ///
    /// # Panics
    /// If `var` is not an output or has another element type.
    pub fn get<T: Element>(&self, var: &Var) -> &[T] {
        let elements = self.rings.elements::<T>(var, Role::Output, self.step);
        // SAFETY: as in `Ports::get_mut`; nobody writes.
        unsafe { slice::from_raw_parts(elements.cast::<T>(), elements.len()) }
    }
}
