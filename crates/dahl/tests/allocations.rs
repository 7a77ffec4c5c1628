//! After the first steps, running allocates nothing, on no thread.

#![expect(unsafe_code, reason = "a global allocator that counts")]

use dahl::model::Sequential;
use dahl::train::{Schedule, Trainer};
use dahl::{dataset, random::Stream};
use dahl_runtime::machine::Machine;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Allocations of a run of so many steps, all set-up included.
fn allocations(schedule: Schedule, test_unit: bool, steps: usize) -> usize {
    let data = dataset::digits();
    let batch = Stream::new(1, 1).permutation(data.train.len())[..60].to_vec();
    let batches = vec![batch; steps];
    let machine = Machine::with_workers(2);
    let machine = if test_unit { machine.with_test_unit() } else { machine };
    let mut model = Sequential::seed([1, 8, 8], 10);
    model.initialise(1).expect("the model is sound");
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let dump = Trainer::new(&machine).schedule(schedule).replay_batches(&mut model, &data, &batches);
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert_eq!(dump.expect("training works").losses.len(), steps);
    after - before
}

#[test]
fn a_step_allocates_nothing() {
    for schedule in Schedule::ALL {
        for test_unit in [false, true] {
            let few = allocations(schedule, test_unit, 100);
            let many = allocations(schedule, test_unit, 1100);
            // A thousand losses are collected in a vector that doubles, which is the test's own doing, and
            // what a worker does for the first time it may have done in the long run only.
            let own = 20;
            assert!(
                many <= few + own,
                "{schedule:?}, test unit {test_unit}: {} for 1,000 more steps",
                many - few
            );
        }
    }
}
