//! How much memory a planned step uses, task by task.

#![cfg(not(feature = "shuttle"))]

mod kernels;

use dahl_runtime::array::Dtype;
use dahl_runtime::graph::CutOptions;
use dahl_runtime::graph::Graph;
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::{Plan, Planned, Schedule};
use kernels::{BLEND, COPY};

/// A chain of copies from a port to an output, with the first copy needed again at the end.
fn chain(rows: usize, links: usize) -> Graph {
    let mut graph = Graph::new(3);
    let x = graph.port("x", Dtype::F32, [rows, 16]);
    let out = graph.output("out", Dtype::F32, [rows, 16]);
    let y: Vec<_> = (0..links).map(|i| graph.temporary(&format!("y{i}"), Dtype::F32, [rows, 16])).collect();
    graph.task(&COPY, Dtype::F32, &[x], &[y[0]], &[], &[]).unwrap();
    for pair in y.windows(2) {
        graph.task(&COPY, Dtype::F32, &[pair[0]], &[pair[1]], &[], &[]).unwrap();
    }
    graph.task(&BLEND, Dtype::F32, &[y[0]], &[y[links - 1]], &[], &[1.0]).unwrap();
    graph.task(&COPY, Dtype::F32, &[y[links - 1]], &[out], &[], &[]).unwrap();
    graph
}

#[test]
fn a_chain_needs_what_is_written_what_is_read_and_what_is_kept() {
    let (rows, links) = (8, 5);
    let bytes = rows * 16 * 4;
    let graph = chain(rows, links);
    let planned = Planned::new(&graph, &CutOptions::default(), |lowered| {
        Plan::fixed(lowered, &Machine::with_workers(1))
    })
    .unwrap();
    let profile = planned.memory_profile(HOST);
    assert_eq!((profile.ring_bytes, profile.scratch_bytes), (3 * 2 * bytes, 16 * 4));
    let kept = profile.ring_bytes + profile.scratch_bytes;
    let temporaries: Vec<usize> = profile.in_use.iter().map(|(_, in_use)| (in_use - kept) / bytes).collect();
    // y0; y0 y1; y0 y1 y2; y0 y2 y3; y0 y3 y4; y0 y4; y4.
    assert_eq!(temporaries, [1, 2, 3, 3, 3, 2, 1]);
    assert_eq!(profile.peak(), planned.plan.memory(HOST).bytes);
    assert_eq!(planned.plan.memory(HOST).bytes_unshared, kept + links * bytes);
}

#[test]
fn no_moment_needs_more_than_was_planned() {
    for (rows, workers) in [(1, 1), (48, 2), (50, 3), (200, 4)] {
        let graph = chain(rows, 7);
        let machine = Machine::with_workers(workers);
        for schedule in [Schedule::Replay, Schedule::Fixed, Schedule::Eager] {
            let plan = |lowered: &_| schedule.plan(lowered, &machine);
            let plan = Planned::new(&graph, &CutOptions::default(), plan).unwrap();
            let profile = plan.memory_profile(HOST);
            assert_eq!(profile.in_use.len(), plan.lowered.tasks().len());
            assert!(
                profile.peak() > profile.ring_bytes && profile.peak() <= plan.plan.memory(HOST).bytes,
                "{profile:?}"
            );
            let mut tasks: Vec<_> = profile.in_use.iter().map(|&(task, _)| task).collect();
            tasks.sort_unstable();
            assert!(tasks.iter().enumerate().all(|(i, &task)| i == task as usize));
        }
    }
}

#[test]
fn a_graph_without_tasks_needs_its_rings_only() {
    let mut graph = Graph::new(4);
    graph.port("x", Dtype::F32, [16]);
    let planned = Planned::new(&graph, &CutOptions::default(), |lowered| {
        Plan::fixed(lowered, &Machine::with_workers(2))
    })
    .unwrap();
    let profile = planned.memory_profile(HOST);
    assert!(profile.in_use.is_empty());
    assert_eq!(profile.peak(), planned.plan.memory(HOST).bytes);
}
