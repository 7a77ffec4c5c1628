//! Sizes that no memory has and numbers that no type holds: each is a sentence, and never a plan.

use super::codelets::{COPY, MATMUL, SHIFT};
use super::machine;
use dahl_runtime::array::{Dtype, Layout};
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::engine::{Pool, Session};
use dahl_runtime::graph::{Cut, CutOptions};
use dahl_runtime::graph::{Graph, Lowered, lower};
use dahl_runtime::machine::{HOST, Machine};
use dahl_runtime::plan::{Plan, PlanFile, Planned};
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::{Error, ErrorKind, Result};
use std::sync::Arc;

/// What becomes of a graph that is cut into tiles of this size along its rows, if that is said.
fn lowered(graph: &Graph, rows: Option<TileSize>) -> Result<Lowered> {
    let tilings = rows.iter().map(|&size| vec![("i".to_string(), size)]).collect();
    let options = CutOptions { tilings, ..CutOptions::default() };
    lower(graph, &Cut::heuristic(graph, &options)?)
}

#[track_caller]
fn refused(result: Result<Lowered>, kind: ErrorKind, piece: &str) {
    let error: Error = result.expect_err("no machine can execute this");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(piece), "{error}");
}

/// A copy from a port to an output of so many rows.
fn copy(depth: usize, rows: usize, columns: usize) -> Graph {
    let mut graph = Graph::new(depth);
    let x = graph.port("x", Dtype::F32, [rows, columns]);
    let y = graph.output("y", Dtype::F32, [rows, columns]);
    graph.task(&COPY, Dtype::F32, &[x], &[y], &[], &[]).unwrap();
    graph
}

#[test]
fn a_depth_for_which_no_ring_can_exist_is_refused() {
    // 2^52 versions of 2^12 bytes are 2^64: none at all, if nobody looks.
    for depth in [1 << 52, usize::MAX, 1 << 32] {
        refused(lowered(&copy(depth, 32, 32), None), ErrorKind::Plan, "use a smaller one");
    }
    let mut graph = Graph::new(1);
    graph.set_depth(usize::MAX);
    refused(lowered(&graph, None), ErrorKind::Plan, "use a smaller one");
    // A number of steps that can be counted, of rings that no memory holds.
    refused(lowered(&copy(u32::MAX as usize, 1 << 15, 1 << 15), None), ErrorKind::Memory, "a smaller depth");
}

#[test]
fn what_fits_the_type_but_not_the_machine_is_refused_when_memory_is_taken() {
    let lowered = lowered(&copy(1 << 20, 1 << 14, 1 << 14), None).unwrap();
    let pool = Arc::new(Pool::new(&machine()).unwrap());
    for plan in [
        Plan::heuristic(&lowered, &machine()),
        Plan::fixed(&lowered, &machine()),
        Plan::open(&lowered, &machine(), SchedulerKind::Eager),
    ] {
        let plan = plan.unwrap();
        assert_eq!(plan.memory(HOST).bytes, 2 << (20 + 28 + 2));
        let error = Session::new(&pool, &lowered, &plan, 0).err().expect("no machine has a petabyte");
        assert_eq!(error.kind(), ErrorKind::Memory);
    }
}

#[test]
fn arrays_whose_bytes_overflow_are_refused_used_or_not() {
    for shape in [[usize::MAX, 1], [usize::MAX / 2, 2], [usize::MAX, usize::MAX], [1 << 61, 4], [1 << 62, 1]]
    {
        let mut graph = Graph::new(1);
        graph.temporary("large", Dtype::F32, shape);
        refused(lowered(&graph, None), ErrorKind::Memory, "large of");
    }
    let mut graph = Graph::new(1);
    let large = graph.temporary("large", Dtype::F32, [1 << 60, 4]);
    let task = graph.task(&COPY, Dtype::F32, &[large], &[large], &[], &[]);
    assert!(task.unwrap_err().to_string().contains("no memory holds an array of"));
    assert!(large.overlaps(&large));
    // An array without elements has no bytes, however long it is.
    let mut graph = Graph::new(1);
    graph.temporary("empty", Dtype::F32, [usize::MAX, 0]);
    assert_eq!(lowered(&graph, None).unwrap().buffers()[0].bytes, 0);
}

#[test]
fn padding_counts_and_layouts_must_make_sense() {
    let mut graph = Graph::new(1);
    graph.temporary("odd", Dtype::F32, [1, 1 << 58]);
    let cut = |layout: Layout| Cut { tasks: Vec::new(), layouts: vec![layout.into()] };
    assert!(lower(&graph, &cut(Layout::RowMajor)).is_ok());
    refused(lower(&graph, &cut(Layout::Lanes(16))), ErrorKind::Memory, "odd of");
    refused(lower(&graph, &cut(Layout::Lanes(usize::MAX))), ErrorKind::Memory, "odd of");
    refused(lower(&graph, &cut(Layout::Lanes(0))), ErrorKind::Plan, "at least one lane");
    refused(lower(&graph, &cut(Layout::Strided([0; 4]))), ErrorKind::Plan, "row-major order");
}

#[test]
fn arrays_whose_sum_overflows_are_refused() {
    let sum = |n_arrays: usize| {
        let mut graph = Graph::new(1);
        for i in 0..n_arrays {
            graph.temporary(&format!("t{i}"), Dtype::U8, [1 << 60]);
        }
        lowered(&graph, None)
    };
    let seven = sum(7).unwrap();
    let three = Machine::with_workers(3);
    for plan in [Plan::heuristic(&seven, &three), Plan::open(&seven, &three, SchedulerKind::Steal)] {
        assert_eq!(plan.unwrap().memory(HOST).bytes_unshared, 7 << 60);
    }
    refused(sum(8), ErrorKind::Memory, "more bytes than any memory");
    refused(sum(16), ErrorKind::Memory, "more bytes than any memory");
    refused(sum(17), ErrorKind::Memory, "more bytes than any memory");
}

#[test]
fn rounding_up_counts() {
    let mut graph = Graph::new(1);
    graph.temporary("t", Dtype::U8, [isize::MAX as usize]);
    refused(lowered(&graph, None), ErrorKind::Memory, "more bytes than any memory");
}

#[test]
fn more_tiles_than_a_graph_may_have_are_refused_before_they_are_made() {
    let graph = copy(1, 1 << 50, 1);
    refused(lowered(&graph, Some(TileSize::Size(16))), ErrorKind::Plan, "use larger tiles");
    refused(lowered(&graph, Some(TileSize::Count(usize::MAX))), ErrorKind::Plan, "use larger tiles");
    // Along both axes, each of them few enough.
    let graph = copy(1, 1 << 14, 1 << 14);
    let both = vec![["i", "j"].map(|axis| (axis.to_string(), TileSize::Size(1))).to_vec()];
    let options = CutOptions { tilings: both, ..CutOptions::default() };
    let cut = Cut::heuristic(&graph, &options).unwrap();
    refused(lower(&graph, &cut), ErrorKind::Plan, "use larger ones");
}

/// `c = a b` in as many parts as there are values of `k`, which is summed over.
fn sum(rows: usize, columns: usize, parts: usize) -> Result<Lowered> {
    let mut graph = Graph::new(1);
    let a = graph.port("a", Dtype::F32, [rows, parts]);
    let b = graph.port("b", Dtype::F32, [parts, columns]);
    let c = graph.output("c", Dtype::F32, [rows, columns]);
    graph.task(&MATMUL, Dtype::F32, &[a, b], &[c], &[], &[])?;
    let tilings = vec![vec![("k".to_string(), TileSize::Size(1))]];
    let options = CutOptions { tilings, ..CutOptions::default() };
    let mut cut = Cut::heuristic(&graph, &options)?;
    // The heuristic would keep such a sum whole.
    let axis = graph.tasks()[0].bound.axis("k").unwrap();
    cut.tasks[0].tiles = vec![(axis, TileSize::Size(1).cut(parts))];
    cut.tasks[0].groups = parts;
    lower(&graph, &cut)
}

#[test]
fn partial_results_that_do_not_fit_are_refused() {
    assert!(sum(1 << 6, 1 << 6, 2).is_ok());
    // Too many tasks to add them up.
    refused(sum(1 << 20, 1 << 20, 2), ErrorKind::Plan, "use larger tiles");
    // Twice as many bytes as there are addresses.
    refused(sum(1 << 20, 1 << 36, 128), ErrorKind::Memory, "partial results of c");
}

#[test]
fn places_in_large_arrays_are_spread_over_the_workers() {
    let mut graph = Graph::new(1);
    let flat = graph.temporary("flat", Dtype::F32, [1 << 57]);
    for i in 0..4 {
        let part = flat.part(i << 55, [1 << 55]).unwrap();
        graph.task(&SHIFT, Dtype::F32, &[], &[part], &[], &[1.0]).unwrap();
    }
    let lowered = lowered(&graph, Some(TileSize::Count(4))).unwrap();
    let plan = Plan::heuristic(&lowered, &Machine::with_workers(1000)).unwrap();
    let order = &plan.placement().unwrap().order;
    let busy: Vec<usize> = (0..1000).filter(|&worker| !order[worker].is_empty()).collect();
    assert_eq!(busy, (0..16).map(|tile| tile * 1000 / 16).collect::<Vec<_>>());
}

#[test]
fn plan_files_with_offsets_that_no_memory_has_are_refused() {
    let (graph, machine) = (copy(2, 4, 4), Machine::with_workers(1));
    let planned = Planned::new(&graph, &CutOptions::default(), |lowered| {
        Plan::fixed(lowered, &Machine::with_workers(1))
    })
    .unwrap();
    let mut file = PlanFile::new("heuristic");
    file.add("step", &graph, &planned, &machine).unwrap();
    let text = file.to_string();
    let (memory, at) = ("memory 256 bytes", "buffer 1 y 64 bytes at 128");
    assert!(text.contains(memory) && text.contains(at), "{text}");
    // The end of the last buffer, and the memory that goes with it.
    let last = usize::MAX - 63;
    for end in [1 << 63, last, last - 64] {
        let text = text.replace(memory, &format!("memory {end} bytes"));
        let text = text.replace(at, &format!("buffer 1 y 64 bytes at {}", end - 128));
        let error = PlanFile::parse("p", &text).unwrap().plan("step", &graph, &machine).unwrap_err();
        assert!(error.to_string().contains("no memory has"), "{error}");
    }
    for offset in [last, last - 64, last - 128] {
        let text = text.replace(at, &format!("buffer 1 y 64 bytes at {offset}"));
        let error = PlanFile::parse("p", &text).unwrap().plan("step", &graph, &machine).unwrap_err();
        assert!(error.to_string().contains("give it another offset"), "{error}");
    }
    let text = text.replace(at, "buffer 1 y 64 bytes at 18446744073709551616");
    assert!(PlanFile::parse("p", &text).is_err());
}
