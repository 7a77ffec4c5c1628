//! What is learned from a trace.

use super::*;
use dahl_runtime::perf::{Basis, MAX_WARM_UP, observe};
use dahl_runtime::trace::{Dispatch, Event, Scene, TaskInfo, Trace, WorkerInfo};
use std::sync::Arc;

/// A trace at a nanosecond per tick: `nanos(worker, task, step)` for every execution of two tasks by their
/// workers.
fn trace(
    n_steps: u32,
    n_workers: usize,
    tasks: Vec<TaskInfo>,
    nanos: impl Fn(usize, u32, u32) -> u64,
) -> Trace {
    let workers = vec![WorkerInfo { kind: "cpu".into(), ..WorkerInfo::default() }; n_workers];
    let mut events = vec![Vec::new(); n_workers];
    for (worker, events) in events.iter_mut().enumerate() {
        let mut now = 0;
        for step in 0..n_steps {
            for (task, info) in tasks.iter().enumerate() {
                if info.worker.is_some_and(|planned| planned != worker) {
                    continue;
                }
                let (start, task) = (now, task as u32);
                now += nanos(worker, task, step);
                events.push(Event { task, step, start, end: now });
                now += 100;
            }
        }
    }
    let scene = Scene { workers, tasks, dispatch: Dispatch::Planned, ..Scene::default() };
    Trace { scene: Arc::new(scene), workers: events, ticks_per_second: 1e9, ..Trace::default() }
}

fn task(footprint: &str, is_cold: bool, worker: usize) -> TaskInfo {
    TaskInfo {
        codelet: "conv2d".into(),
        implementation: "lanes".into(),
        algorithm: String::new(),
        version: 1,
        dtype: "f32".into(),
        footprint: footprint.into(),
        is_cold,
        tile: (0, 1),
        bytes: 4096,
        flops: 1e6,
        worker: Some(worker),
        line: String::new(),
        scopes: Vec::new(),
    }
}

fn summary(trace: &Trace, footprint: &str, condition: Condition) -> Summary {
    observe(trace)[&key("conv2d", footprint)].summaries[&condition]
}

#[test]
fn the_first_steps_do_not_count() {
    for n_steps in [2_u32, 3, 10, 19, 100, 1000] {
        let n_warm_up = (n_steps as usize / 10).clamp(1, MAX_WARM_UP) as u32;
        let slow = |_, _, step| if step < n_warm_up { 50_000 } else { 1000 };
        let found = summary(&trace(n_steps, 1, vec![task("a", false, 0)], slow), "a", WARM);
        assert_eq!((found.n, found.n_outliers), (u64::from(n_steps - n_warm_up), 0), "{n_steps} steps");
        for seconds in [found.typical, found.median, found.minimum, found.mean] {
            assert!((seconds - 1e-6).abs() < 1e-15, "{found:?}");
        }
        assert_eq!(found.deviation, 0.0);
    }
    // Of one step nothing is known but how it began.
    assert!(observe(&trace(1, 1, vec![task("a", false, 0)], |_, _, _| 1000)).is_empty());
    assert!(observe(&Trace::default()).is_empty());
}

#[test]
fn executions_in_which_the_core_was_taken_away_are_counted_and_left_out() {
    // Every fortieth takes a millisecond, the others a microsecond and a little.
    let noisy = |_, _, step: u32| if step % 40 == 39 { 1_000_000 } else { 1000 + u64::from(step % 7) };
    let found = summary(&trace(400, 1, vec![task("a", false, 0)], noisy), "a", WARM);
    assert_eq!((found.n, found.n_outliers), (370, 10));
    assert!(found.mean < 1.01e-6 && found.typical < 1.01e-6 && found.deviation > 0.0, "{found:?}");
    // What happens every third time is no exception.
    let times: Vec<f64> = (0..380).map(|i| if i % 3 == 0 { 3e-6 } else { 1e-6 }).collect();
    let found = Summary::of(&times).expect("times");
    assert_eq!((found.n, found.n_outliers), (380, 0));
    assert!((found.typical - 1.67e-6).abs() < 0.1e-6 && found.median == 1e-6, "{found:?}");
}

#[test]
fn typical_times_add_up_to_the_median_step() {
    // In every step another one of the twenty tasks takes ten times as long: too rare for each of them, but
    // in every step.
    let tasks = (0..20).map(|i| task(&i.to_string(), false, 0)).collect();
    let trace = trace(400, 1, tasks, |_, task, step| if step % 20 == task { 10_000 } else { 1000 });
    let observed = observe(&trace);
    let summaries: Vec<Summary> = observed.values().map(|seen| seen.summaries[&WARM]).collect();
    assert!(
        summaries.iter().all(|summary| summary.n_outliers == 19 && summary.mean < 1.01e-6),
        "{summaries:?}"
    );
    let sum: f64 = summaries.iter().map(|summary| summary.typical).sum();
    assert!((sum / 29e-6 - 1.0).abs() < 1e-9, "{sum}");
}

#[test]
fn the_phase_that_lasts_longest_counts() {
    // The machine is slow for the last third.
    let found = summary(
        &trace(300, 1, vec![task("a", false, 0)], |_, _, step| if step >= 200 { 1700 } else { 1000 }),
        "a",
        WARM,
    );
    assert!((found.typical - 1e-6).abs() < 1e-12, "{found:?}");
}

#[test]
fn cold_and_warm_and_what_floated_elsewhere_are_kept_apart() {
    let tasks = vec![task("a", false, 0), task("a", true, 0), task("b", false, 1)];
    let mut trace = trace(100, 2, tasks, |_, task, _| [1000, 3000, 2000][task as usize]);
    let (warm, cold) = (WARM_2, Condition { is_cold: true, ..WARM_2 });
    assert_eq!(summary(&trace, "a", warm).median, 1e-6);
    assert_eq!(summary(&trace, "a", cold).median, 3e-6);
    assert_eq!(summary(&trace, "b", warm).n, 90);
    // The other worker takes the half of `b`, and takes longer.
    let taken: Vec<Event> = trace.workers[1].iter().copied().filter(|event| event.step % 2 == 0).collect();
    trace.workers[1].retain(|event| event.step % 2 == 1);
    let last = trace.workers[0].last().expect("events").end;
    trace.workers[0].extend(taken.iter().map(|event| {
        let start = last + u64::from(event.step) * 10_000;
        Event { start, end: start + 5000, ..*event }
    }));
    assert_eq!(summary(&trace, "b", warm).n, 45);
    let away = summary(&trace, "b", cold);
    assert_eq!((away.n, away.median), (45, 5e-6));
}

#[test]
fn a_trace_that_makes_no_sense_teaches_nothing() {
    let sound = trace(20, 1, vec![task("a", false, 0)], |_, _, _| 1000);
    for ticks_per_second in [0.0, -1.0, f64::NAN] {
        assert!(observe(&Trace { ticks_per_second, ..sound.clone() }).is_empty(), "{ticks_per_second}");
    }
    let mut wrong = sound.clone();
    wrong.workers[0].iter_mut().for_each(|event| event.task = 7);
    assert!(observe(&wrong).is_empty());
    let scene = Scene { dispatch: Dispatch::Submitted, ..(*sound.scene).clone() };
    assert!(observe(&Trace { scene: Arc::new(scene), ..sound.clone() }).is_empty());
    // Tasks without flops, or with absurd ones.
    for flops in [0.0, f64::NAN, f64::INFINITY, -1.0] {
        let odd = TaskInfo { flops, ..task("a", false, 0) };
        let mut models = Models::new();
        models.learn(&trace(20, 1, vec![odd], |_, _, _| 0), RunId(1), Date(1));
        let (_, entry) = models.entries().next().expect("learned");
        assert!(entry.flops >= 0.0 && entry.flops.is_finite());
        let estimate = models.estimate(&key("conv2d", "other"), WARM, flops, usize::MAX);
        assert!(estimate.seconds.is_finite() && estimate.seconds >= 0.0, "{estimate:?}");
    }
}

#[test]
fn what_a_clock_cannot_tell_from_nothing_takes_a_tick() {
    let found = summary(&trace(20, 1, vec![task("a", false, 0)], |_, _, _| 0), "a", WARM);
    assert_eq!((found.minimum, found.typical), (1e-9, 1e-9));
}

#[test]
fn workers_of_two_kinds_have_keys_of_their_own() {
    let mut trace =
        trace(50, 3, vec![task("a", false, 0), task("a", false, 1), task("a", false, 2)], |_, task, _| {
            [1000, 2000, 1000][task as usize]
        });
    let mut scene = (*trace.scene).clone();
    scene.workers[1].kind = "test".into();
    trace.scene = Arc::new(scene);
    let observed = observe(&trace);
    let condition = Condition { is_cold: false, workers: 3 };
    let of = |unit: &str| observed[&Key { unit: unit.into(), ..key("conv2d", "a") }].summaries[&condition];
    assert_eq!((observed.len(), of("cpu").n, of("test").n), (2, 90, 45));
    assert!((of("cpu").median - 1e-6).abs() < 1e-15 && (of("test").median - 2e-6).abs() < 1e-15);
}

#[test]
fn stretches_of_one_run_are_combined_by_their_executions() {
    assert_eq!(Summary::combined(&[]), None);
    let [short, long] = [(3, 9.0), (100, 1.0)].map(|(n, time)| Summary::of(&vec![time; n]).expect("times"));
    assert_eq!(Summary::combined(&[short]), Some(short));
    let both = Summary::combined(&[short, long]).expect("two");
    assert_eq!((both.n, both.typical, both.median, both.minimum), (103, 1.0, 1.0, 1.0));
    assert!((both.mean - 127.0 / 103.0).abs() < 1e-12 && both.is_sound(), "{both:?}");
    // How far stretches are apart counts, also if each of them is steady.
    let far = [1.0, 2.0, 3.0].map(|time| Summary::of(&[time; 10]).expect("times"));
    assert!(Summary::combined(&far).expect("three").deviation > 1.0);
}

#[test]
fn summaries_leave_out_what_is_no_time() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[f64::NAN, -1.0, f64::INFINITY]), None);
    let found = Summary::of(&[f64::NAN, 2.0, -1.0]).expect("one time");
    assert_eq!((found.n, found.typical, found.minimum), (1, 2.0, 2.0));
    assert_eq!(Summary::of(&[0.0; 5]).expect("five times").typical, 0.0);
}

#[test]
fn an_estimate_says_where_it_comes_from() {
    let mut all = Models::new();
    all.learn(
        &trace(100, 1, vec![task("a", false, 0), task("a", true, 0)], |_, task, _| {
            [1000, 3000][task as usize]
        }),
        RunId(1),
        Date(10),
    );
    let estimate = |models: &Models, footprint: &str, condition| {
        models.estimate(&key("conv2d", footprint), condition, 1e6, 4096)
    };
    let known = estimate(&all, "a", WARM);
    assert_eq!(known.basis, Basis::History { n: 90, runs: 1 });
    assert!((known.seconds - 1e-6).abs() < 1e-15);
    // A key that was seen warm only: cold, it takes three times as long, like the other one.
    all.learn(&trace(100, 1, vec![task("b", false, 0)], |_, _, _| 2000), RunId(2), Date(10));
    let scaled = estimate(&all, "b", COLD);
    assert!(matches!(scaled.basis, Basis::Scaled { from: WARM, .. }), "{scaled:?}");
    assert!((scaled.seconds - 6e-6).abs() < 1e-12, "{scaled:?}");
    // A shape never seen.
    let other = estimate(&all, "c", WARM);
    assert!(matches!(other.basis, Basis::Ratio { n: 2, .. }), "{other:?}");
    assert!(other.seconds >= 1e-6 && other.seconds <= 2e-6, "{other:?}");
    // Other code, another version, another algorithm, another type: a guess.
    let of = |key: &Key| all.estimate(key, WARM, 1e6, 4096).basis;
    assert_eq!(of(&key("dense", "a")), Basis::Guess);
    assert_eq!(of(&Key { version: 2, ..key("conv2d", "a") }), Basis::Guess);
    assert_eq!(of(&Key { algorithm: "winograd3".into(), ..key("conv2d", "a") }), Basis::Guess);
    assert_eq!(of(&Key { dtype: "f64".into(), ..key("conv2d", "a") }), Basis::Guess);
    assert_eq!(of(&Key { unit: "gpu".into(), ..key("conv2d", "a") }), Basis::Guess);
    assert_eq!(Models::new().estimate(&key("dense", "a"), WARM, 50e9, 0).seconds, 1.0 + 200e-9);
}

#[test]
fn keys_are_ordered_and_have_a_text_that_comes_back() {
    let keys = [
        Key::default(),
        key("conv2d", "16x1x28x28/16 6x1x5x5 6 > 16x6x24x24/16 | 1 0 +"),
        Key { codelet: "with space\n".into(), unit: "%".into(), dtype: "ä".into(), ..key("", "") },
        Key { algorithm: "direct+small_batch".into(), ..key("conv2d", "17x1x28x28/16") },
    ];
    for key in &keys {
        let text = key.to_string();
        assert_eq!(text.parse::<Key>().as_ref(), Ok(key), "{text}");
        assert!(!text.contains('\n') && text.split(' ').count() == 6, "{text}");
        assert!(format!("{text} more").parse::<Key>().is_err());
    }
    assert!("conv2d lanes one cpu f32 a".parse::<Key>().is_err());
    assert!(key("a", "b") < key("a", "c") && key("a", "c") < key("b", "a"));
}
