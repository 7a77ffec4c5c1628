//! A process grows by the memory that was planned. Alone in its file: tests of one file share their process.

#![cfg(target_os = "linux")]

use dahl::model::Sequential;
use dahl::train::Event;
use dahl::{Trainer, dataset};
use dahl_runtime::machine::Machine;
use std::ops::ControlFlow;

/// Resident bytes of this process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells");
    let line = text.lines().find(|line| line.starts_with("Rss:")).expect("the resident set is listed");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
    kib.expect("a number of KiB") * 1024
}

/// Everything that a run takes, from before its first allocation to the end of its last step, was planned
/// before.
#[test]
fn a_run_takes_the_memory_that_was_planned() -> dahl::Result<()> {
    let data = dataset::open("synthetic:3x32x32:640", &dataset::Options::default())?;
    for name in ["vggish", "resnet8"] {
        let mut model = Sequential::builtin(name, data.shape, data.classes)?;
        model.initialise(1)?;
        let trainer = Trainer::new(&Machine::with_workers(2)).batch(64).epochs(2).trace_capacity(0);
        // Planning needs memory of its own for a moment, which the allocator keeps.
        trainer.make_plans(&model, &data)?;
        let before = resident_bytes();
        let mut after = 0;
        let report = trainer.fit_with(&mut model, &data, |event| {
            if let Event::Epoch(_) = event {
                after = resident_bytes();
            }
            ControlFlow::Continue(())
        })?;
        let grown = after - before;
        // The images are used where they lay before.
        let images = [&data.train, &data.test].map(|split| split.n_bytes() as usize + split.len());
        let planned = report.planned_bytes - images.iter().sum::<usize>();
        println!("{name}: {planned} bytes planned, {grown} bytes taken");
        assert!(grown.abs_diff(planned) <= planned / 10, "{name}: {planned} bytes planned, {grown} taken");
    }
    Ok(())
}
