//! Submission allocates nothing once it has warmed up.
#![cfg(not(feature = "shuttle"))]

mod counting;
mod kernels;

use counting::n_allocations;
use dahl_runtime::array::{Array, Params, submit};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Result, Runtime};
use kernels::{BLEND, SHIFT};

const N_STEPS: usize = 600;

#[test]
fn a_steady_state_allocates_nothing() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2))?;
    let mut arena = runtime.arena("work");
    let mut counts = Vec::with_capacity(N_STEPS);
    let mut weights = runtime.owned::<f32, 2>([8, 8])?;
    for _ in 0..N_STEPS {
        let before = n_allocations();
        {
            let x = arena.array::<f32, 2>([8, 8])?;
            let mut y = arena.array::<f32, 1>([128])?;
            for round in 0..10 {
                let params = Params { scalars: &[f64::from(round)], ..Params::default() };
                submit(&BLEND, "reference", &[&x], &mut [&mut weights], params)?;
                for mut part in y.split_mut(0, 16)? {
                    submit(&SHIFT, "reference", &[], &mut [&mut part], params)?;
                }
                let whole: &mut Array<'_, f32, 1> = &mut y;
                submit(&SHIFT, "reference", &[], &mut [whole], params)?;
            }
        }
        arena.reset()?;
        runtime.wait()?;
        counts.push(n_allocations() - before);
    }
    // Left are the list of tasks that a reset waits for, and lists of successors that grow when a slot has
    // more of them than ever before: far less than one in a hundred tasks, and fewer and fewer.
    let late: usize = counts[N_STEPS - 100..].iter().sum();
    assert!(late < 100 * 180 / 100, "allocations per step of 180 tasks: {counts:?}");
    Ok(())
}
