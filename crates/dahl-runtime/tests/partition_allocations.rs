//! Cutting an array, working on its parts and reading it allocate nothing once every partition has followed
//! every other one.
#![cfg(not(feature = "shuttle"))]

mod counting;
mod kernels;

use counting::n_allocations;
use dahl_runtime::array::{Params, TileSize, submit};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Result, Runtime};
use kernels::{BLEND, COPY, IS_OPEN, WAIT};
use std::sync::atomic::Ordering;

const N_ROUNDS: usize = 50;

#[test]
fn partitions_that_come_back_allocate_nothing() -> Result<()> {
    // One worker: each prepares itself with its first task, and when a second one gets its first is left to
    // chance.
    let runtime = Runtime::new(&Machine::with_workers(1))?;
    let mut x = runtime.owned_from([18, 10], &[1.0f32; 180])?;
    let mut y = runtime.owned::<f32, 2>([16, 8])?;
    let none = Params { scalars: &[0.0], ..Params::default() };
    let mut counts = Vec::with_capacity(N_ROUNDS);
    for round in 0..N_ROUNDS {
        let before = n_allocations();
        // All tasks follow one that waits until they are submitted, so that each round has as many tasks in
        // flight as any other, however fast the worker is.
        IS_OPEN.store(false, Ordering::Release);
        submit(&WAIT, "reference", &[], &mut [&mut x], none)?;
        // Tiles, bands of tiles, and columns, one partition after the other.
        let grid = [TileSize::Size(8), TileSize::Count(2)];
        for (from, mut to) in x.view().into_region([1..17, 1..9])?.grid(grid)?.zip(y.grid_mut(grid)?) {
            submit(&BLEND, "reference", &[&from], &mut [&mut to], none)?;
        }
        for (from, mut band) in x.view().into_region([0..16, 0..8])?.split(0, 3)?.zip(y.split_mut(0, 3)?) {
            for (from, mut to) in from.split(1, 2)?.zip(band.split_mut(1, 2)?) {
                submit(&BLEND, "reference", &[&from], &mut [&mut to], none)?;
            }
        }
        for (from, mut to) in y.tiles(1, 3)?.zip(x.view_mut().into_region([1..17, 1..9])?.tiles_mut(1, 3)?) {
            submit(&COPY, "reference", &[&from], &mut [&mut to], none)?;
        }
        IS_OPEN.store(true, Ordering::Release);
        // Both whole arrays, although they were used in parts.
        let value = x.read()?[[8, 4]];
        assert_eq!(y.read()?[[7, 3]], value, "round {round}");
        counts.push(n_allocations() - before);
        runtime.wait()?;
    }
    assert!(counts[0] > 0, "the allocator counts");
    // A list of readers that comes from another cell may be too short, now and then; which one that is, is a
    // matter of time. Anything that was allocated for each task or part would be there many times in every
    // round.
    let later: usize = counts[1..].iter().sum();
    assert!(later < N_ROUNDS, "allocations per round: {counts:?}");
    Ok(())
}
