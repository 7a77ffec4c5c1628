//! Images read ahead of their use: threads decode while the trainer computes.
//!
//! Readers draw *tickets* from one counter. Ticket `t` is the `t`-th image of the order and goes into slot
//! `t mod n_slots` of a ring, and the consumer empties the slots by ticket, too. So what is delivered is the
//! order and nothing else: neither the number of threads nor who is faster can change it, and an image that
//! cannot be read is an error at its own place.
//!
//! Invariants: `delivered <= taken <= delivered + n_slots`, so a slot has one ticket at a time; memory is
//! bounded by the ring, whatever the size of the data set. A reader without room sleeps until half of the
//! ring is free, so that readers do not wake up for every single image, or until the consumer waits.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::split::Split;
use crate::error::{Error, Result};
use crate::memory;

/// About how much is read ahead.
const AHEAD_BYTES: usize = 64 << 20;

/// The least and the most images that are read ahead per thread, where the bytes would give fewer or more.
const AHEAD_PER_THREAD: (usize, usize) = (4, 2048);

/// The images of a split in a given order, read ahead by threads of its own ([`Split::batches`]).
pub struct Batches {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    waited: Duration,
}

struct Shared {
    split: Split,
    state: Mutex<State>,
    /// A reader may go on.
    room: Condvar,
    /// The awaited ticket is in its slot.
    ready: Condvar,
}

struct State {
    order: Box<dyn Iterator<Item = u32> + Send>,
    slots: Vec<Slot>,
    /// Tickets that readers have drawn.
    taken: u64,
    /// Tickets that the consumer has had.
    delivered: u64,
    /// Whether the order is at its end, so that no more tickets are drawn.
    has_ended: bool,
    is_closed: bool,
    /// Readers that sleep.
    n_resting: usize,
    /// Whether the consumer sleeps until the ticket `delivered` is ready.
    is_awaited: bool,
}

enum Slot {
    Empty(Vec<u8>),
    /// A reader or the consumer has the memory.
    Away,
    Ready(Vec<u8>, u8),
    Failed(Error),
}

impl Batches {
    pub(super) fn new(split: Split, order: Box<dyn Iterator<Item = u32> + Send>, n_threads: usize) -> Self {
        let n_threads = n_threads.max(1);
        let (least, most) = AHEAD_PER_THREAD;
        let n_slots = (AHEAD_BYTES / split.image_bytes().max(1)).clamp(least * n_threads, most * n_threads);
        let state = State {
            order,
            slots: (0..n_slots).map(|_| Slot::Empty(Vec::new())).collect(),
            taken: 0,
            delivered: 0,
            has_ended: false,
            is_closed: false,
            n_resting: 0,
            is_awaited: false,
        };
        let shared =
            Arc::new(Shared { split, state: Mutex::new(state), room: Condvar::new(), ready: Condvar::new() });
        let spawn = |i: usize| {
            let shared = Arc::clone(&shared);
            // A machine that has no more threads to give is served by those that there are, or by none.
            thread::Builder::new().name(format!("dahl-read-{i}")).spawn(move || shared.read_all()).ok()
        };
        let threads = (0..n_threads).filter_map(spawn).collect();
        Batches { shared, threads, waited: Duration::ZERO }
    }

    /// Writes the next `labels.len()` images, waiting for those that are not read yet.
    ///
    /// # Errors
    ///
    /// An image that cannot be read is an error that names its file; what comes after it can still be had.
    /// Asking for more images than the order has is an error, and so are `pixels` of another size than that
    /// many images.
    pub fn next_into(&mut self, pixels: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let image_bytes = self.shared.split.image_bytes();
        if pixels.len() != labels.len() * image_bytes {
            return Err(Error::setting(format!(
                "expected room for {} images of {image_bytes} bytes, but it is for {} bytes",
                labels.len(),
                pixels.len()
            )));
        }
        if self.threads.is_empty() {
            return Err(Error::setting("expected threads to read images on, but the system gave none"));
        }
        let mut state = self.shared.lock();
        for (i, label) in labels.iter_mut().enumerate() {
            let at = (state.delivered % state.slots.len() as u64) as usize;
            if !matches!(state.slots[at], Slot::Ready(..) | Slot::Failed(_)) {
                let start = Instant::now();
                state = self.shared.wait(state, at)?;
                self.waited += start.elapsed();
            }
            let slot = mem::replace(&mut state.slots[at], Slot::Away);
            let (memory, outcome) = match slot {
                Slot::Ready(memory, of) => {
                    drop(state);
                    pixels[i * image_bytes..(i + 1) * image_bytes].copy_from_slice(&memory);
                    *label = of;
                    state = self.shared.lock();
                    (memory, Ok(()))
                }
                Slot::Failed(error) => (Vec::new(), Err(error)),
                Slot::Empty(memory) => (memory, Ok(())),
                Slot::Away => (Vec::new(), Ok(())),
            };
            state.slots[at] = Slot::Empty(memory);
            state.delivered += 1;
            outcome?;
        }
        if state.n_resting > 0 && 2 * state.n_free() >= state.slots.len() as u64 {
            self.shared.room.notify_all();
        }
        Ok(())
    }

    /// How long the consumer has waited in [`Batches::next_into`] for images that were not read yet, in
    /// total.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The most images that are read ahead.
    pub fn n_ahead(&self) -> usize {
        self.shared.lock().slots.len()
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // A reader that panicked has nothing more to say than what its hook printed.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Slots without a ticket.
    fn n_free(&self) -> u64 {
        self.slots.len() as u64 - (self.taken - self.delivered)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done where a panic is possible: the order may panic, and then it has ended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until slot `at`, which is that of the next ticket, has its image.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, at: usize) -> Result<MutexGuard<'a, State>> {
        loop {
            if matches!(state.slots[at], Slot::Ready(..) | Slot::Failed(_)) {
                return Ok(state);
            }
            if state.has_ended && state.delivered == state.taken {
                return Err(Error::setting(format!(
                    "expected at most the {} images of the order, but one more was asked for",
                    state.taken
                )));
            }
            if state.n_resting > 0 {
                self.room.notify_all();
            }
            state.is_awaited = true;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.is_awaited = false;
        }
    }

    /// What a reader does until the order has ended or nobody wants more.
    fn read_all(&self) {
        let mut state = self.lock();
        loop {
            if state.is_closed || state.has_ended {
                return;
            }
            if state.n_free() == 0 {
                state.n_resting += 1;
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.n_resting -= 1;
                continue;
            }
            // Until the next image is known there is none, also if the order panics.
            state.has_ended = true;
            let Some(image) = state.order.next() else {
                // The consumer may wait for what will never come.
                self.ready.notify_all();
                return;
            };
            state.has_ended = false;
            let ticket = state.taken;
            state.taken += 1;
            let at = (ticket % state.slots.len() as u64) as usize;
            let slot = mem::replace(&mut state.slots[at], Slot::Away);
            drop(state);
            let memory = if let Slot::Empty(memory) = slot { memory } else { Vec::new() };
            let slot = self.read(image as usize, memory);
            state = self.lock();
            state.slots[at] = slot;
            if state.is_awaited && ticket == state.delivered {
                self.ready.notify_all();
            }
        }
    }

    fn read(&self, image: usize, mut memory: Vec<u8>) -> Slot {
        let n_bytes = self.split.image_bytes();
        if memory.is_empty() {
            memory = match memory::zeros(n_bytes, "an image") {
                Ok(memory) => memory,
                Err(sentence) => return Slot::Failed(Error::setting(sentence)),
            };
        }
        match self.split.read_into(image, &mut memory) {
            Ok(()) => Slot::Ready(memory, self.split.labels()[image]),
            Err(error) => Slot::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::{ImageSource, Split};
    use crate::error::{Error, Result};
    use crate::random::Stream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Images of 5 pixels that are made slowly and unevenly; some cannot be read.
    struct Slow {
        bad: Vec<usize>,
        n_read: Arc<AtomicUsize>,
    }

    impl ImageSource for Slow {
        fn read(&self, image: usize, pixels: &mut [u8]) -> Result<()> {
            self.n_read.fetch_add(1, Ordering::SeqCst);
            if image % 7 == 3 {
                std::thread::sleep(Duration::from_micros(200));
            }
            if self.bad.contains(&image) {
                return Err(Error::data("bad.png", format!("image {image} is damaged")));
            }
            assert!(image != 999, "a fault of ours");
            pixels.fill(image as u8);
            Ok(())
        }

        fn place(&self, image: usize) -> String {
            format!("slow {image}")
        }
    }

    fn slow(n: usize, bad: &[usize]) -> (Split, Arc<AtomicUsize>) {
        let n_read = Arc::new(AtomicUsize::new(0));
        let source = Slow { bad: bad.to_vec(), n_read: Arc::clone(&n_read) };
        let labels = (0..n).map(|i| (i % 10) as u8).collect();
        (Split::from_source(source, labels, 5), n_read)
    }

    #[test]
    fn the_order_is_delivered_whatever_the_number_of_threads() {
        let order: Vec<u32> = (0..3).flat_map(|epoch| Stream::new(1, epoch).permutation(250)).collect();
        for n_threads in [0, 1, 2, 5, 16] {
            let (split, _) = slow(250, &[]);
            let mut batches = split.batches(order.clone(), n_threads);
            let (mut pixels, mut labels) = (vec![0; 5 * 60], vec![0; 60]);
            for expected in order.chunks(60) {
                let n = expected.len();
                batches.next_into(&mut pixels[..5 * n], &mut labels[..n]).unwrap();
                for (i, &image) in expected.iter().enumerate() {
                    assert_eq!(pixels[5 * i..5 * i + 5], [image as u8; 5], "{n_threads} threads");
                    assert_eq!(u32::from(labels[i]), image % 10);
                }
            }
            let message = batches.next_into(&mut pixels[..5], &mut labels[..1]).unwrap_err().to_string();
            assert!(message.contains("at most the 750 images"), "{message}");
        }
    }

    #[test]
    fn a_damaged_image_is_an_error_in_its_place_and_the_rest_is_delivered() {
        let (split, _) = slow(100, &[41]);
        let mut batches = split.batches(0..100, 3);
        let (mut pixels, mut labels) = (vec![0; 50], vec![0; 10]);
        for _ in 0..4 {
            batches.next_into(&mut pixels, &mut labels).unwrap();
        }
        let message = batches.next_into(&mut pixels, &mut labels).unwrap_err().to_string();
        assert_eq!(message, "bad.png: image 41 is damaged");
        batches.next_into(&mut pixels, &mut labels).unwrap();
        assert_eq!((pixels[0], labels[0]), (42, 2));
    }

    #[test]
    fn an_image_that_does_not_exist_and_a_panic_are_errors() {
        let (split, _) = slow(1000, &[]);
        let mut batches = split.batches([1, 1000, 999, 2], 2);
        let (mut pixels, mut labels) = ([0; 5], [0; 1]);
        batches.next_into(&mut pixels, &mut labels).unwrap();
        let message = batches.next_into(&mut pixels, &mut labels).unwrap_err().to_string();
        assert!(message.contains("below 1000"), "{message}");
        let message = batches.next_into(&mut pixels, &mut labels).unwrap_err().to_string();
        assert!(message.contains("slow 999") && message.contains("a fault of ours"), "{message}");
        batches.next_into(&mut pixels, &mut labels).unwrap();
        assert_eq!(pixels, [2; 5]);
    }

    #[test]
    fn only_so_many_images_are_read_ahead_and_dropping_ends_the_readers() {
        let (split, n_read) = slow(1_000_000, &[]);
        let mut batches = split.batches(0..1_000_000, 2);
        let n_ahead = batches.n_ahead();
        assert!(n_ahead < 10_000);
        batches.next_into(&mut [0; 15], &mut [0; 3]).unwrap();
        while n_read.load(Ordering::SeqCst) < n_ahead {
            std::thread::yield_now();
        }
        drop(batches);
        // Three were delivered; the readers may have gone on by as many.
        assert!(n_read.load(Ordering::SeqCst) <= n_ahead + 3);
    }

    #[test]
    fn room_of_another_size_is_refused() {
        let (split, _) = slow(10, &[]);
        let mut batches = split.batches(0..10, 1);
        assert!(batches.next_into(&mut [0; 9], &mut [0; 2]).is_err());
        batches.next_into(&mut [], &mut []).unwrap();
        batches.next_into(&mut [0; 10], &mut [0; 2]).unwrap();
    }

    #[test]
    fn images_in_memory_are_delivered_alike() {
        let split = Split::new((0..12).collect(), vec![7, 8, 9]).unwrap();
        let mut batches = split.batches([2, 0], 2);
        let (mut pixels, mut labels) = ([0; 8], [0; 2]);
        batches.next_into(&mut pixels, &mut labels).unwrap();
        assert_eq!((pixels, labels), ([8, 9, 10, 11, 0, 1, 2, 3], [9, 7]));
    }
}
