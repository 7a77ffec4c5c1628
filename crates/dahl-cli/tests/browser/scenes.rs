//! Traces to look at.

use dahl_runtime::graph::{Edge, EdgeKind};
use dahl_runtime::trace::{Event, Release, Scene, TaskInfo, Trace, WorkerInfo};
use std::sync::Arc;

pub fn task(codelet: &str, tile: (usize, usize)) -> TaskInfo {
    TaskInfo {
        codelet: codelet.into(),
        implementation: "lanes".into(),
        tile,
        flops: 1e7,
        bytes: 1 << 20,
        ..TaskInfo::default()
    }
}

/// A clock of nanoseconds.
pub fn trace(scene: Scene, workers: Vec<Vec<Event>>) -> Trace {
    let lists = workers.len() + 1;
    Trace {
        scene: Arc::new(scene),
        workers,
        transfers: vec![Vec::new(); lists],
        n_dropped: vec![0; lists],
        releases: vec![Release { steps: u64::MAX, ticks: 0 }],
        ticks_per_second: 1e9,
    }
}

/// Steps of layers on many units: each unit takes its tile forward and backward, then all wait for the
/// slowest.
pub fn many(n_units: usize, n_tasks: usize) -> Trace {
    let codelets = [
        "load",
        "conv2d",
        "max_pool",
        "dense",
        "softmax_ce",
        "dense_dw",
        "dense_dx",
        "max_pool_backward",
        "conv2d_dw",
        "sgd",
    ];
    let lengths = [20, 180, 40, 90, 15, 80, 85, 45, 320, 30];
    let n = codelets.len();
    let tasks = (0..n_units * n).map(|i| task(codelets[i % n], (i / n, n_units))).collect();
    // The last task of a unit waits for the gradients of all others.
    let gradient = |unit: usize| (unit * n + n - 2) as u32;
    let wait =
        |from, unit: usize| Edge { from, to: (unit * n + n - 1) as u32, distance: 0, kind: EdgeKind::Data };
    let edges = (0..n_units).flat_map(|unit| (0..n_units).map(move |other| wait(gradient(other), unit)));
    let scene = Scene {
        workers: vec![WorkerInfo { kind: "cpu".into(), ..WorkerInfo::default() }; n_units],
        memories: vec!["host".into()],
        tasks,
        edges: edges.collect(),
        ..Scene::default()
    };
    let mut random = 1_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut workers = vec![Vec::new(); n_units];
    let mut begin = 1_000_000;
    for step in 0..n_tasks / (n_units * n) {
        let mut slowest = begin;
        for (unit, events) in workers.iter_mut().enumerate() {
            let mut at = begin + draw(3_000);
            // Every unit has its own speed, and now and then somebody else has the core.
            let burden = 96 + (unit as u64 * 7) % 9 + if draw(40) == 0 { 12 + draw(10) } else { 0 };
            for (i, length) in lengths[..n - 1].iter().enumerate() {
                let took = length * burden * (97 + draw(7)) / 10;
                events.push(Event {
                    task: (unit * n + i) as u32,
                    step: step as u32,
                    start: at,
                    end: at + took,
                });
                at += took + 150 + draw(400);
            }
            slowest = slowest.max(at);
        }
        for (unit, events) in workers.iter_mut().enumerate() {
            let start = slowest + draw(2_000);
            let end = start + lengths[n - 1] * (900 + draw(300));
            events.push(Event { task: (unit * n + n - 1) as u32, step: step as u32, start, end });
            begin = begin.max(end);
        }
    }
    trace(scene, workers)
}
