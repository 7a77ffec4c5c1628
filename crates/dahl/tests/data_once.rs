//! Images that lie in memory lie there once: training takes them from where they are.

#![expect(unsafe_code, reason = "a global allocator that counts")]

use dahl::dataset::{Dataset, Split};
use dahl::model::Sequential;
use dahl::train::Trainer;
use dahl_runtime::machine::Machine;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

/// Bytes that are allocated now, and the most that ever were.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn count(layout: Layout) {
    let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator unchanged. What is not overridden goes through
// these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

#[test]
fn training_does_not_copy_the_images() {
    const N: usize = 200_000;
    let shape = [1, 8, 8];
    let split = |n: usize| Split::new(vec![7; n * 64], vec![1; n]).expect("as many pixels as there are");
    let (name, class_names) = ("grey".to_string(), Vec::new());
    let data = Dataset { name, shape, classes: 10, class_names, train: split(N), test: split(20) };
    let mut model = Sequential::seed(shape, 10);
    let trainer = Trainer::new(&Machine::with_workers(2)).max_steps(Some(2)).trace_capacity(0);
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    trainer.fit(&mut model, &data).expect("training works");
    let (grown, bytes) = (MOST.load(Ordering::Relaxed) - before, N * 64);
    // The order of the images alone is a sixteenth of them, and there while the next one is made.
    assert!(grown < bytes / 2, "training took {grown} bytes beside {bytes} of images");
}
