//! Resident memory is flat over 100,000 steps.

#![cfg(target_os = "linux")]

use dahl::model::Sequential;
use dahl::train::Event;
use dahl::{Trainer, dataset};
use dahl_runtime::machine::Machine;
use std::ops::ControlFlow;

/// Resident pages of this process.
fn resident_pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    text.split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("the second number is the resident set")
}

#[test]
fn a_hundred_thousand_steps_take_no_more_memory_than_two_epochs() {
    let data = dataset::digits();
    // Small batches, so that there are many steps and few epochs: the report of an epoch takes a little
    // memory.
    let steps_per_epoch = data.train.len().div_ceil(4);
    let epochs = 100_000_usize.div_ceil(steps_per_epoch);
    let mut model = Sequential::seed(data.shape, data.classes);
    let mut pages = Vec::with_capacity(epochs);
    let trainer = Trainer::new(&Machine::with_workers(2)).sgd(0.01).batch(4).epochs(epochs);
    trainer
        .fit_with(&mut model, &data, |event| {
            if let Event::Epoch(_) = event {
                pages.push(resident_pages());
            }
            ControlFlow::Continue(())
        })
        .expect("training works");
    let (second, largest, last) = (pages[1], pages.iter().max().copied().unwrap_or(0), pages[epochs - 1]);
    println!(
        "resident pages: {second} after the second epoch, {largest} at most, {last} after epoch {epochs}"
    );
    // Less than two bytes per step: the reports of some hundred epochs, which are kept.
    assert!(largest <= second + 32, "grew from {second} to {largest} pages");
}
