//! A device that has kernels for one code and refuses everything else, as a GPU does; otherwise a queue
//! device.

#![expect(unsafe_code, reason = "implementing a device is a promise, which the queue device keeps")]

use dahl_runtime::engine::{Device, Event, Launch, Over, QueueDevice};
use dahl_runtime::graph::Task;
use dahl_runtime::{Error, ErrorKind, Result};
use std::any::Any;

pub struct Strict {
    code: &'static str,
    queue: QueueDevice,
}

impl Strict {
    /// One that runs this code.
    pub fn new(code: &'static str) -> Strict {
        Strict { code, queue: QueueDevice::new().unwrap() }
    }
}

// SAFETY: everything is done by the queue device, as it was asked for.
unsafe impl Device for Strict {
    fn name(&self) -> &str {
        "the strict device"
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        self.queue.allocate(bytes)
    }

    unsafe fn free(&self, address: *mut u8, bytes: usize) {
        // SAFETY: as the caller vouches.
        unsafe { self.queue.free(address, bytes) }
    }

    fn prepare(&self, task: &Task) -> Result<Box<dyn Launch>> {
        if task.code != self.code {
            let message = format!("{task:?} is written in the code {}, not in {}", task.code, self.code);
            return Err(Error::new(ErrorKind::Plan, message));
        }
        self.queue.prepare(task)
    }

    unsafe fn clear(&self, address: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.queue.clear(address, bytes) }
    }

    unsafe fn copy_in(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.queue.copy_in(from, to, bytes) }
    }

    unsafe fn copy_out(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<Event> {
        // SAFETY: as the caller vouches.
        unsafe { self.queue.copy_out(from, to, bytes) }
    }

    fn record(&self) -> Result<Event> {
        self.queue.record()
    }

    fn poll(&self, event: Event) -> Result<Option<Over>> {
        self.queue.poll(event)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
