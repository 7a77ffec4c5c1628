//! A device made of host threads: one behind a queue that executes tasks, and one beside it that copies out.
//!
//! It has memory of its own, of a size that can be limited, and runs the kernels of CPU code. It is as fast
//! as the thread is, so it is not for speed: it shows that everything holds that engines promise of units
//! that finish later, also where these are late at random.

#![expect(unsafe_code, reason = "executes what others vouch for, on another thread")]

use super::{Device, Event, Launch, Over};
use crate::bytes::Bytes;
use crate::codelet::{Call, CallSpec, Kernel};
use crate::engine::runner::call_kernel;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Task;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, lock, thread};
use crate::trace::ticks;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::ptr;
use std::time::Duration;

/// How late a [`QueueDevice`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// It executes what it has as fast as it can.
    #[default]
    None,
    /// It sleeps so long before each task.
    Fixed(Duration),
    /// Before tasks and copies it now and then lets other threads go first, or sleeps for at most so long.
    Random(Duration),
}

/// Settings of a [`QueueDevice`].
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOptions {
    /// How many bytes there are to allocate, if that is limited.
    pub limit_bytes: Option<usize>,
    /// How late it is.
    pub delay: Delay,
}

/// A device made of host threads.
///
/// ```
/// use dahl_runtime::engine::{Device, Pool, QueueDevice};
/// use dahl_runtime::machine::{Kind, Machine};
/// use std::sync::Arc;
///
/// # fn main() -> dahl_runtime::Result<()> {
/// let machine = Machine::with_workers(2).with_unit_apart(1, Kind::cpu().named("queue"));
/// let device: Arc<dyn Device> = Arc::new(QueueDevice::new()?);
/// let pool = Pool::with_devices(&machine, [(1, device)])?;
/// # assert_eq!(pool.n_workers(), 2);
/// # Ok(())
/// # }
/// ```
pub struct QueueDevice {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    options: QueueOptions,
    /// Where each allocation is.
    memory: Mutex<Memory>,
    /// What is executed in order, and what is copied out beside it.
    lanes: [Lane; 2],
}

/// Tasks, and all copies that come in order.
const MAIN: usize = 0;
/// Copies out.
const ASIDE: usize = 1;

#[derive(Default)]
struct Memory {
    pieces: HashMap<usize, Bytes>,
    used_bytes: usize,
    peak_bytes: usize,
}

#[derive(Default)]
struct Lane {
    orders: Mutex<Orders>,
    bell: Condvar,
    /// Events that are over.
    n_over: AtomicU64,
    /// How those ended that nobody has asked about yet.
    outcomes: Mutex<HashMap<u64, Result<Over>>>,
}

#[derive(Default)]
struct Orders {
    orders: VecDeque<Order>,
    /// The addresses of all calls among them.
    addresses: VecDeque<*mut u8>,
    n_events: u64,
    is_closed: bool,
}

// SAFETY: the addresses are used by the lane's thread only, as whoever gave the order vouched for.
unsafe impl Send for Orders {}

enum Order {
    Call { task: Arc<Ready>, scratch: *mut u8 },
    Copy { from: *const u8, to: *mut u8, bytes: usize },
    Clear { at: *mut u8, bytes: usize },
    Event(u64),
}

/// A task that is ready to be called.
struct Ready {
    kernel: Kernel,
    spec: CallSpec,
    scratch_bytes: usize,
}

impl QueueDevice {
    /// One without limit, as fast as it can.
    pub fn new() -> Result<Self> {
        QueueDevice::with_options(QueueOptions::default())
    }

    /// One with these settings. Fails if the system has no more threads to give.
    pub fn with_options(options: QueueOptions) -> Result<Self> {
        let shared = Arc::new(Shared { options, memory: Mutex::default(), lanes: Default::default() });
        let mut device = QueueDevice { shared, threads: Vec::new() };
        for lane in [MAIN, ASIDE] {
            let shared = Arc::clone(&device.shared);
            let thread = thread::Builder::new().spawn(move || shared.serve(lane)).map_err(|error| {
                let message =
                    format!("cannot start the threads of a queue device ({error}): end other programs");
                Error::new(ErrorKind::Memory, message)
            })?;
            device.threads.push(thread);
        }
        Ok(device)
    }

    /// Bytes of its memory that are allocated.
    pub fn used_bytes(&self) -> usize {
        lock(&self.shared.memory).used_bytes
    }

    /// The most bytes that were allocated at a time.
    pub fn peak_bytes(&self) -> usize {
        lock(&self.shared.memory).peak_bytes
    }
}

impl Drop for QueueDevice {
    fn drop(&mut self) {
        for lane in &self.shared.lanes {
            lock(&lane.orders).is_closed = true;
            lane.bell.notify_all();
        }
        for thread in self.threads.drain(..) {
            // Panics of kernels are caught; if a thread died nevertheless, there is nothing left to join.
            let _ = thread.join();
        }
    }
}

impl Lane {
    fn give(&self, order: Order, addresses: &[*mut u8]) {
        let mut orders = lock(&self.orders);
        orders.addresses.extend(addresses);
        orders.orders.push_back(order);
        drop(orders);
        self.bell.notify_all();
    }

    fn record(&self) -> u64 {
        let mut orders = lock(&self.orders);
        let event = orders.n_events;
        orders.n_events += 1;
        orders.orders.push_back(Order::Event(event));
        drop(orders);
        self.bell.notify_all();
        event
    }

    /// The next order, with the addresses of its call; none when there will be no more.
    fn take(&self, addresses: &mut Vec<*mut u8>) -> Option<Order> {
        let mut orders = lock(&self.orders);
        loop {
            if let Some(order) = orders.orders.pop_front() {
                addresses.clear();
                if let Order::Call { task, .. } = &order {
                    addresses.extend(orders.addresses.drain(..task.spec.args.len()));
                }
                return Some(order);
            }
            if orders.is_closed {
                return None;
            }
            orders = self.bell.wait(orders).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// How an event ended, if it has.
    fn poll(&self, event: u64) -> Result<Option<Over>> {
        if event >= self.n_over.load(Ordering::Acquire) {
            return Ok(None);
        }
        lock(&self.outcomes).remove(&event).unwrap_or(Ok(Over::default())).map(Some)
    }
}

impl Shared {
    /// Executes what a lane is given, one after the other.
    fn serve(&self, number: usize) {
        let lane = &self.lanes[number];
        let mut addresses = Vec::new();
        let mut lateness = Lateness::new(self.options.delay, number);
        // What has happened since the event before: when it began, and the first error.
        let (mut began, mut failure) = (None, None);
        while let Some(order) = lane.take(&mut addresses) {
            match order {
                Order::Event(event) => {
                    let now = ticks();
                    let times = Some((began.take().unwrap_or(now), now));
                    let outcome = failure.take().map_or(Ok(Over { times }), Err);
                    lock(&lane.outcomes).insert(event, outcome);
                    lane.n_over.store(event + 1, Ordering::Release);
                }
                work => {
                    began.get_or_insert_with(ticks);
                    lateness.spend(matches!(work, Order::Call { .. }));
                    // SAFETY: whoever gave the order vouched for its addresses until it is over, and the
                    // orders before are.
                    if let Err(error) = unsafe { work.execute(&addresses) } {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
    }
}

impl Order {
    /// # Safety
    /// As for the method of [`Device`] or [`Launch`] that gave the order, and everything before it is over.
    unsafe fn execute(self, addresses: &[*mut u8]) -> Result<()> {
        match self {
            Order::Call { task, scratch } => {
                let scratch = ptr::slice_from_raw_parts_mut(scratch, task.scratch_bytes);
                // SAFETY: the caller vouches for the addresses and the scratch.
                let call = unsafe { Call::new(&task.spec, addresses, scratch) };
                return call_kernel(task.kernel, &call);
            }
            Order::Copy { from, to, bytes } => {
                // SAFETY: the caller vouches for both addresses, which lie in different memories.
                unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
            }
            Order::Clear { at, bytes } => {
                // SAFETY: the caller vouches for the address.
                unsafe { at.write_bytes(0, bytes) };
            }
            Order::Event(_) => {}
        }
        Ok(())
    }
}

/// Lets time pass before orders.
struct Lateness {
    delay: Delay,
    state: u64,
}

impl Lateness {
    fn new(delay: Delay, seed: usize) -> Self {
        Lateness { delay, state: seed as u64 + 1 }
    }

    fn spend(&mut self, is_task: bool) {
        match self.delay {
            Delay::Fixed(pause) if is_task => thread::sleep(pause),
            Delay::Random(most) => {
                self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let draw = self.state >> 33;
                match draw % 8 {
                    0 => thread::sleep(most * (draw >> 3 & 255) as u32 / 255),
                    1..4 => thread::yield_now(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

// SAFETY: each lane executes its orders one after the other on its thread, and shows by `n_over`, which is
// stored with `Release` and loaded with `Acquire`, that those before an event have ended. Orders are given
// under the lock of the lane, so a copy out sees what the thread that asks for it has seen. Memory is given
// out once.
unsafe impl Device for QueueDevice {
    fn name(&self) -> &str {
        "the queue device"
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        let mut memory = lock(&self.shared.memory);
        let (used, limit) = (memory.used_bytes, self.shared.options.limit_bytes.unwrap_or(usize::MAX));
        let fits = used.checked_add(bytes).is_some_and(|all| all <= limit);
        let Some(piece) = fits.then(|| Bytes::zeroed(bytes)).flatten() else {
            let there = limit.saturating_sub(used);
            let message = format!(
                "cannot allocate {bytes} bytes of a queue device that has {there} left: use a smaller batch or fewer \
                 images"
            );
            return Err(Error::new(ErrorKind::Memory, message));
        };
        let address = piece.pointer();
        memory.pieces.insert(address as usize, piece);
        memory.used_bytes += bytes;
        memory.peak_bytes = memory.peak_bytes.max(memory.used_bytes);
        Ok(address)
    }

    unsafe fn free(&self, address: *mut u8, bytes: usize) {
        let mut memory = lock(&self.shared.memory);
        memory.pieces.remove(&(address as usize));
        memory.used_bytes -= bytes;
    }

    fn prepare(&self, task: &Task) -> Result<Box<dyn Launch>> {
        let ready = Ready { kernel: task.kernel, spec: task.spec.clone(), scratch_bytes: task.scratch_bytes };
        Ok(Box::new(QueueLaunch { shared: Arc::clone(&self.shared), task: Arc::new(ready) }))
    }

    unsafe fn clear(&self, at: *mut u8, bytes: usize) -> Result<()> {
        self.shared.lanes[MAIN].give(Order::Clear { at, bytes }, &[]);
        Ok(())
    }

    unsafe fn copy_in(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.shared.lanes[MAIN].give(Order::Copy { from, to, bytes }, &[]);
        Ok(())
    }

    unsafe fn copy_out(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<Event> {
        let lane = &self.shared.lanes[ASIDE];
        lane.give(Order::Copy { from, to, bytes }, &[]);
        Ok(Event(lane.record() << 1 | ASIDE as u64))
    }

    fn can_copy_from(&self, other: &dyn Device) -> bool {
        other.as_any().is::<QueueDevice>()
    }

    unsafe fn copy_from(&self, _: &dyn Device, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        self.shared.lanes[MAIN].give(Order::Copy { from, to, bytes }, &[]);
        Ok(())
    }

    fn record(&self) -> Result<Event> {
        Ok(Event(self.shared.lanes[MAIN].record() << 1 | MAIN as u64))
    }

    fn poll(&self, Event(number): Event) -> Result<Option<Over>> {
        self.shared.lanes[number as usize & 1].poll(number >> 1)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A task of a [`QueueDevice`].
struct QueueLaunch {
    shared: Arc<Shared>,
    task: Arc<Ready>,
}

// SAFETY: the kernel is called by the thread of the queue, in its turn.
unsafe impl Launch for QueueLaunch {
    unsafe fn launch(&self, addresses: &[*mut u8], scratch: *mut u8, _: u64) -> Result<()> {
        let order = Order::Call { task: Arc::clone(&self.task), scratch };
        self.shared.lanes[MAIN].give(order, addresses);
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn what_is_enqueued_is_done_in_order_and_over_when_its_event_is() {
        for delay in [Delay::None, Delay::Random(Duration::from_millis(1))] {
            let device = QueueDevice::with_options(QueueOptions { limit_bytes: None, delay }).unwrap();
            let (first, second) = (device.allocate(64).unwrap(), device.allocate(64).unwrap());
            let (ones, mut found) = ([1_u8; 64], [7_u8; 64]);
            // SAFETY: there are as many bytes at every address, in memory that lives until the events are
            // over, and nobody else uses it.
            unsafe {
                device.copy_in(ones.as_ptr(), first, 64).unwrap();
                let begun = device.record().unwrap();
                device.clear(first, 32).unwrap();
                let other: &dyn Device = &device;
                device.copy_from(other, first, second, 64).unwrap();
                let ended = device.record().unwrap();
                let over = [device.wait(begun).unwrap(), device.wait(ended).unwrap()];
                let times = over.map(|over| over.times.unwrap());
                assert!(times[0].0 <= times[0].1 && times[0].1 <= times[1].0 && times[1].0 <= times[1].1);
                let copied = device.copy_out(second, found.as_mut_ptr(), 64).unwrap();
                device.wait(copied).unwrap();
            }
            assert_eq!((&found[..32], &found[32..]), (&[0; 32][..], &[1; 32][..]));
            // SAFETY: all that was enqueued is over.
            unsafe {
                device.free(first, 64);
                device.free(second, 64);
            }
            assert_eq!((device.used_bytes(), device.peak_bytes()), (0, 128));
        }
    }

    #[test]
    fn memory_beyond_the_limit_is_refused() {
        let options = QueueOptions { limit_bytes: Some(100), ..QueueOptions::default() };
        let device = QueueDevice::with_options(options).unwrap();
        let piece = device.allocate(60).unwrap();
        let error = device.allocate(41).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.to_string().contains("has 40 left"), "{error}");
        // SAFETY: nothing was enqueued.
        unsafe { device.free(piece, 60) };
        assert!(device.allocate(100).is_ok());
    }
}
