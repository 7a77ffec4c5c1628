//! Submission, arrays, arenas and guards, from the outside.
#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::{Array, Owned, Params, submit};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::machine::Machine;
use dahl_runtime::{Error, ErrorKind, Result, Runtime};
use kernels::{BLEND, COPY, FAIL, MATMUL, SHIFT, count_up, random};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn runtime(n_workers: usize) -> Runtime {
    Runtime::new(&Machine::with_workers(n_workers)).expect("a machine with CPU units")
}

fn scalars(scalars: &[f64]) -> Params<'_> {
    Params { scalars, ..Params::default() }
}

/// A part of a matrix: the numbers of the cuts and of the part along both dimensions.
struct Tile {
    cuts: [usize; 2],
    part: [usize; 2],
}

const SIZE: usize = 12;

impl Tile {
    fn random(state: &mut u64, cuts: [usize; 2]) -> Self {
        Tile { cuts, part: cuts.map(|n| random(state, n)) }
    }

    /// The index in the whole of an index in the part.
    fn index(&self, i: usize, j: usize) -> usize {
        let start = |dim: usize| self.part[dim] * SIZE / self.cuts[dim];
        (start(0) + i) * SIZE + start(1) + j
    }
}

/// Runs a random program of tasks on parts of three matrices, and the same program on vectors.
fn random_program(runtime: &Runtime, mut state: u64) -> Result<()> {
    let arena = runtime.arena("program");
    let initial: Vec<f32> = count_up(SIZE * SIZE);
    let mut arrays = Vec::new();
    for _ in 0..3 {
        arrays.push(arena.array_from([SIZE, SIZE], &initial)?);
    }
    let mut expected = vec![initial; 3];
    for step in 0..200 {
        let from = random(&mut state, 3);
        let to = (from + 1 + random(&mut state, 2)) % 3;
        let cuts = [[1, 1], [2, 1], [4, 1], [1, 3], [1, 4], [3, 2]][random(&mut state, 6)];
        let (source, target) = (Tile::random(&mut state, cuts), Tile::random(&mut state, cuts));
        let k = [step as f64 / 8.0];
        let [x, y] = arrays.get_disjoint_mut([from, to]).expect("two different arrays");
        let band = x.split(0, cuts[0])?.nth(source.part[0]).expect("a band");
        let input = band.split(1, cuts[1])?.nth(source.part[1]).expect("a tile");
        let mut band = y.split_mut(0, cuts[0])?.nth(target.part[0]).expect("a band");
        let mut output = band.split_mut(1, cuts[1])?.nth(target.part[1]).expect("a tile");
        let codelet = if random(&mut state, 4) == 0 { &COPY } else { &BLEND };
        submit(codelet, "reference", &[&input], &mut [&mut output], scalars(&k))?;
        for i in 0..SIZE / cuts[0] {
            for j in 0..SIZE / cuts[1] {
                let x = expected[from][source.index(i, j)];
                let y = &mut expected[to][target.index(i, j)];
                *y = if std::ptr::eq(codelet, &COPY) { x } else { *y / 2.0 + x + k[0] as f32 };
            }
        }
        if random(&mut state, 20) == 0 {
            let which = random(&mut state, 3);
            assert_eq!(arrays[which].to_vec()?, expected[which], "array {which} after step {step}");
        }
        if random(&mut state, 30) == 0 {
            let (which, index) = (random(&mut state, 3), random(&mut state, SIZE));
            arrays[which].write()?[[index, index]] = 7.0;
            expected[which][index * SIZE + index] = 7.0;
        }
    }
    for (array, expected) in arrays.iter().zip(&expected) {
        assert_eq!(array.to_vec()?, *expected);
    }
    Ok(())
}

#[test]
fn random_programs_give_the_values_of_sequential_execution() -> Result<()> {
    for n_workers in [1, 2, 4] {
        let runtime = runtime(n_workers);
        for seed in 0..60 {
            random_program(&runtime, seed)?;
        }
    }
    Ok(())
}

#[test]
fn threads_submit_side_by_side() -> Result<()> {
    let runtime = runtime(2);
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let spawn = |seed| {
            scope.spawn({
                let runtime = &runtime;
                move || random_program(runtime, seed)
            })
        };
        let threads: Vec<_> = (100..104).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    results.into_iter().collect()
}

#[test]
fn matrices_multiply_by_tiles_and_accumulate() -> Result<()> {
    let runtime = runtime(2);
    let arena = runtime.arena("work");
    let a = arena.array_from([4, 6], &count_up::<f32>(24))?;
    let b = arena.array_from([6, 4], &count_up::<f32>(24))?;
    let mut c = arena.filled([4, 4], 99.0f32)?;
    for (depth, (a, b)) in a.split(1, 3)?.zip(b.split(0, 3)?).enumerate() {
        for (a, mut c) in a.split(0, 2)?.zip(c.split_mut(0, 2)?) {
            for (b, mut c) in b.split(1, 4)?.zip(c.split_mut(1, 4)?) {
                let params = Params { accumulate: depth > 0, ..Params::default() };
                submit(&MATMUL, "reference", &[&a, &b], &mut [&mut c], params)?;
            }
        }
    }
    let c = c.read()?;
    for i in 0..4 {
        for j in 0..4 {
            let sum: usize = (0..6).map(|k| (i * 6 + k) * (k * 4 + j)).sum();
            assert_eq!(c[[i, j]], sum as f32);
        }
    }
    Ok(())
}

#[test]
fn a_failure_poisons_what_depends_on_it_and_nothing_else() -> Result<()> {
    for (how, word) in [(1.0, "asked to fail"), (2.0, "a kernel panicked: asked to panic")] {
        let runtime = runtime(2);
        let arena = runtime.arena("work");
        let x = arena.filled([4, 4], 1.0f32)?;
        let (mut y, mut z) = (arena.filled([4, 4], 0.0f32)?, arena.filled([4, 4], 0.0f32)?);
        let mut halves: Vec<Array<'_, f32, 2>> = y.split_mut(0, 2)?.collect();
        let part = x.split(0, 2)?.next().expect("a half");
        submit(&FAIL, "reference", &[&part], &mut [&mut halves[1]], scalars(&[how]))?;
        submit(&BLEND, "reference", &[&part], &mut [&mut halves[0]], scalars(&[1.0]))?;
        submit(&BLEND, "reference", &[&y], &mut [&mut z], scalars(&[1.0]))?;

        let first = y.split(0, 2)?.next().expect("a half");
        assert_eq!(first.read()?[[0, 0]], 2.0, "the other half is sound");
        for error in [y.read().map(|_| ()).unwrap_err(), z.read().map(|_| ()).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Task);
            let text = error.to_string();
            for part in [word, "fail (reference) on x[2,4], y[2,4]", "worker ", "tests/submit.rs:"] {
                assert!(text.contains(part), "`{part}` is missing in: {text}");
            }
        }
        assert!(z.write().is_err());

        // What is overwritten without being read is sound again.
        submit(&COPY, "reference", &[&x], &mut [&mut z], Params::default())?;
        assert_eq!(z.read()?[[3, 3]], 1.0);
        submit(&COPY, "reference", &[&x], &mut [&mut y], Params::default())?;
        assert_eq!(y.read()?[[3, 3]], 1.0);
    }
    Ok(())
}

#[test]
fn mistakes_are_found_at_submission() -> Result<()> {
    let (runtime, other) = (runtime(1), runtime(1));
    let (arena, far) = (runtime.arena("work"), other.arena("far"));
    let x = arena.zeros::<f32, 2>([4, 4])?;
    let mut narrow = arena.zeros::<f32, 2>([4, 3])?;
    let mut y = arena.zeros::<f32, 2>([4, 4])?;
    let mut doubles = arena.zeros::<f64, 2>([4, 4])?;
    let mut away = far.zeros::<f32, 2>([4, 4])?;
    let none = Params::default();
    let kind = |result: Result<()>| result.map_err(|error| error.kind());
    assert_eq!(kind(submit(&COPY, "reference", &[&x], &mut [&mut narrow], none)), Err(ErrorKind::Shape));
    assert_eq!(kind(submit(&COPY, "reference", &[], &mut [&mut y], none)), Err(ErrorKind::Shape));
    assert_eq!(kind(submit(&COPY, "magic", &[&x], &mut [&mut y], none)), Err(ErrorKind::Usage));
    assert_eq!(kind(submit(&COPY, "reference", &[&x], &mut [&mut doubles], none)), Err(ErrorKind::Usage));
    assert_eq!(kind(submit(&COPY, "reference", &[&x], &mut [&mut away], none)), Err(ErrorKind::Usage));
    let text = submit(&COPY, "reference", &[&x], &mut [&mut narrow], none).unwrap_err().to_string();
    assert!(text.contains("copy") && text.contains("tests/submit.rs:"), "{text}");
    assert!(x.split(2, 2).is_err() && x.split(0, 0).is_err() && x.tiles(1, 0).is_err());
    assert!(arena.array_from([3], &[1.0f32]).is_err());
    assert!(arena.array::<f32, 2>([usize::MAX, 2]).is_err());
    assert!(x.into_reshaped([5]).is_err());
    Ok(())
}

static KEPT: Mutex<Option<Owned<f32, 1>>> = Mutex::new(None);

#[test]
fn reading_inside_of_a_task_is_an_error() -> Result<()> {
    static PEEK: Codelet = Codelet::new(
        "peek",
        "y[i] -> y[i]",
        0.0,
        &[Implementation::new("reference", 1, dahl_runtime::array::Dtype::F32, Needs::Nothing, peek)],
    );
    fn peek(_: &Call<'_>) -> Result<()> {
        let kept = KEPT.lock().expect("not poisoned").take();
        kept.map_or(Err(Error::new(ErrorKind::Io, "nothing kept")), |kept| kept.read().map(|_| ()))
    }
    let runtime = runtime(1);
    *KEPT.lock().expect("not poisoned") = Some(runtime.owned([4])?);
    let mut y = runtime.owned::<f32, 1>([4])?;
    submit(&PEEK, "reference", &[], &mut [&mut y], Params::default())?;
    assert_eq!(y.read().map(|_| ()).unwrap_err().kind(), ErrorKind::Usage);

    // A task that drops the last name of its runtime must not wait for itself.
    let lonely = Runtime::new(&Machine::with_workers(1))?;
    let mut z = lonely.owned::<f32, 1>([4])?;
    *KEPT.lock().expect("not poisoned") = Some(lonely.owned([4])?);
    submit(&PEEK, "reference", &[], &mut [&mut z], Params::default())?;
    drop((z, lonely));
    Ok(())
}

#[test]
fn column_tiles_are_read_and_written_by_index() -> Result<()> {
    let runtime = runtime(2);
    let arena = runtime.arena("work");
    let mut x = arena.array_from([3, 4], &count_up::<f32>(12))?;
    for (column, mut tile) in x.split_mut(1, 2)?.enumerate() {
        assert!(!tile.is_contiguous());
        {
            let mut guard = tile.write()?;
            assert!(guard.as_mut_slice().is_none());
            assert_eq!(guard[[2, 1]], (9 + 2 * column) as f32);
            guard[[2, 1]] = -1.0;
        }
        assert_eq!(format!("{:.0}", tile.read()?).lines().count(), 3);
        assert!(tile.to_owned()?.is_contiguous());
        assert!(tile.into_flat().is_err());
    }
    assert_eq!(x.to_vec()?, [0., 1., 2., 3., 4., 5., 6., 7., 8., -1., 10., -1.]);
    Ok(())
}

#[test]
#[should_panic(expected = "index [1, 4] is outside of the shape [2, 4]")]
fn an_index_outside_panics() {
    let runtime = runtime(1);
    let x = runtime.owned::<f32, 2>([2, 4]).expect("memory");
    let guard = x.read().expect("nothing failed");
    let _ = guard[[1, 4]];
}

#[test]
fn a_reshaped_array_keeps_its_dependencies() -> Result<()> {
    let runtime = runtime(2);
    let arena = runtime.arena("work");
    let x = arena.filled([8, 6], 1.0f32)?;
    for _ in 0..50 {
        let mut y = arena.filled([8, 6], 0.0f32)?;
        for (x, mut y) in x.split(0, 4)?.zip(y.split_mut(0, 4)?) {
            submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
        }
        // Parts of the flat array that do not follow the rows of the matrix.
        let mut flat = y.into_flat()?;
        for mut part in flat.split_mut(0, 5)? {
            submit(&SHIFT, "reference", &[], &mut [&mut part], scalars(&[2.0]))?;
        }
        let mut square = flat.into_reshaped([4, 12])?;
        for mut part in square.split_mut(1, 3)? {
            part.write()?[[0, 0]] += 1.0;
        }
        let square = square.read()?;
        let expected = |i: usize| if i < 12 && i.is_multiple_of(4) { 4.0 } else { 3.0 };
        assert_eq!(square.to_vec(), (0..48).map(expected).collect::<Vec<f32>>());
    }
    Ok(())
}

#[test]
fn an_arena_stops_growing_and_resets_under_tasks_in_flight() -> Result<()> {
    let runtime = runtime(2);
    let mut total = runtime.owned::<f32, 2>([16, 16])?;
    let mut arena = runtime.arena("batch");
    let mut capacities = Vec::new();
    for step in 0..30 {
        let x = arena.filled([16, 16], 1.0f32)?;
        let mut copy = arena.array::<f32, 2>([16, 16])?;
        let filler = arena.array::<u8, 1>([100_000])?;
        assert!(filler.read()?.as_slice().is_some_and(|slice| slice.as_ptr().addr().is_multiple_of(64)));
        submit(&COPY, "reference", &[&x], &mut [&mut copy], Params::default())?;
        for (x, mut y) in copy.split(0, 4)?.zip(total.split_mut(0, 4)?) {
            submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[f64::from(step % 2)]))?;
        }
        arena.reset()?;
        capacities.push(arena.capacity_bytes());
    }
    assert!(capacities[2..].iter().all(|&bytes| bytes == capacities[2]), "{capacities:?}");
    let expected = (0..30).fold(0.0f32, |y, step| y / 2.0 + 1.0 + (step % 2) as f32);
    assert_eq!(total.to_vec()?, vec![expected; 256]);
    Ok(())
}

#[test]
fn memory_is_given_back_when_its_tasks_are_done() -> Result<()> {
    let runtime = runtime(2);
    for _ in 0..20 {
        let x = runtime.owned_from([64, 64], &[1.0f32; 4096])?;
        let mut y = runtime.owned::<f32, 2>([64, 64])?;
        let arena = runtime.arena("short");
        let mut z = arena.array::<f32, 2>([64, 64])?;
        submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
        submit(&BLEND, "reference", &[&y], &mut [&mut z], scalars(&[0.0]))?;
    }
    runtime.wait()?;
    assert_eq!(runtime.n_bytes(), 0);
    Ok(())
}

#[test]
#[expect(clippy::forget_non_drop, reason = "that forgetting changes nothing is the point")]
fn forgetting_is_harmless() -> Result<()> {
    let runtime = runtime(2);
    let mut arena = runtime.arena("work");
    for _ in 0..10 {
        let x = arena.filled([4, 4], 1.0f32)?;
        let mut y = runtime.owned::<f32, 2>([4, 4])?;
        std::mem::forget(x.read()?);
        std::mem::forget(y.write()?);
        std::mem::forget(y.split_mut(0, 2)?);
        y.split_mut(0, 2)?.for_each(std::mem::forget);
        submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
        assert_eq!(y.read()?[[0, 0]], 1.0);
        submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[0.0]))?;
        std::mem::forget((x, y));
        arena.reset()?;
    }
    std::mem::forget(arena);
    Ok(())
}

#[test]
fn owners_may_exchange_their_arrays() -> Result<()> {
    let runtime = runtime(1);
    let leaked = Box::leak(Box::new(runtime.arena("leaked")));
    let mut long = leaked.filled([2], 1.0f32)?;
    let mut owned = runtime.owned_from([2], &[5.0f32, 6.0])?;
    std::mem::swap(&mut long, &mut *owned);
    assert_eq!(owned.to_vec()?, [1.0, 1.0]);
    drop(owned);
    let _others: Vec<Owned<f32, 1>> = (0..8).map(|_| runtime.owned([2])).collect::<Result<_>>()?;
    assert_eq!(long.to_vec()?, [5.0, 6.0], "the memory lives as long as its new name");
    Ok(())
}

#[test]
fn units_with_a_memory_of_their_own_take_no_task() -> Result<()> {
    let runtime = Runtime::new(&Machine::with_workers(2).with_test_unit())?;
    random_program(&runtime, 5)?;
    let error = Runtime::new(&Machine::with_workers(1).with_test_unit()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    Ok(())
}

#[test]
fn more_tasks_than_the_queue_holds_and_a_runtime_that_goes_before_them() -> Result<()> {
    for n_workers in [1, 2] {
        let runtime = runtime(n_workers);
        let arena = runtime.arena("work");
        let mut y = arena.zeros::<f32, 1>([10_000])?;
        for _ in 0..3 {
            for mut part in y.tiles_mut(0, 1)? {
                submit(&SHIFT, "reference", &[], &mut [&mut part], scalars(&[1.0]))?;
            }
        }
        if n_workers == 1 {
            assert!(y.read()?.as_slice().is_some_and(|slice| slice.iter().all(|&y| y == 3.0)));
        }
    }
    Ok(())
}

#[test]
fn printing_never_waits_without_being_asked() -> Result<()> {
    let runtime = runtime(1);
    let x = runtime.owned_from([2, 2], &[1.0f32, -2.0, 3.25, 4.0])?;
    assert_eq!(format!("{x:?}"), "Array f32[2,2]");
    assert_eq!(format!("{:.2}", x.read()?), "[[ 1.00 -2.00]\n [ 3.25  4.00]]");
    Ok(())
}

/// How far the test of urgent tasks is: a task waits for the gate, and says that it has started.
static GATE_IS_OPEN: AtomicBool = AtomicBool::new(false);
static HAS_STARTED: AtomicBool = AtomicBool::new(false);
static N_TURNS: AtomicU32 = AtomicU32::new(0);
/// Notes when it was its turn; where `x` is 0, waits until the gate opens.
static TURN: Codelet = Codelet::new("turn", "x[i] -> y[i]", 1.0, &[kernels::reference(turn)]);

fn turn(call: &Call<'_>) -> Result<()> {
    let (x, mut y) = (call.input::<f32>(0), call.output::<f32>(0));
    HAS_STARTED.store(true, Ordering::Release);
    while x.at([0]) == 0.0 && !GATE_IS_OPEN.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    y.set([0], N_TURNS.fetch_add(1, Ordering::AcqRel) as f32);
    Ok(())
}

#[test]
fn urgent_tasks_go_first_and_cancelled_ones_not_at_all() {
    let runtime = runtime(1);
    let arena = runtime.arena("work");
    let numbers: Vec<_> = (0..4u8).map(|i| arena.array_from([1], &[f32::from(i)]).unwrap()).collect();
    let mut turns: Vec<_> = (0..4).map(|_| arena.filled([1], -1.0f32).unwrap()).collect();
    let mut submit_turn = |i: usize, urgent: bool| {
        let params = Params { urgent, ..Params::default() };
        submit(&TURN, "reference", &[&numbers[i]], &mut [&mut turns[i]], params).unwrap();
        // The only worker is held by the first one before anything else is ready.
        while i == 0 && !HAS_STARTED.swap(false, Ordering::AcqRel) {
            std::thread::yield_now();
        }
    };
    (0..4).for_each(|i| submit_turn(i, i == 3));
    GATE_IS_OPEN.store(true, Ordering::Release);
    runtime.wait().unwrap();

    GATE_IS_OPEN.store(false, Ordering::Release);
    HAS_STARTED.store(false, Ordering::Release);
    let order: Vec<f32> = turns.iter().map(|y| y.read().unwrap()[[0]]).collect();
    assert_eq!(order, [0.0, 2.0, 3.0, 1.0]);

    let mut submit_turn = |i: usize| {
        submit(&TURN, "reference", &[&numbers[i]], &mut [&mut turns[i]], Params::default()).unwrap();
        while i == 0 && !HAS_STARTED.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    submit_turn(0);
    submit_turn(1);
    runtime.cancel();
    submit_turn(2);
    GATE_IS_OPEN.store(true, Ordering::Release);
    assert_eq!(turns[0].read().unwrap()[[0]], 4.0);
    let error = turns[1].read().expect_err("it was cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(error.to_string().contains("turn"), "{error}");
    assert_eq!(turns[2].read().unwrap()[[0]], 5.0);
}

#[test]
fn submitted_tasks_are_traced_if_somebody_asks() -> Result<()> {
    let options = dahl_runtime::runtime::Options { trace_capacity: 64, ..Default::default() };
    let runtime = Runtime::with_options(&Machine::with_workers(2), options)?;
    let arena = runtime.arena("work");
    let (x, mut y) = (arena.filled([4, 4], 1.0f32)?, arena.filled([4, 4], 0.0f32)?);
    let mut z = arena.filled([8], 0.0f32)?;
    for _ in 0..10 {
        submit(&BLEND, "reference", &[&x], &mut [&mut y], scalars(&[1.0]))?;
        submit(&SHIFT, "reference", &[], &mut [&mut z], scalars(&[1.0]))?;
    }
    let trace = runtime.take_trace()?;
    let events: Vec<_> = trace.workers.iter().flatten().collect();
    assert_eq!((events.len(), trace.total_dropped()), (20, 0));
    for (codelet, bytes) in [("blend", 128), ("shift", 32)] {
        let tasks = events.iter().map(|event| &trace.scene.tasks[event.task as usize]);
        let of = tasks.filter(|task| (task.codelet.as_str(), task.bytes) == (codelet, bytes));
        assert_eq!(of.count(), 10, "{codelet}");
    }
    assert!(runtime.take_trace()?.workers.iter().all(Vec::is_empty));

    // Only the newest are kept.
    for _ in 0..300 {
        submit(&SHIFT, "reference", &[], &mut [&mut z], scalars(&[1.0]))?;
    }
    let trace = runtime.take_trace()?;
    let kept: usize = trace.workers.iter().map(Vec::len).sum();
    assert!(trace.workers.iter().all(|events| events.len() <= 64));
    assert_eq!(kept as u64 + trace.total_dropped(), 300);
    assert!(Runtime::new(&Machine::with_workers(1))?.take_trace()?.workers.iter().all(Vec::is_empty));
    Ok(())
}
