//! Looking out for busy cores allocates nothing, whatever is found.

#![cfg(not(feature = "shuttle"))]

mod counting;

use counting::n_allocations;
use dahl_runtime::engine::{Lookout, Pool};
use dahl_runtime::machine::Machine;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn looking_out_allocates_nothing() {
    let pool = Arc::new(Pool::new(&Machine::with_workers(1)).unwrap());
    match Lookout::new(&pool) {
        None => eprintln!("skipped: this system does not tell what threads get of their cores"),
        Some(mut lookout) => {
            let before = n_allocations();
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(3));
                lookout.look(1);
            }
            assert_eq!(n_allocations(), before);
        }
    }
    let begun = Instant::now();
    let tell = move |waited: &mut [Duration]| {
        waited.fill(begun.elapsed() / 2);
        Some(Duration::ZERO)
    };
    let Some(mut lookout) = Lookout::told_by(&pool, Box::new(tell)) else {
        return eprintln!("skipped: threads are not pinned on this system");
    };
    let before = n_allocations();
    while lookout.look(1).is_none() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(n_allocations(), before);
}
