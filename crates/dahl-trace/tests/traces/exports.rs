//! The exports, read back by somebody else: a decoder of protobuf, `pj_dump` and `dot`.

use super::protobuf::{Field, decode, get};
use super::{machines, traced};
use crate::turn::Turn;
use dahl_runtime::machine::Machine;
use dahl_runtime::trace::{Event, Trace};
use dahl_trace::Format;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::process::{Command, Stdio};

fn written(trace: &Trace, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    dahl_trace::write(trace, format, &mut out).unwrap();
    out
}

/// A slice as a viewer sees it.
struct Slice {
    track: u64,
    name: String,
    category: String,
    args: HashMap<String, String>,
    start: u64,
    end: u64,
    leaving: Vec<u64>,
    arriving: Vec<u64>,
}

/// Names of tracks and all slices, with everything checked on the way that Perfetto asks for.
fn perfetto(trace: &Trace) -> (HashMap<u64, String>, Vec<Slice>) {
    let (mut tracks, mut slices, mut open) =
        (HashMap::new(), Vec::<Slice>::new(), HashMap::<u64, usize>::new());
    let mut time_of = HashMap::<u64, u64>::new();
    for packet in decode(&written(trace, Format::Perfetto)) {
        assert_eq!(packet.number, 1, "a trace is a list of packets");
        let packet = packet.message();
        assert_eq!(get(&packet, 10).unwrap().int(), 1, "every packet names its sequence");
        if let Some(descriptor) = get(&packet, 60).map(Field::message) {
            let uuid = get(&descriptor, 1).unwrap().int();
            let name = match get(&descriptor, 3).map(Field::message) {
                Some(process) => get(&process, 6).unwrap().text(),
                None => get(&descriptor, 2).unwrap().text(),
            };
            let parent = get(&descriptor, 5).map(Field::int);
            assert!(parent.is_none_or(|parent| tracks.contains_key(&parent)));
            assert!(tracks.insert(uuid, name).is_none());
            continue;
        }
        let (time, event) = (get(&packet, 8).unwrap().int(), get(&packet, 11).unwrap().message());
        let track = get(&event, 11).unwrap().int();
        assert!(tracks.contains_key(&track), "a track is described before it is used");
        assert!(time_of.insert(track, time).is_none_or(|before| before <= time), "time goes on");
        let all =
            |number| event.iter().filter(|field| field.number == number).map(Field::int).collect::<Vec<_>>();
        match get(&event, 9).unwrap().int() {
            1 => {
                let value = |annotation: &[Field]| match get(annotation, 3) {
                    Some(number) => number.int().to_string(),
                    None => get(annotation, 6).unwrap().text(),
                };
                let args = event.iter().filter(|field| field.number == 4).map(|field| {
                    let annotation = field.message();
                    (get(&annotation, 10).unwrap().text(), value(&annotation))
                });
                slices.push(Slice {
                    track,
                    name: get(&event, 23).unwrap().text(),
                    category: get(&event, 22).unwrap().text(),
                    args: args.collect(),
                    start: time,
                    end: u64::MAX,
                    leaving: all(47),
                    arriving: all(48),
                });
                assert!(open.insert(track, slices.len() - 1).is_none(), "slices of a track do not overlap");
            }
            2 => slices[open.remove(&track).expect("a slice begins before it ends")].end = time,
            3 => {}
            other => panic!("there is no event of type {other}"),
        }
    }
    assert!(open.is_empty());
    (tracks, slices)
}

#[test]
fn perfetto_has_a_slice_for_every_task_and_every_gap() {
    let turn = Turn::new(6, 2, 8);
    for (i, machine) in machines().enumerate() {
        let trace = traced(&turn, &machine, i % 2 == 0, 20, 1 << 10);
        let (tracks, slices) = perfetto(&trace);
        let n_workers = machine.units.len();
        let workers = tracks.values().filter(|name| name.starts_with("worker ")).count();
        assert_eq!(workers, n_workers);
        let of = |category: &'static str| slices.iter().filter(move |slice| slice.category == category);
        let n_events: usize = trace.workers.iter().map(Vec::len).sum();
        assert_eq!(of("task").count(), n_events);
        let idle = trace.idle();
        let n_copies = trace.transfers.iter().flatten().count();
        let gaps = idle.iter().flatten().filter(|gap| gap.transfer.is_none());
        assert_eq!(of("idle").count(), gaps.count());
        assert_eq!(of("transfer").count(), n_copies);
        let origin = trace.workers.iter().flatten().map(|event| event.start);
        let origin =
            origin.chain(trace.transfers.iter().flatten().map(|transfer| transfer.start)).min().unwrap();
        for (worker, events) in trace.workers.iter().enumerate() {
            let own =
                of("task").filter(|slice| tracks[&slice.track].starts_with(&format!("worker {worker} ")));
            for (event, slice) in events.iter().zip(own) {
                let info = &trace.scene.tasks[event.task as usize];
                let nanos =
                    |ticks: u64| ((ticks - origin) as f64 / trace.ticks_per_second * 1e9).round() as u64;
                assert!(
                    slice.start.abs_diff(nanos(event.start)) <= 1
                        && slice.end.abs_diff(nanos(event.end)) <= 1
                );
                assert_eq!(slice.name, info.codelet);
                assert_eq!(slice.args["step"], (event.step + 1).to_string());
                assert_eq!(slice.args["bytes"], info.bytes.to_string());
                assert_eq!(slice.args["tile"], format!("{} of {}", info.tile.0 + 1, info.tile.1));
                let layer = trace.scene.scopes_of(info).next();
                assert_eq!(slice.args.get("layer").map(String::as_str), layer);
                assert!(slice.args["line"].contains("turn/mod.rs"));
            }
        }
        // Flows lead from one worker to another, forward in time.
        let mut from = HashMap::new();
        for slice in &slices {
            for flow in &slice.leaving {
                assert!(from.insert(*flow, slice).is_none());
            }
        }
        let awaited = idle.iter().flatten().filter(|gap| gap.awaited.is_some()).count();
        assert_eq!(from.len(), awaited);
        for (to, flow) in slices.iter().flat_map(|slice| slice.arriving.iter().map(move |flow| (slice, flow)))
        {
            let from = from.remove(flow).expect("a flow begins before it ends");
            assert!(from.end <= to.start + 1 && from.track != to.track);
        }
        assert!(from.is_empty());
    }
}

/// Runs a program on this input and returns what it prints, or says that it is skipped if the program is not
/// there.
fn run(program: &str, args: &[&str], input: &[u8]) -> Option<String> {
    let started = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Past the harness, which hides what passing tests print.
            let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
            return None;
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let (text, complaints) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && complaints.is_empty(), "{program}: {complaints}\n{text}");
    Some(text)
}

#[test]
fn pj_dump_reads_paje_without_complaint() {
    let turn = Turn::new(6, 2, 8);
    for (i, machine) in machines().enumerate() {
        let trace = traced(&turn, &machine, i % 2 == 0, 20, 1 << 10);
        let Some(dump) = run("pj_dump", &["--user-defined"], &written(&trace, Format::Paje)) else { return };
        let rows: Vec<Vec<&str>> = dump.lines().map(|line| line.split(", ").collect()).collect();
        let is_task = |name: &str| ["turn", "assemble"].contains(&name);
        let states = rows.iter().filter(|row| row[0] == "State" && is_task(row[7])).count();
        assert_eq!(states, trace.workers.iter().map(Vec::len).sum::<usize>(), "{dump}");
        let seconds: f64 = rows
            .iter()
            .filter(|row| row.get(7).is_some_and(|name| is_task(name)))
            .map(|row| row[5].parse::<f64>().unwrap())
            .sum();
        assert!(
            (seconds - trace.seconds().0).abs() < 1e-5 * states as f64,
            "{seconds} and {}",
            trace.seconds().0
        );
        let layers =
            |layer: &str| rows.iter().filter(|row| row[0] == "State" && row.last() == Some(&layer)).count();
        let is_for = |event: &&Event, layer: &str| {
            trace.scene.scopes_of(&trace.scene.tasks[event.task as usize]).eq([layer])
        };
        for layer in &trace.scene.scopes {
            let expected = trace.workers.iter().flatten().filter(|event| is_for(event, layer)).count();
            assert_eq!(layers(layer), expected, "{layer} in {dump}");
        }
        let links = rows.iter().filter(|row| row[0] == "Link").count();
        assert_eq!(links, trace.idle().iter().flatten().filter(|gap| gap.awaited.is_some()).count());
        let names: HashSet<&str> =
            rows.iter().filter(|row| row[0] == "Container").map(|row| row[6]).collect();
        assert_eq!(names.iter().filter(|name| name.contains("worker")).count(), machine.units.len());
    }
}

#[test]
fn dot_draws_every_task_and_edge() {
    let turn = Turn::new(6, 2, 8);
    for is_planned in [true, false] {
        let mut trace = traced(&turn, &Machine::with_workers(2), is_planned, 1, 16);
        let text = String::from_utf8(written(&trace, Format::Dot)).unwrap();
        let memory =
            trace.scene.edges.iter().filter(|edge| edge.kind == dahl_runtime::graph::EdgeKind::Memory);
        assert_eq!(text.matches("style=dashed").count(), memory.count());
        assert_eq!(text.matches(" -> ").count(), trace.scene.edges.len());
        assert_eq!(text.matches("\\ntile ").count(), trace.scene.tasks.len());
        let last = trace.scene.tasks.iter().filter(|task| trace.scene.scopes_of(task).eq(["turn 3"]));
        assert_eq!(text.matches("\\nturn 3\\ntile ").count(), last.count());
        // Names of others may have anything in them.
        let scene = std::sync::Arc::make_mut(&mut trace.scene);
        scene.tasks[0].codelet = "say \"a\\b\" -> {c}; <d>".to_string();
        let Some(svg) = run("dot", &["-Tsvg"], &written(&trace, Format::Dot)) else { return };
        assert_eq!(svg.matches("class=\"node\"").count(), trace.scene.tasks.len());
        assert_eq!(svg.matches("class=\"edge\"").count(), trace.scene.edges.len());
        assert!(svg.contains("say &quot;a\\b&quot; &#45;&gt; {c}; &lt;d&gt;"), "{svg}");
    }
}
