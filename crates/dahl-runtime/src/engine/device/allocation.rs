//! Memory of the host or of a device, counted alike and freed when dropped.

#![expect(unsafe_code, reason = "gives memory back to the device it came from")]

use super::Device;
use crate::bytes::Bytes;
use crate::engine::memory::allocate;
use crate::error::Result;
use crate::machine::resident_bytes_at;
use crate::sync::Arc;
use std::ptr;

/// A zeroed piece of some memory, which does not move.
pub(in crate::engine) enum Allocation {
    /// Of the host.
    Host(Bytes),
    /// Of a device.
    Device(OnDevice),
}

/// A piece of a device's memory.
pub(in crate::engine) struct OnDevice {
    device: Arc<dyn Device>,
    address: *mut u8,
    bytes: usize,
}

// SAFETY: it is an address that it alone may free; what happens there is answered for by whoever uses it.
unsafe impl Send for OnDevice {}
// SAFETY: as above; sharing it shares the address.
unsafe impl Sync for OnDevice {}

impl Allocation {
    /// So many bytes of a device's memory, or of the host's.
    pub fn new(bytes: usize, device: Option<&Arc<dyn Device>>) -> Result<Self> {
        let Some(device) = device else { return allocate(bytes).map(Allocation::Host) };
        let address = if bytes == 0 { ptr::null_mut() } else { device.allocate(bytes)? };
        Ok(Allocation::Device(OnDevice { device: Arc::clone(device), address, bytes }))
    }

    /// First byte.
    pub fn pointer(&self) -> *mut u8 {
        match self {
            Allocation::Host(bytes) => bytes.pointer(),
            Allocation::Device(piece) => piece.address,
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Allocation::Host(bytes) => bytes.len(),
            Allocation::Device(piece) => piece.bytes,
        }
    }

    /// Whether it is memory of this device, or of the host.
    pub fn is_on(&self, device: Option<&Arc<dyn Device>>) -> bool {
        match (self, device) {
            (Allocation::Host(_), None) => true,
            (Allocation::Device(piece), Some(device)) => Arc::ptr_eq(&piece.device, device),
            _ => false,
        }
    }

    /// How many of the bytes were touched, in whole pages; none where nobody tells.
    pub fn resident_bytes(&self) -> Option<usize> {
        match self {
            Allocation::Host(bytes) => resident_bytes_at(bytes.pointer(), bytes.len()),
            Allocation::Device(_) => None,
        }
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: it was allocated with as many bytes. Whoever enqueued something that touches it keeps
            // it until that is over (`../README.md`).
            unsafe { self.device.free(self.address, self.bytes) };
        }
    }
}
