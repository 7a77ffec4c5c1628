//! Zeroed, aligned memory: what arrays, stores and runs are made of.

#![expect(unsafe_code, reason = "allocates and frees raw memory")]

use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Alignment of every allocation and of every buffer in it: a cache line, and the widest vector register.
pub const ALIGN: usize = 64;

/// A zeroed piece of memory that does not move and is freed when dropped.
pub(crate) struct Bytes {
    /// First byte, aligned.
    pointer: *mut u8,
    len: usize,
    /// What the allocator gave, which begins somewhat earlier.
    start: *mut u8,
    layout: Layout,
}

// SAFETY: `Bytes` is an address that it alone may free; it gives out no reference to its memory, so what
// happens there is answered for by whoever uses the address.
unsafe impl Send for Bytes {}
// SAFETY: as above; sharing it shares the address.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// `len` zero bytes, if the system has them.
    ///
    /// The allocator is not asked for the alignment: memory that it aligns itself it also clears itself, and
    /// so touches every page of it, while what comes from the system is zero already and is taken page by
    /// page as it is used.
    pub fn zeroed(len: usize) -> Option<Self> {
        let len = len.max(1);
        let layout = Layout::from_size_align(len.checked_add(ALIGN)?, 1).ok()?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        // At most `ALIGN` bytes further on, so that `len` bytes remain.
        let pointer = start.wrapping_add(start.align_offset(ALIGN));
        Some(Bytes { pointer, len, start, layout })
    }

    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::machine::resident_bytes_at;

    #[test]
    fn memory_begins_on_a_cache_line_and_is_zero() {
        for len in [0, 1, 63, 64, 65, 5000, 1 << 20] {
            let bytes = Bytes::zeroed(len).unwrap();
            assert_eq!((bytes.pointer() as usize % ALIGN, bytes.len()), (0, len.max(1)));
            // SAFETY: as many bytes were allocated and set to zero, and nobody else knows them.
            let all = unsafe { std::slice::from_raw_parts(bytes.pointer(), bytes.len()) };
            assert!(all.iter().all(|&byte| byte == 0));
        }
        assert!(Bytes::zeroed(usize::MAX).is_none() && Bytes::zeroed(isize::MAX as usize).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_are_taken_when_they_are_used() {
        let bytes = Bytes::zeroed(64 << 20).unwrap();
        let taken = resident_bytes_at(bytes.pointer(), bytes.len()).unwrap();
        assert!(taken < 16 << 20, "{taken}");
    }
}
