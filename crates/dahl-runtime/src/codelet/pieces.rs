//! Contiguous memory in pieces that are read and written by value: for kernels that may work in place.
//!
//! Slices of an input and an output claim that they are different memory. Pieces claim nothing: each access
//! is a read or a write of its own, so that an output may take the place of an input, as long as the kernel
//! reads a piece before it overwrites it.

#![expect(unsafe_code, reason = "reads and writes memory of which no reference may be held")]

use std::marker::PhantomData;

/// The memory of an input.
#[derive(Clone, Copy)]
pub struct Pieces<'a, P> {
    pointer: *const P,
    len: usize,
    memory: PhantomData<&'a P>,
}

/// The memory of an output.
pub struct PiecesMut<'a, P> {
    pointer: *mut P,
    len: usize,
    memory: PhantomData<&'a P>,
}

impl<P: Copy> Pieces<'_, P> {
    /// The memory of `len` pieces from `pointer`.
    ///
    /// # Safety
    /// All of it must be readable, initialised and aligned, and written by nobody but the holder of this
    /// value, while this value lives.
    pub(super) unsafe fn new(pointer: *const P, len: usize) -> Self {
        Pieces { pointer, len, memory: PhantomData }
    }

    /// The piece at this place.
    #[inline(always)]
    pub fn get(&self, at: usize) -> P {
        assert!(at < self.len, "piece {at} of {}", self.len);
        // SAFETY: the piece is one of those that the caller of `new` vouched for.
        unsafe { self.pointer.add(at).read() }
    }
}

impl<P: Copy> PiecesMut<'_, P> {
    /// The memory of `len` pieces from `pointer`.
    ///
    /// # Safety
    /// As for [`Pieces::new`], and all of it must be writable.
    pub(super) unsafe fn new(pointer: *mut P, len: usize) -> Self {
        PiecesMut { pointer, len, memory: PhantomData }
    }

    /// How many pieces there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The piece at this place.
    #[inline(always)]
    pub fn get(&self, at: usize) -> P {
        assert!(at < self.len, "piece {at} of {}", self.len);
        // SAFETY: the piece is one of those that the caller of `new` vouched for.
        unsafe { self.pointer.add(at).read() }
    }

    /// Writes the piece at this place.
    #[inline(always)]
    pub fn set(&mut self, at: usize, piece: P) {
        assert!(at < self.len, "piece {at} of {}", self.len);
        // SAFETY: the piece is one of those that the caller of `new` vouched for.
        unsafe { self.pointer.add(at).write(piece) }
    }
}
