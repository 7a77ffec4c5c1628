//! Units that finish later: a queue of work with a memory of its own, such as a GPU.
//!
//! A thread that computes by itself has ended a task when the kernel returns. A [`Device`] takes work and
//! reports afterwards that it has ended: the thread of its unit only *drives* it. It enqueues tasks and
//! copies without waiting for them, several at a time, and asks by [events](Event) how far they are
//! (`backlog.rs`, `../bound/later.rs`). Arenas, replicas and scratch of a memory that belongs to a device
//! come from it (`allocation.rs`). Who may enqueue what when, and why nobody reads what is not there, is in
//! `../README.md`.
//!
//! A device of another crate needs nothing but this trait. [`QueueDevice`] is one made of host threads, by
//! which all of this is tested where there is no other.

#![expect(unsafe_code, reason = "implementing a device is a promise")]

mod allocation;
mod backlog;
mod devices;
mod queue;

pub(super) use allocation::Allocation;
pub(super) use backlog::{Backlog, Given};
pub(super) use devices::Devices;
pub use queue::{Delay, QueueDevice, QueueOptions};

use crate::error::{Error, ErrorKind, Result};
use crate::graph::Task;
use crate::sync::thread;
use std::any::Any;

/// A point in the work of a device. What the number means is the device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub u64);

/// What is known of work that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// When it began and when it ended, in [`ticks`](crate::trace::ticks), where the device can tell.
    pub times: Option<(u64, u64)>,
}

/// An execution queue with a memory of its own.
///
/// An engine talks to it from several threads at once: the thread that drives the unit enqueues and polls,
/// threads of other units copy out of its memory, and the program's thread does all of it between runs.
///
/// # Safety
/// Whoever implements it promises:
///
/// - *Memory.* [`Device::allocate`] gives memory that nobody else has, aligned to
///   [`ALIGN`](crate::bytes::ALIGN), until it is [freed](Device::free). Addresses need not mean anything to
///   the host; the engine only adds offsets to them and hands them back.
/// - *Order.* Everything that is enqueued by [`Device::clear`], [`Device::copy_in`], [`Device::copy_from`]
///   and [`Launch::launch`] is executed in this order, as if each had ended before the next began. It touches
///   only the memory at the addresses that it was given, of the device and of the host, not before the call
///   and not after an event that was recorded behind it is over.
/// - *Events.* When [`Device::poll`] has said that an event is over, all that was enqueued before
///   [`Device::record`] has ended, with what it wrote to be seen by every copy and launch that begins
///   afterwards. For [`Device::copy_out`] the same holds of that copy, whose target the thread that was told
///   can then read. An error instead says the same: whatever was enqueued before is over, though not as it
///   should be, and touches nothing any more. So does an error of [`Device::record`].
/// - No method waits for what the engine does, except [`Device::wait`] for what is enqueued already.
pub unsafe trait Device: Send + Sync {
    /// What it is called in errors.
    fn name(&self) -> &str;

    /// Takes so many bytes of its memory, all of them zero.
    fn allocate(&self, bytes: usize) -> Result<*mut u8>;

    /// Gives memory back.
    ///
    /// # Safety
    /// It must come from [`Device::allocate`] with as many bytes, and nothing that was enqueued may still
    /// touch it.
    unsafe fn free(&self, address: *mut u8, bytes: usize);

    /// Makes a task of a graph ready to be launched often, when the graph is bound: looks up or compiles the
    /// kernel of its implementation, and keeps what does not change from launch to launch. Refuses a task
    /// that it has no kernel for.
    fn prepare(&self, task: &Task) -> Result<Box<dyn Launch>>;

    /// Enqueues that bytes of its memory become zero.
    ///
    /// # Safety
    /// There must be as many bytes at the address, until that is over, and nobody else uses them.
    unsafe fn clear(&self, address: *mut u8, bytes: usize) -> Result<()>;

    /// Enqueues a copy from the host's memory to its own. The host's is ordinary memory, not locked to its
    /// pages: a device that would have to wait for copies from there takes small ones through memory of the
    /// host that it has locked itself.
    ///
    /// # Safety
    /// At both addresses there must be as many bytes until that is over. Nobody may write the source from the
    /// call on, nor use the target except what is enqueued before.
    unsafe fn copy_in(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Begins a copy from its memory to the host's. It comes beside the queue: what it reads is there
    /// already, so it need not wait for tasks that were enqueued before and have nothing to do with it. The
    /// event is that of this copy.
    ///
    /// # Safety
    /// At both addresses there must be as many bytes until that is over, those of the source written by what
    /// was over before the call. Nobody may write the source, nor use the target.
    unsafe fn copy_out(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<Event>;

    /// Whether it can copy from the memory of another device without the host. Links of a machine between
    /// memories of two devices are refused where it cannot; copies then go through the host's memory.
    fn can_copy_from(&self, other: &dyn Device) -> bool {
        let _ = other;
        false
    }

    /// Enqueues a copy from the memory of a device that it [can copy from](Device::can_copy_from) to its own.
    ///
    /// # Safety
    /// As for [`Device::copy_in`]; and the source was written by what is over.
    unsafe fn copy_from(&self, other: &dyn Device, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        let _ = (from, to, bytes);
        let message = format!("{} cannot copy from {}: copy through the host", self.name(), other.name());
        Err(Error::new(ErrorKind::Usage, message))
    }

    /// An event that is over when everything that was enqueued so far is.
    fn record(&self) -> Result<Event>;

    /// Whether an event is over, without waiting; an error if something failed between the event before and
    /// this one. Nobody asks about an event again that was over or failed.
    fn poll(&self, event: Event) -> Result<Option<Over>>;

    /// Waits until an event is over. Engines do so at the beginning and the end of runs, and for copies out
    /// of its memory.
    fn wait(&self, event: Event) -> Result<Over> {
        loop {
            match self.poll(event)? {
                Some(over) => return Ok(over),
                None => thread::yield_now(),
            }
        }
    }

    /// The device itself, for another one that copies from it.
    fn as_any(&self) -> &dyn Any;
}

/// A task that a device has made ready.
///
/// # Safety
/// As for [`Device`], whose promise this is a part of: it reads and writes the regions of the task's
/// arguments at the addresses and the task's scratch, and nothing else, until it is over.
pub unsafe trait Launch: Send + Sync {
    /// Enqueues the task for a step, on arguments in the memory of the device, with the scratch that it
    /// declares.
    ///
    /// # Safety
    /// The addresses must be as [`Call::new`](crate::codelet::Call::new) asks for, but in the device's
    /// memory, and nobody else uses what is there until the task is over, except what is enqueued before. The
    /// task stays ready until then.
    unsafe fn launch(&self, addresses: &[*mut u8], scratch: *mut u8, step: u64) -> Result<()>;
}
