//! Explores schedules of everything concurrent:
//! `cargo test -p dahl-runtime --release --features shuttle --test shuttle`.
//!
//! Each test runs many times under schedulers that decide at every synchronisation who goes on, so lost
//! wake-ups show up as deadlocks and missing dependencies as wrong values.
#![cfg(feature = "shuttle")]

mod kernels;

use dahl_runtime::array::{Array, Params, TileSize, submit};
use dahl_runtime::engine::bell::Bell;
use dahl_runtime::engine::queue::Queue;
use dahl_runtime::engine::{Pool, WorkSource};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Result, Runtime};
use kernels::{BLEND, COPY, FAIL, SHIFT};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

/// Runs `test` under random schedules and under schedules with few, random changes of priority.
fn explore(iterations: usize, test: fn()) {
    shuttle::check_random(test, iterations);
    shuttle::check_pct(test, iterations, 3);
}

/// Threads that are not pinned.
fn machine(n_workers: usize) -> Machine {
    let mut machine = Machine::with_workers(n_workers);
    machine.units.iter_mut().for_each(|unit| unit.core = None);
    machine
}

fn runtime(n_workers: usize) -> Runtime {
    Runtime::new(&machine(n_workers)).expect("a machine with CPU units")
}

fn scalars(scalars: &[f64]) -> Params<'_> {
    Params { scalars, ..Params::default() }
}

#[test]
fn a_bell_loses_no_wake_up() {
    explore(3000, || {
        let bell = Arc::new((Bell::default(), AtomicUsize::new(0)));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let bell = Arc::clone(&bell);
                thread::spawn(move || bell.0.sleep_until(|| bell.1.load(Ordering::Relaxed) == 2))
            })
            .collect();
        for _ in 0..2 {
            bell.1.fetch_add(1, Ordering::Relaxed);
            bell.0.ring();
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("no panic"));
    });
}

#[test]
fn a_queue_loses_and_duplicates_nothing() {
    explore(2000, || {
        let queue = Arc::new(Queue::new(2));
        let threads: Vec<_> = (0..2)
            .map(|producer| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let mut taken = Vec::new();
                    for i in 0..3 {
                        while queue.push(10 * producer + i).is_err() {
                            taken.extend(queue.pop());
                            thread::yield_now();
                        }
                        taken.extend(queue.pop());
                    }
                    taken
                })
            })
            .collect();
        let mut all: Vec<usize> = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
        all.extend(std::iter::from_fn(|| queue.pop()));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 10, 11, 12]);
        assert!(queue.is_empty());
    });
}

/// Hands out a number of pieces of work.
struct Pieces {
    left: AtomicUsize,
    done: AtomicUsize,
}

impl WorkSource for Pieces {
    fn poll(&self, _worker: usize) -> bool {
        let took = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if took {
            self.done.fetch_add(1, Ordering::SeqCst);
        }
        took
    }
    fn has_work(&self, _worker: usize) -> bool {
        self.left.load(Ordering::SeqCst) > 0
    }
}

#[test]
fn a_pool_serves_sources_that_come_and_go() {
    explore(1000, || {
        let pool = Pool::new(&machine(2)).unwrap();
        let pieces = || Arc::new(Pieces { left: AtomicUsize::new(0), done: AtomicUsize::new(0) });
        let (early, late) = (pieces(), pieces());
        let source: Arc<dyn WorkSource> = early.clone();
        pool.attach(source.clone());
        early.left.store(2, Ordering::SeqCst);
        pool.ring();
        while early.done.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        pool.detach(&source);
        pool.attach(late.clone());
        late.left.store(1, Ordering::SeqCst);
        pool.ring();
        while late.done.load(Ordering::SeqCst) < 1 {
            thread::yield_now();
        }
        drop(pool);
        assert_eq!((early.done.load(Ordering::SeqCst), late.done.load(Ordering::SeqCst)), (2, 1));
    });
}

#[test]
fn a_pool_without_work_stops() {
    explore(1000, || drop(Pool::new(&machine(3)).unwrap()));
}

fn dependent_tasks() -> Result<()> {
    let runtime = runtime(2);
    let arena = runtime.arena("work");
    let x = arena.filled([2, 2], 1.0f32)?;
    let mut y = arena.filled([2, 2], 0.0f32)?;
    submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[1.0]))?;
    for (x, mut y) in x.split(0, 2)?.zip(y.split_mut(0, 2)?) {
        submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
    }
    let mut z = arena.array::<f32, 2>([2, 2])?;
    submit(&COPY, "reference", &[&y], &mut [&mut z], Params::default())?;
    submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
    assert_eq!(z.to_vec()?, [2.0; 4]);
    assert_eq!(y.to_vec()?, [2.0; 4]);
    Ok(())
}

#[test]
fn dependent_tasks_run_in_order() {
    explore(1500, || dependent_tasks().expect("nothing fails"));
}

#[test]
fn threads_submit_side_by_side_and_the_queue_overflows() {
    explore(500, || {
        let runtime = Arc::new(runtime(2));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let runtime = Arc::clone(&runtime);
                thread::spawn(move || -> Result<()> {
                    let mut y = runtime.owned::<f32, 1>([6])?;
                    for _ in 0..2 {
                        for mut part in y.split_mut(0, 6)? {
                            submit(&SHIFT, "reference", &[], &mut [&mut part], scalars(&[1.0]))?;
                        }
                    }
                    assert_eq!(y.to_vec()?, [2.0; 6]);
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic").expect("nothing fails"));
        runtime.wait().expect("outside of tasks");
    });
}

fn reset_in_flight() -> Result<()> {
    let runtime = runtime(2);
    let mut total = runtime.owned::<f32, 2>([1, 2])?;
    let mut arena = runtime.arena("batch");
    for step in 0..4 {
        let x = arena.filled([1, 2], step as f32)?;
        let mut copy = arena.array::<f32, 2>([1, 2])?;
        submit(&COPY, "reference", &[&x], &mut [&mut copy], Params::default())?;
        submit(&BLEND, "reference", &[&copy], &mut [&mut total], scalars(&[0.0]))?;
        arena.reset()?;
    }
    drop(arena);
    assert_eq!(total.to_vec()?, [4.25; 2]);
    Ok(())
}

#[test]
fn an_arena_resets_under_tasks_in_flight() {
    explore(800, || reset_in_flight().expect("nothing fails"));
}

fn guards() -> Result<()> {
    let runtime = runtime(2);
    let mut x = runtime.owned::<f32, 1>([4])?;
    let mut y = runtime.owned::<f32, 1>([4])?;
    submit(&SHIFT, "reference", &[], &mut [&mut x], scalars(&[1.0]))?;
    submit(&SHIFT, "reference", &[], &mut [&mut y], scalars(&[5.0]))?;
    {
        let guard = x.read()?;
        submit(&SHIFT, "reference", &[], &mut [&mut y], scalars(&[1.0]))?;
        assert_eq!(guard[[3]], 1.0);
    }
    x.write()?[[0]] = 9.0;
    submit(&SHIFT, "reference", &[], &mut [&mut x], scalars(&[1.0]))?;
    let mut parts: Vec<Array<'_, f32, 1>> = x.split_mut(0, 2)?.collect();
    parts[1].write()?[[0]] = -1.0;
    assert_eq!(x.to_vec()?, [10.0, 2.0, -1.0, 2.0]);
    assert_eq!(y.to_vec()?, [6.0; 4]);
    Ok(())
}

#[test]
fn guards_wait_for_what_matters() {
    explore(1000, || guards().expect("nothing fails"));
}

fn parent_and_parts() -> Result<()> {
    let runtime = runtime(2);
    let mut x = runtime.owned::<f32, 1>([4])?;
    submit(&SHIFT, "reference", &[], &mut [&mut x], scalars(&[1.0]))?;
    let x = x.into_reshaped([2, 2])?;
    let mut y = runtime.owned::<f32, 2>([2, 2])?;
    {
        // The parent stays readable while tasks read its parts, and the guard lives on while they run.
        let before = x.read()?;
        for (from, mut to) in x.split(0, 2)?.zip(y.split_mut(0, 2)?) {
            submit(&BLEND, "reference", &[&from], &mut [&mut to], scalars(&[0.0]))?;
        }
        let during = x.read()?;
        assert_eq!((before[[1, 1]], during[[0, 0]]), (1.0, 1.0));
    }
    assert_eq!(y.to_vec()?, [1.0; 4]);
    Ok(())
}

#[test]
fn a_parent_is_read_while_tasks_read_its_parts() {
    explore(1000, || parent_and_parts().expect("nothing fails"));
}

fn partitions_in_turn() -> Result<()> {
    let runtime = runtime(2);
    let one = runtime.owned_from([2, 2], &[1.0f32; 4])?;
    let mut y = runtime.owned::<f32, 2>([2, 2])?;
    // Columns, then tiles, then the transposed whole: nobody waits in between, and each comes after what it
    // overlaps.
    for (from, mut to) in one.split(1, 2)?.zip(y.split_mut(1, 2)?) {
        submit(&BLEND, "reference", &[&from], &mut [&mut to], scalars(&[0.0]))?;
    }
    let tiles = [TileSize::Size(1), TileSize::Size(1)];
    for (k, (from, mut to)) in one.grid(tiles)?.zip(y.grid_mut(tiles)?).enumerate() {
        submit(&BLEND, "reference", &[&from], &mut [&mut to], scalars(&[k as f64]))?;
    }
    let mut turned = y.view_mut().into_transposed();
    submit(&BLEND, "reference", &[&one], &mut [&mut turned], scalars(&[0.0]))?;
    // A part first, then its parent.
    assert_eq!(y.split(0, 2)?.nth(1).expect("a row").to_vec()?, [2.75, 3.25]);
    assert_eq!(y.to_vec()?, [1.75, 2.25, 2.75, 3.25]);
    Ok(())
}

#[test]
fn partitions_follow_each_other_and_the_parent_follows_them() {
    explore(1000, || partitions_in_turn().expect("nothing fails"));
}

fn reset_under_parts() -> Result<()> {
    let runtime = runtime(2);
    let mut total = runtime.owned::<f32, 2>([2, 1])?;
    let mut arena = runtime.arena("batch");
    for step in 0..3 {
        let x = arena.filled([2, 1], step as f32)?;
        for (from, mut to) in x.split(0, 2)?.zip(total.split_mut(0, 2)?) {
            submit(&BLEND, "reference", &[&from], &mut [&mut to], scalars(&[0.0]))?;
        }
        // The parts are gone, their tasks may not be.
        arena.reset()?;
    }
    assert_eq!(total.to_vec()?, [2.5; 2]);
    Ok(())
}

#[test]
fn an_arena_resets_under_tasks_on_parts() {
    explore(800, || reset_under_parts().expect("nothing fails"));
}

fn failure() -> Result<()> {
    let runtime = runtime(2);
    let arena = runtime.arena("work");
    let x = arena.filled([2, 1], 1.0f32)?;
    let (mut y, mut z) = (arena.filled([2, 1], 0.0f32)?, arena.filled([2, 1], 0.0f32)?);
    submit(&FAIL, "reference", &[&x], &mut [&mut y], scalars(&[1.0]))?;
    submit(&BLEND, "reference", &[&y], &mut [&mut z], scalars(&[0.0]))?;
    assert!(z.read().is_err() && y.read().is_err());
    submit(&COPY, "reference", &[&x], &mut [&mut z], Params::default())?;
    assert_eq!(z.to_vec()?, [1.0; 2]);
    Ok(())
}

#[test]
fn failures_reach_whoever_depends_on_them() {
    explore(1000, || failure().expect("only the task fails"));
}

#[test]
fn owned_memory_outlives_its_name_and_the_runtime_waits_for_its_tasks() {
    explore(800, || {
        let runtime = runtime(2);
        for _ in 0..3 {
            let mut x = runtime.owned::<f32, 1>([4]).expect("memory");
            submit(&SHIFT, "reference", &[], &mut [&mut x], scalars(&[1.0])).expect("it fits");
            submit(&SHIFT, "reference", &[], &mut [&mut x], scalars(&[1.0])).expect("it fits");
        }
    });
}
