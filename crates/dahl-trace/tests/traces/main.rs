//! Traces: what is in them, why workers idled, saving and loading, and what other programs make of the
//! exports.

mod exports;
mod protobuf;
#[path = "../../../dahl-runtime/tests/turn/mod.rs"]
mod turn;

use dahl_runtime::engine::{Pool, Session, Store};
use dahl_runtime::graph::ScopeId;
use dahl_runtime::machine::Machine;
use dahl_runtime::plan::Plan;
use dahl_runtime::schedule::SchedulerKind;
use dahl_runtime::trace::{Dispatch, Reason, Trace};
use dahl_trace::{Format, Statistics};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use turn::Turn;

/// A traced run of `turn` on this machine: by plan or by whoever is free.
fn traced(turn: &Turn, machine: &Machine, is_planned: bool, steps: u64, capacity: usize) -> Trace {
    let pool = Arc::new(Pool::new(machine).unwrap());
    let plan = match is_planned {
        true => Plan::heuristic(&turn.lowered, machine).unwrap(),
        false => Plan::open(&turn.lowered, machine, SchedulerKind::Eager).unwrap(),
    };
    let mut session = Session::new(&pool, &turn.lowered, &plan, capacity).unwrap();
    turn.run(&mut session, steps, 0.0).unwrap();
    session.take_trace()
}

fn machines() -> impl Iterator<Item = Machine> {
    let plain = [1, 2, 4].map(Machine::with_workers);
    plain.into_iter().chain([2, 4].map(|workers| Machine::with_workers(workers).with_test_unit()))
}

/// A trace through a file.
fn through_file(trace: &Trace, name: &str) -> Trace {
    let path = std::env::temp_dir().join(format!("dahl-{}-{name}.json", std::process::id()));
    dahl_trace::save(trace, &path).unwrap();
    let loaded = dahl_trace::load(&path);
    std::fs::remove_file(&path).unwrap();
    loaded.unwrap()
}

#[test]
fn every_execution_is_in_the_trace_once_and_in_the_order_of_the_edges() {
    let turn = Turn::new(6, 2, 8);
    for (machine, is_planned) in machines().flat_map(|machine| [(machine.clone(), true), (machine, false)]) {
        let trace = traced(&turn, &machine, is_planned, 30, 1 << 11);
        let scene = &trace.scene;
        assert_eq!(scene.dispatch, if is_planned { Dispatch::Planned } else { Dispatch::Open });
        assert_eq!(scene.workers.len(), machine.units.len());
        assert_eq!(trace.total_dropped(), 0);
        let mut times = HashMap::new();
        for events in &trace.workers {
            assert!(events.windows(2).all(|pair| pair[0].end <= pair[1].start));
            for event in events {
                let planned = scene.tasks[event.task as usize].worker;
                assert_eq!(planned.is_some(), is_planned, "a plan says who executes what");
                assert!(times.insert((event.task, event.step), (event.start, event.end)).is_none());
            }
        }
        assert_eq!(times.len(), turn.lowered.tasks().len() * 30);
        for (&(task, step), &(start, _)) in &times {
            for edge in scene.edges.iter().filter(|edge| edge.to == task && edge.distance <= step) {
                assert!(times[&(edge.from, step - edge.distance)].1 <= start, "{edge:?} in step {step}");
            }
        }
        for (task, info) in turn.lowered.tasks().iter().zip(&scene.tasks) {
            assert_eq!(
                (info.codelet.as_str(), info.tile, info.bytes),
                (task.codelet, task.tile, task.bytes())
            );
            assert_eq!((&scene.scopes[..], &info.scopes), (turn.lowered.scopes(), &task.scopes));
            assert!(info.bytes > 0 && info.line.contains("turn/mod.rs:"), "{info:?}");
        }
    }
}

#[test]
fn idle_time_has_reasons_and_leaves_nothing_out() {
    let turn = Turn::new(6, 2, 8);
    for (machine, is_planned) in machines().flat_map(|machine| [(machine.clone(), true), (machine, false)]) {
        let trace = traced(&turn, &machine, is_planned, 30, 1 << 11);
        for (events, gaps) in trace.workers.iter().zip(trace.idle()) {
            let Some((first, last)) = events.first().zip(events.last()) else { continue };
            let first = gaps.first().map_or(first.start, |gap| gap.start.min(first.start));
            let inside: u64 = events.iter().map(|event| event.end - event.start).sum();
            let outside: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
            assert_eq!(last.end - first, inside + outside);
            let never = if is_planned { Reason::NothingReady } else { Reason::Dependency };
            assert!(gaps.iter().all(|gap| gap.reason != never));
        }
        let n_transfers = trace.transfers.iter().flatten().count();
        // The unit with a memory of its own may come away empty-handed.
        let is_used = |worker: usize| machine.units[worker].memory > 0 && !trace.workers[worker].is_empty();
        assert_eq!(n_transfers > 0, (0..machine.units.len()).any(is_used));
        for transfer in trace.transfers.iter().flatten() {
            assert_ne!(transfer.from, transfer.to);
            assert!(trace.scene.blocks[transfer.block as usize].bytes > 0);
        }
        let (kernels, idle) = trace.seconds();
        assert!(kernels > 0.0);
        assert_eq!(
            idle[Reason::Transfer as usize] > 0.0,
            trace.transfers.iter().rev().skip(1).flatten().count() > 0
        );
    }
}

#[test]
fn a_program_that_feeds_slowly_is_the_reason() {
    let turn = Turn::new(6, 2, 1);
    let machine = Machine::with_workers(2);
    let pool = Arc::new(Pool::new(&machine).unwrap());
    for plan in [
        Plan::heuristic(&turn.lowered, &machine).unwrap(),
        Plan::open(&turn.lowered, &machine, SchedulerKind::Eager).unwrap(),
    ] {
        let mut session = Session::new(&pool, &turn.lowered, &plan, 1 << 10).unwrap();
        let feed =
            |_: u64, _: &mut dahl_runtime::engine::Ports<'_>| std::thread::sleep(Duration::from_millis(5));
        session.run(&mut Store::new(), 6, feed, |_, _| {}).unwrap();
        let trace = session.take_trace();
        let worker = trace.workers.iter().position(|events| !events.is_empty()).expect("somebody worked");
        let gaps = &trace.idle()[worker];
        let waited: u64 =
            gaps.iter().filter(|gap| gap.reason == Reason::NotReleased).map(|gap| gap.end - gap.start).sum();
        let steps: std::collections::HashSet<u32> =
            trace.workers[worker].iter().map(|event| event.step).collect();
        let least = 0.005 * (steps.len() - 1) as f64;
        assert!(waited as f64 / trace.ticks_per_second >= least, "{waited} ticks");
    }
}

#[test]
fn a_full_ring_keeps_the_newest_events_and_says_how_many_it_dropped() {
    let turn = Turn::new(6, 2, 8);
    let trace = traced(&turn, &Machine::with_workers(2), true, 100, 64);
    let n_tasks = turn.lowered.tasks().len() as u64;
    let kept: u64 = trace.workers.iter().map(|events| events.len() as u64).sum();
    assert!(trace.workers.iter().all(|events| events.len() == 64 && events.last().unwrap().step == 99));
    assert_eq!(kept + trace.total_dropped(), 100 * n_tasks);
    assert_eq!(through_file(&trace, "dropped").n_dropped, trace.n_dropped);
    for format in [Format::Perfetto, Format::Paje] {
        let mut out = Vec::new();
        dahl_trace::write(&trace, format, &mut out).unwrap();
        let note = format!("{} older events were dropped", trace.n_dropped[0]);
        assert!(String::from_utf8_lossy(&out).contains(&note), "{format:?}");
    }
}

#[test]
fn untraced_sessions_have_empty_traces() {
    let turn = Turn::new(6, 2, 8);
    let trace = traced(&turn, &Machine::with_workers(2), true, 10, 0);
    assert!(trace.workers.iter().all(Vec::is_empty) && trace.total_dropped() == 0);
    assert_eq!(through_file(&trace, "empty"), trace);
}

#[test]
fn what_is_saved_is_loaded() {
    let turn = Turn::new(6, 2, 8);
    for (i, machine) in machines().enumerate() {
        let mut trace = traced(&turn, &machine, i % 2 == 0, 10, 1 << 10);
        let scene = Arc::make_mut(&mut trace.scene);
        scene.tasks[0].codelet = "a \"quoted\" name,\twith \\ and ü".to_string();
        scene.tasks[0].scopes = vec![ScopeId(0), ScopeId(2)];
        scene.scopes[2] = "\",1],[\"+".to_string();
        assert_eq!(through_file(&trace, &format!("saved-{i}")), trace);
    }
}

#[test]
fn traces_of_the_version_before_have_no_scopes_and_are_loaded() {
    let old = "[\"dahl-trace\",2]\n[\"clock\",1000000000]\n[\"schedule\",\"open\"]\n[\"memory\",\"host\"]\n\
        [\"worker\",\"cpu\",0,null]\n\
        [\"task\",\"relu\",\"lanes\",1,\"f32\",\"16x8\",\"warm\",0,2,512,1024,null,\"main.rs:7\"]\n\
        [\"event\",0,0,3,100,250]\n[\"end\",7]\n";
    let path = std::env::temp_dir().join(format!("dahl-{}-old.json", std::process::id()));
    std::fs::write(&path, old).unwrap();
    let trace = dahl_trace::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let [task] = &trace.scene.tasks[..] else { panic!("{:?}", trace.scene) };
    assert_eq!((task.codelet.as_str(), task.line.as_str(), task.bytes), ("relu", "main.rs:7", 512));
    assert!(task.scopes.is_empty() && trace.scene.scopes.is_empty());
    assert_eq!(trace.workers[0][0].step, 3);
    let rows = Statistics::of(&trace).scope_rows(None);
    assert_eq!(rows.iter().map(|row| (row.name(), row.n)).collect::<Vec<_>>(), [(String::new(), 1)]);
    // Saved again, it is a trace of this version.
    assert_eq!(through_file(&trace, "renewed"), trace);
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_the_reason() {
    let turn = Turn::new(4, 2, 2);
    let mut text = Vec::new();
    let trace = traced(&turn, &Machine::with_workers(1), true, 2, 16);
    dahl_trace::write(&trace, Format::Json, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line =
        |what: &str| text.lines().find(|line| line.starts_with(&format!("[\"{what}\""))).expect("a line");
    let with_clock = |clock: &str| text.replacen(line("clock"), &format!("[\"clock\",{clock}]"), 1);
    let with_flops = |flops: &str| {
        let mut fields: Vec<&str> = line("task").split(',').collect();
        // From the end, where nothing has commas in it: flops, worker, line; the first task has no scope.
        let at = fields.len() - 3;
        fields[at] = flops;
        text.replacen(line("task"), &fields.join(","), 1)
    };
    let cases = [
        ("", "it is not a trace of dahl"),
        ("digraph {}", "it is not a trace of dahl"),
        ("[\"dahl-plan\",1]\n", "it is not a trace of dahl"),
        (
            &text.replacen("[\"dahl-trace\",3]", "[\"dahl-trace\",7]", 1),
            "version 7, and this dahl reads versions 2 to 3",
        ),
        (&text[..text.len() / 2], "line "),
        (text.rsplit_once("[\"end\"").unwrap().0, "it ends early"),
        (&text.replacen("[\"event\",0,", "[\"event\",9,", 1), "there is no worker 9: there are 1"),
        (&text.replacen("[\"event\"", "[\"incident\"", 1), "there is nothing called 'incident'"),
        (&text.replacen("[\"clock\",", "[\"clock\",\"", 1), "a string does not end"),
        (&text.replacen("[\"clock\",", "[\"clock\",x", 1), "is no number"),
        (&text.replacen("[\"release\",", "[\"release\",1,2,3],[", 1), "line "),
        (&with_clock("0"), "line 2: 0 is not a number of ticks per second"),
        (&with_clock("-1e9"), "-1000000000 is not a number of ticks per second"),
        (&with_clock("NaN"), "NaN is not a number of ticks per second"),
        (&with_clock("inf"), "inf is not a number of ticks per second"),
        (&with_clock("1e999"), "inf is not a number of ticks per second"),
        (&text.replacen(line("clock"), line("schedule"), 1), "no line 'clock'"),
        (&text.replacen(line("scope"), line("clock"), 1), "there is no scope 2: there are 2"),
        (&with_flops("NaN"), "NaN is not a number of operations"),
        (&with_flops("inf"), "inf is not a number of operations"),
        (&with_flops("-1"), "-1 is not a number of operations"),
    ];
    let path = std::env::temp_dir().join(format!("dahl-{}-broken.json", std::process::id()));
    for (content, expected) in cases {
        std::fs::write(&path, content).unwrap();
        let error = dahl_trace::load(&path).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("broken.json"),
            "`{expected}` is missing in: {error}"
        );
    }
    std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert!(dahl_trace::load(&path).unwrap_err().to_string().contains("it is no text"));
    std::fs::remove_file(&path).unwrap();
    assert!(dahl_trace::load(&path).unwrap_err().to_string().contains("broken.json"));
}
