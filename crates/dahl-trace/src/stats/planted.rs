//! Traces in which something was planted, and what is found of it.

use super::{By, Factor, SlowReason, Statistics};
use dahl_runtime::codelet::{Call, Codelet, Implementation, Needs};
use dahl_runtime::error::Result;
use dahl_runtime::machine::{Level, Peaks};
use dahl_runtime::shape::Dtype;
use dahl_runtime::trace::{Event, Scene, TaskInfo, Trace, WorkerInfo};
use std::sync::Arc;

/// A trace of `steps` steps: each codelet has a tile on every worker, and an execution takes what `ticks`
/// says.
struct Plan<'a> {
    /// Name, implementation, footprint, whether it is cold, and flops.
    tasks: &'a [(&'a str, &'a str, &'a str, bool, f64)],
    n_workers: usize,
    n_steps: u32,
    seed: u64,
}

impl Plan<'_> {
    fn trace(&self, ticks: impl Fn(&TaskInfo, usize, u32) -> f64) -> Trace {
        let mut scene = Scene {
            workers: vec![WorkerInfo { kind: "cpu".into(), ..WorkerInfo::default() }; self.n_workers],
            memories: vec!["host".into()],
            ..Scene::default()
        };
        for &(codelet, implementation, footprint, is_cold, flops) in self.tasks {
            scene.tasks.extend((0..self.n_workers).map(|worker| TaskInfo {
                codelet: codelet.into(),
                implementation: implementation.into(),
                version: 1,
                dtype: "f32".into(),
                footprint: footprint.into(),
                is_cold,
                tile: (worker, self.n_workers),
                bytes: 1000,
                flops,
                worker: Some(worker),
                ..TaskInfo::default()
            }));
        }
        let mut state = self.seed;
        let mut workers = vec![Vec::new(); self.n_workers];
        let mut now = vec![0_u64; self.n_workers];
        for step in 0..self.n_steps {
            for (task, info) in scene.tasks.iter().enumerate() {
                let worker = task % self.n_workers;
                // Noise of a few per cent.
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let noise = 1.0 + 0.06 * ((state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5);
                let start = now[worker];
                let end = start + (ticks(info, worker, step) * noise).round() as u64;
                workers[worker].push(Event { task: task as u32, step, start, end });
                now[worker] = end + 10;
            }
        }
        Trace {
            transfers: vec![Vec::new(); self.n_workers + 1],
            n_dropped: vec![0; self.n_workers + 1],
            scene: Arc::new(scene),
            workers,
            ticks_per_second: 1e9,
            ..Trace::default()
        }
    }
}

/// Five codelets, one of them with two shapes.
const TASKS: &[(&str, &str, &str, bool, f64)] = &[
    ("load", "fast", "8", true, 0.0),
    ("conv", "fast", "8x8", false, 1e6),
    ("conv", "fast", "16x16", false, 4e6),
    ("pool", "fast", "8x8", false, 1e4),
    ("dense", "fast", "100x10", false, 5e5),
    ("sgd", "fast", "1000", false, 1e3),
];

fn plan(n_workers: usize, seed: u64) -> Plan<'static> {
    Plan { tasks: TASKS, n_workers, n_steps: 200, seed }
}

/// What the codelets take when nothing is wrong.
fn usual(task: &TaskInfo) -> f64 {
    match (task.codelet.as_str(), task.footprint.as_str()) {
        ("conv", "8x8") => 20_000.0,
        ("conv", _) => 80_000.0,
        ("dense", _) => 10_000.0,
        _ => 5_000.0,
    }
}

#[test]
fn rows_add_up_and_have_the_rates_of_their_tasks() {
    let trace = plan(2, 1).trace(|task, _, _| usual(task));
    let statistics = Statistics::of(&trace);
    for (by, n) in [(By::Codelet, 5), (By::Shape, 6), (By::Worker, 10), (By::Tile, 12), (By::Temperature, 5)]
    {
        let rows = statistics.rows(by, None);
        assert_eq!(rows.len(), n, "{by:?}");
        assert_eq!(rows.iter().map(|row| row.n).sum::<usize>(), statistics.n_executions());
        let all: f64 = rows.iter().map(|row| row.seconds).sum();
        assert!((all - statistics.kernel_seconds()).abs() < 1e-9 * all);
        assert!(rows.windows(2).all(|pair| pair[0].share >= pair[1].share), "{by:?}");
        assert!(rows.iter().all(|row| row.detail.is_empty() == (by == By::Codelet)));
        let shares: f64 = rows.iter().map(|row| row.share).sum();
        let outside = statistics.idle_seconds() / (statistics.idle_seconds() + all);
        assert!((shares + outside - 1.0).abs() < 1e-9 && outside > 0.0);
    }
    let memory = Level { name: "memory".into(), bytes: None, is_own: false, bytes_per_second: 1e9 };
    let peaks = Peaks { flops_f32: 100e9, flops_f64: 50e9, levels: vec![memory] };
    let rows = statistics.rows(By::Shape, Some(&peaks));
    let conv = &rows[0];
    assert_eq!((conv.codelet.as_str(), conv.detail.as_str()), ("conv", "16x16"));
    assert!((conv.median - 80e-6).abs() < 2e-6 && (conv.mean - 80e-6).abs() < 2e-6, "{conv:?}");
    assert!((conv.flops_per_second - 50e9).abs() < 1e9, "{conv:?}");
    assert!((conv.bytes_per_second - 12.5e6).abs() < 1e6, "{conv:?}");
    assert!((conv.peak.unwrap() - 0.5).abs() < 0.01, "{conv:?}");
    assert!(conv.deviation > 0.0 && conv.deviation < 0.03 * conv.median, "{conv:?}");
    // A load moves 1000 bytes, at best in a microsecond.
    let load = rows.iter().find(|row| row.codelet == "load").unwrap();
    assert!((load.peak.unwrap() - 0.2).abs() < 0.01, "{load:?}");
}

#[test]
fn an_empty_trace_has_nothing_to_say() {
    let trace = Trace::default();
    let statistics = Statistics::of(&trace);
    assert!(statistics.rows(By::Codelet, None).is_empty());
    assert!(statistics.variations().is_empty() && statistics.slow_workers().is_empty());
    assert!(statistics.phases().is_empty());
    assert!(statistics.slow_implementations(&Peaks::nominal(), &[]).is_empty());
    assert!(statistics.against(&statistics).changes.is_empty());
}

#[test]
fn where_nothing_is_planted_nothing_is_found() {
    for n_workers in [1, 2, 5] {
        let trace = plan(n_workers, 7).trace(|task, _, _| usual(task));
        let statistics = Statistics::of(&trace);
        assert_eq!(statistics.slow_workers(), []);
        assert_eq!(statistics.phases(), []);
        assert_eq!(statistics.slow_implementations(&Peaks::nominal(), &[]), []);
        // Only the codelet with two shapes varies, and only by shape.
        let found = statistics.variations();
        assert_eq!(found.iter().map(|it| it.codelet.as_str()).collect::<Vec<_>>(), ["conv"]);
        let [cause] = &found[0].causes[..] else { panic!("{found:?}") };
        assert_eq!(cause.factor, Factor::Shape);
        assert_eq!((cause.slowest.as_str(), cause.fastest.as_str()), ("16x16", "8x8"));
        assert!(cause.share > 0.9 && (cause.ratio - 4.0).abs() < 0.1, "{cause:?}");
    }
}

#[test]
fn a_slow_worker_is_found_and_said_to_be_the_cause() {
    for n_workers in [2, 4] {
        let trace =
            plan(n_workers, 3).trace(|task, worker, _| usual(task) * if worker == 1 { 1.38 } else { 1.0 });
        let statistics = Statistics::of(&trace);
        let found = statistics.slow_workers();
        let [slow] = &found[..] else { panic!("{found:?}") };
        assert!(slow.is_slower() && slow.worker == 1, "{slow:?}");
        assert!((slow.ratio - 1.38).abs() < 0.03, "{slow:?}");
        assert_eq!((slow.n_slower, slow.n_codelets), (5, 5));
        for variation in statistics.variations() {
            let causes = &variation.causes;
            let by_worker = causes.iter().find(|cause| cause.factor == Factor::Worker).unwrap();
            assert_eq!(by_worker.slowest, "worker 1");
            assert!((by_worker.ratio - 1.38).abs() < 0.05, "{by_worker:?}");
            assert!(causes.iter().all(|cause| cause.factor != Factor::Tile), "{variation:?}");
        }
    }
}

#[test]
fn a_worker_that_is_interrupted_is_found_although_its_medians_are_as_usual() {
    // Every 20th execution on worker 0 lasts ten times as long: a third of its time.
    let is_long = |task: &TaskInfo, worker: usize, step: u32| {
        worker == 0 && (step as usize + task.codelet.len()).is_multiple_of(20)
    };
    let trace = plan(2, 4)
        .trace(|task, worker, step| usual(task) * if is_long(task, worker, step) { 10.0 } else { 1.0 });
    let statistics = Statistics::of(&trace);
    let found = statistics.slow_workers();
    let [slow] = &found[..] else { panic!("{found:?}") };
    assert!(slow.worker == 0 && !slow.is_slower(), "{slow:?}");
    assert!((slow.lost - 0.3).abs() < 0.05 && slow.lost_by_others < 0.01, "{slow:?}");
    let variations = statistics.variations();
    let dense = variations.iter().find(|it| it.codelet == "dense").unwrap();
    let cause = dense.causes.iter().find(|cause| cause.factor == Factor::Interruption).unwrap();
    assert!((cause.ratio - 10.0).abs() < 1.0 && cause.slowest == "10 of 400 executions", "{cause:?}");
}

#[test]
fn cold_tiles_are_told_from_warm_ones() {
    let tasks = [("copy", "fast", "8", true, 0.0), ("copy", "fast", "8", false, 0.0)];
    let plan = Plan { tasks: &tasks, ..plan(2, 5) };
    let trace = plan.trace(|task, _, _| if task.is_cold { 9000.0 } else { 3000.0 });
    let found = Statistics::of(&trace).variations();
    let [cause] = &found[0].causes[..] else { panic!("{found:?}") };
    assert_eq!((cause.factor, cause.slowest.as_str()), (Factor::Temperature, "cold"));
    assert!(cause.share > 0.9 && (cause.ratio - 3.0).abs() < 0.1, "{cause:?}");
}

#[test]
fn a_task_that_another_worker_takes_over_is_cold() {
    let mut trace = plan(2, 5).trace(|task, _, _| usual(task));
    let is_warm = |task: &TaskInfo| task.codelet == "dense" && task.worker == Some(1);
    let taken = trace.scene.tasks.iter().position(is_warm).unwrap();
    let (kept, moved) = trace.workers[1].iter().partition(|event| event.task as usize != taken);
    trace.workers[1] = kept;
    let moved: Vec<Event> = moved;
    trace.workers[0].extend(moved);
    let rows = Statistics::of(&trace).rows(By::Temperature, None);
    let n = |detail: &str| {
        rows.iter().find(|row| row.codelet == "dense" && row.detail == detail).map_or(0, |row| row.n)
    };
    assert_eq!((n("cold"), n("warm")), (200, 200));
}

#[test]
fn a_phase_of_the_machine_is_found_with_its_steps() {
    // The first half is slower, on all workers; the last eighth on worker 1 only.
    let slow = |worker: usize, step: u32| step < 100 || (worker == 1 && step >= 175);
    let trace =
        plan(2, 6).trace(|task, worker, step| usual(task) * if slow(worker, step) { 1.5 } else { 1.0 });
    let statistics = Statistics::of(&trace);
    let found = statistics.phases();
    assert_eq!(found[0].workers, [0, 1]);
    assert_eq!(found[0].steps.0, 0);
    assert!((90..=110).contains(&found[0].steps.1) && (found[0].ratio - 1.5).abs() < 0.1, "{found:?}");
    assert!(found[1..].iter().all(|phase| phase.workers == [1] && phase.steps.1 >= 190), "{found:?}");
    let variations = statistics.variations();
    let dense = variations.iter().find(|it| it.codelet == "dense").unwrap();
    assert_eq!(dense.causes[0].factor, Factor::Time, "{dense:?}");
}

#[test]
fn a_slow_implementation_is_found_beside_a_faster_one_and_far_from_the_peak() {
    let tasks = [TASKS, &[("dense", "slow", "100x10/strided", false, 5e5)]].concat();
    let beside = Plan { tasks: &tasks, ..plan(2, 8) };
    let is_slow = |task: &TaskInfo| task.implementation == "slow";
    let trace = beside.trace(|task, _, _| usual(task) * if is_slow(task) { 6.0 } else { 1.0 });
    let found = Statistics::of(&trace).slow_implementations(&Peaks::nominal(), &[]);
    let [slow] = &found[..] else { panic!("{found:?}") };
    assert_eq!((slow.codelet.as_str(), slow.implementation.as_str()), ("dense", "slow"));
    let SlowReason::Beside { other, ratio } = &slow.reason else { panic!("{slow:?}") };
    assert!(other == "fast" && (ratio - 6.0).abs() < 0.3, "{slow:?}");

    // Copies of different sizes are not the same work, although neither computes anything.
    let mut trace = trace;
    for task in &mut Arc::make_mut(&mut trace.scene).tasks {
        task.flops = 0.0;
        task.bytes = if is_slow(task) { 9000 } else { 1000 };
    }
    let found = Statistics::of(&trace).slow_implementations(&Peaks::nominal(), &[]);
    assert_eq!(found, []);

    // Alone, it can only be seen from how far it is from the machine.
    let trace = plan(2, 9).trace(|task, _, _| usual(task) * if task.codelet == "pool" { 100.0 } else { 1.0 });
    let found = Statistics::of(&trace).slow_implementations(&Peaks::nominal(), &[]);
    let [slow] = &found[..] else { panic!("{found:?}") };
    assert_eq!(slow.codelet, "pool");
    assert!(matches!(slow.reason, SlowReason::FarFromPeak { times } if times > 10.0), "{slow:?}");
}

fn nothing(_: &Call<'_>) -> Result<()> {
    Ok(())
}

const fn implementation(name: &'static str, dtype: Dtype) -> Implementation {
    Implementation::new(name, 1, dtype, Needs::Nothing, nothing)
}

static CONV: Codelet = Codelet::new(
    "conv",
    "x[i] -> y[i]",
    1.0,
    &[
        implementation("fast", Dtype::F32),
        implementation("faster", Dtype::F32),
        implementation("f64", Dtype::F64),
    ],
);

#[test]
fn a_reference_is_named_where_there_is_something_better_for_its_element_type() {
    // The first implementation is the reference, whatever its name.
    let trace = plan(2, 9).trace(|task, _, _| usual(task));
    let found = Statistics::of(&trace).slow_implementations(&Peaks::nominal(), &[&CONV]);
    let [slow] = &found[..] else { panic!("{found:?}") };
    assert_eq!(slow.reason, SlowReason::Reference { others: vec!["faster".to_string()] });
}

#[test]
fn a_run_against_itself_has_not_changed() {
    let trace = plan(2, 10).trace(|task, _, _| usual(task));
    let statistics = Statistics::of(&trace);
    let against = statistics.against(&statistics);
    assert_eq!(against.changes.len(), 6);
    assert!(against.changes.iter().all(|change| !change.is_changed && change.ratio == 1.0));
    assert!(against.only_here.is_empty() && against.only_there.is_empty() && against.common == 1.0);
}

#[test]
fn noise_is_no_change_and_nor_is_a_machine_that_is_slower_as_a_whole() {
    let there = plan(2, 11).trace(|task, _, _| usual(task));
    for (seed, factor) in [(12, 1.0), (13, 1.0), (14, 1.0), (15, 1.25), (16, 0.8)] {
        let here = plan(2, seed).trace(|task, _, _| usual(task) * factor);
        let against = Statistics::of(&here).against(&Statistics::of(&there));
        assert!(against.changes.iter().all(|change| !change.is_changed), "{against:?}");
        assert!((against.common / factor - 1.0).abs() < 0.01, "{against:?}");
    }
}

#[test]
fn phases_within_the_runs_are_no_change() {
    // One run is slow for a while at the beginning, the other at the end, and for different lengths.
    let slow = |is_slow: bool| if is_slow { 1.4 } else { 1.0 };
    let there = plan(2, 17).trace(|task, _, step| usual(task) * slow(step < 60));
    let here = plan(2, 18).trace(|task, _, step| usual(task) * slow(step >= 80));
    let against = Statistics::of(&here).against(&Statistics::of(&there));
    assert!(against.changes.iter().all(|change| !change.is_changed), "{against:?}");
}

#[test]
fn a_codelet_that_became_slower_or_faster_is_found_and_no_other() {
    let there = plan(2, 19).trace(|task, _, _| usual(task));
    for factor in [1.3, 0.7] {
        let is_other = |task: &TaskInfo| task.codelet == "dense";
        let here = plan(2, 20).trace(|task, _, _| usual(task) * if is_other(task) { factor } else { 1.0 });
        let against = Statistics::of(&here).against(&Statistics::of(&there));
        let changed: Vec<_> = against.changes.iter().filter(|change| change.is_changed).collect();
        let [change] = &changed[..] else { panic!("{against:?}") };
        assert_eq!(change.of.codelet, "dense");
        let (low, high) = change.interval.unwrap();
        assert!(low < factor && factor < high && high / low < 1.1, "{change:?}");
        assert!(change.visible_from.is_some_and(|from| from < 1.2), "{change:?}");
    }
}

#[test]
fn a_codelet_that_is_most_of_a_run_is_not_taken_for_what_is_common() {
    let there = plan(2, 24).trace(|task, _, _| usual(task));
    let is_conv = |task: &TaskInfo| task.codelet == "conv";
    let here = plan(2, 25).trace(|task, _, _| usual(task) * if is_conv(task) { 20.0 } else { 1.0 });
    for (a, b) in [(&here, &there), (&there, &here)] {
        let against = Statistics::of(a).against(&Statistics::of(b));
        let changed: Vec<&str> = against
            .changes
            .iter()
            .filter(|change| change.is_changed)
            .map(|change| change.of.codelet.as_str())
            .collect();
        assert_eq!(changed, ["conv", "conv"], "{against:?}");
        assert!((against.common - 1.0).abs() < 0.02, "{against:?}");
    }
}

#[test]
fn what_only_one_run_has_is_named() {
    let few = Plan { tasks: &TASKS[1..], ..plan(2, 21) }.trace(|task, _, _| usual(task));
    let all = plan(2, 22).trace(|task, _, _| usual(task));
    let against = Statistics::of(&few).against(&Statistics::of(&all));
    assert!(against.only_here.is_empty());
    let [only] = &against.only_there[..] else { panic!("{against:?}") };
    assert_eq!((only.of.codelet.as_str(), only.n, only.of.is_cold), ("load", 400, true));
    // A handful of executions is not enough to say anything.
    let short = Plan { n_steps: 2, ..plan(2, 23) }.trace(|task, _, _| 2.0 * usual(task));
    let against = Statistics::of(&short).against(&Statistics::of(&all));
    assert!(against.changes.iter().all(|change| !change.is_changed && change.interval.is_none()));
}

#[test]
fn the_same_trace_says_the_same_to_the_last_bit() {
    // Many groups with sums whose last bits depend on the order of adding.
    let tasks: Vec<(String, String)> =
        (0..40).map(|i| (format!("c{}", i % 3), format!("shape {i}"))).collect();
    let tasks: Vec<(&str, &str, &str, bool, f64)> =
        tasks.iter().map(|(c, shape)| (c.as_str(), "lanes", shape.as_str(), false, 1.0)).collect();
    let plan = Plan { tasks: &tasks, n_workers: 3, n_steps: 20, seed: 9 };
    let trace = plan.trace(|task, worker, step| {
        (700 + 13 * task.footprint.len() + 101 * worker) as f64 * if step % 7 == 3 { 3.1 } else { 1.0 }
    });
    let found = || {
        let statistics = Statistics::of(&trace);
        let rows: Vec<_> = [By::Codelet, By::Shape, By::Worker, By::Tile, By::Temperature]
            .map(|by| statistics.rows(by, Some(&Peaks::nominal())))
            .into();
        let variations = statistics.variations();
        assert!(variations.iter().any(|it| !it.causes.is_empty()), "there is something to sum up");
        let workers = statistics.compare_workers();
        let slow = statistics.slow_implementations(&Peaks::nominal(), &[]);
        format!("{rows:?} {variations:?} {workers:?} {:?} {slow:?}", statistics.phases())
    };
    let first = found();
    for _ in 0..10 {
        assert_eq!(found(), first);
    }
}
