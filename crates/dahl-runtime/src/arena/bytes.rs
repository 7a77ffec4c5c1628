//! Zeroed, aligned memory: what arrays, stores and runs are made of.

#![expect(unsafe_code, reason = "allocates and frees raw memory")]

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Alignment of every allocation and of every buffer in it: a cache line, and the widest vector register.
pub const ALIGN: usize = 64;

/// A zeroed piece of memory that does not move and is freed when dropped.
pub(crate) struct Bytes {
    pointer: *mut u8,
    layout: Layout,
}

// SAFETY: `Bytes` is an address that it alone may free; it gives out no reference to its memory, so what happens
// there is answered for by whoever uses the address.
unsafe impl Send for Bytes {}
// SAFETY: as above; sharing it shares the address.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `len` zero bytes, if the system has them.
    pub fn zeroed(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), ALIGN).ok()?;
        // SAFETY: the layout is not empty.
        let pointer = unsafe { alloc_zeroed(layout) };
        (!pointer.is_null()).then_some(Bytes { pointer, layout })
    }

    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout.
        unsafe { dealloc(self.pointer, self.layout) }
    }
}
