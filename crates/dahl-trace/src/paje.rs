//! Paje, for ViTE and `pj_dump`: containers for workers, a state per task and per gap, links from what was
//! waited for.
//!
//! Times are seconds from the first event. Events are written in the order of time, as readers of Paje
//! expect. A state carries its step, tile, bytes and layer in fields of its own; readers that do not know
//! them pass over them. What has no tile or layer has a dash, because readers stumble over empty texts.

use super::export::{Slice, colour, dropped_note, nanos, scopes, timeline};
use dahl_runtime::graph::TaskId;
use dahl_runtime::trace::{Idle, Reason, Trace, Transfer};
use std::collections::HashMap;
use std::io::{self, Write};

/// A kind of line: its name, its number, and names and types of its fields.
type Definition = (&'static str, u32, &'static [(&'static str, &'static str)]);

/// The kinds of lines that follow.
const DEFINITIONS: &[Definition] = &[
    ("PajeDefineContainerType", 0, &[("Alias", "string"), ("Type", "string"), ("Name", "string")]),
    ("PajeDefineStateType", 1, &[("Alias", "string"), ("Type", "string"), ("Name", "string")]),
    (
        "PajeDefineLinkType",
        2,
        &[
            ("Alias", "string"),
            ("Type", "string"),
            ("StartContainerType", "string"),
            ("EndContainerType", "string"),
            ("Name", "string"),
        ],
    ),
    (
        "PajeDefineEntityValue",
        3,
        &[("Alias", "string"), ("Type", "string"), ("Name", "string"), ("Color", "color")],
    ),
    (
        "PajeCreateContainer",
        4,
        &[
            ("Time", "date"),
            ("Alias", "string"),
            ("Type", "string"),
            ("Container", "string"),
            ("Name", "string"),
        ],
    ),
    ("PajeDestroyContainer", 5, &[("Time", "date"), ("Type", "string"), ("Name", "string")]),
    (
        "PajeSetState",
        6,
        &[
            ("Time", "date"),
            ("Type", "string"),
            ("Container", "string"),
            ("Value", "string"),
            ("Step", "int"),
            ("Tile", "string"),
            ("Bytes", "int"),
            ("Layer", "string"),
        ],
    ),
    (
        "PajeStartLink",
        7,
        &[
            ("Time", "date"),
            ("Type", "string"),
            ("Container", "string"),
            ("StartContainer", "string"),
            ("Value", "string"),
            ("Key", "string"),
        ],
    ),
    (
        "PajeEndLink",
        8,
        &[
            ("Time", "date"),
            ("Type", "string"),
            ("Container", "string"),
            ("EndContainer", "string"),
            ("Value", "string"),
            ("Key", "string"),
        ],
    ),
];

/// What happens at a moment.
enum Moment<'a> {
    Slice(usize, Slice<'a>),
    /// A worker has nothing more to do.
    Rest(usize),
    /// Start and end of what was waited for: worker and number.
    Leaves(usize, usize),
    Arrives(usize, usize),
}

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let (idle, origin) = (trace.idle(), trace.origin());
    let seconds = |ticks: u64| nanos(trace, origin, ticks) as f64 / 1e9;
    define(trace, out)?;
    let end = trace.workers.iter().flatten().map(|event| event.end).max().unwrap_or(origin);
    let program = trace.transfers.get(trace.workers.len()).map_or(&[][..], |transfers| &transfers[..]);
    let end = program.iter().map(|transfer| transfer.end).fold(end, u64::max);
    let gap = |transfer: &Transfer| Idle {
        start: transfer.start,
        end: transfer.end,
        reason: Reason::Transfer,
        before: (0, transfer.step),
        awaited: None,
        transfer: Some(*transfer),
    };
    let program: Vec<Idle> = program.iter().map(gap).collect();

    let mut moments: Vec<(u64, Moment<'_>)> = Vec::new();
    for (worker, (events, gaps)) in trace.workers.iter().zip(&idle).enumerate() {
        add_slices(worker, timeline(events, gaps), &mut moments);
    }
    add_slices(trace.workers.len(), timeline(&[], &program), &mut moments);
    add_links(trace, &idle, &mut moments);
    // Stable: where one slice ends another may begin.
    moments.sort_by_key(|(ticks, _)| *ticks);
    for (ticks, moment) in moments {
        let time = seconds(ticks);
        match moment {
            Moment::Slice(worker, slice) => state(trace, out, time, worker, slice)?,
            Moment::Rest(worker) => writeln!(out, "6 {time:.9} S w{worker} rest 0 - 0 -")?,
            Moment::Leaves(worker, key) => writeln!(out, "7 {time:.9} L p w{worker} awaited k{key}")?,
            Moment::Arrives(worker, key) => writeln!(out, "8 {time:.9} L p w{worker} awaited k{key}")?,
        }
    }
    let end = seconds(end);
    for worker in 0..=trace.workers.len() {
        writeln!(out, "5 {end:.9} W w{worker}")?;
    }
    writeln!(out, "5 {end:.9} P p")
}

fn define(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    for (name, number, fields) in DEFINITIONS {
        writeln!(out, "%EventDef {name} {number}")?;
        for (field, kind) in *fields {
            writeln!(out, "%\t{field} {kind}")?;
        }
        writeln!(out, "%EndEventDef")?;
    }
    for worker in 0..=trace.workers.len() {
        if let Some(note) = dropped_note(trace, worker) {
            writeln!(out, "# worker {worker}: {note}")?;
        }
    }
    writeln!(out, "0 P 0 \"dahl\"\n0 W P \"worker\"\n1 S W \"task\"\n2 L P W W \"awaited\"")?;
    let value = |out: &mut dyn Write, alias: &str, name: &str, [r, g, b]: [f64; 3]| {
        writeln!(out, "3 {alias} S {} \"{r:.3} {g:.3} {b:.3}\"", quoted(name))
    };
    for (i, codelet) in trace.scene.codelets().into_iter().enumerate() {
        value(out, &format!("c{i}"), codelet, colour(i))?;
    }
    for (i, reason) in Reason::ALL.into_iter().enumerate() {
        let shade = 0.55 + 0.07 * i as f64;
        value(out, &format!("r{i}"), &format!("idle: {}", reason.name()), [shade; 3])?;
    }
    value(out, "rest", "idle", [1.0; 3])?;
    writeln!(out, "3 awaited L \"awaited\" \"0.3 0.3 0.3\"")?;
    writeln!(out, "4 0.0 p P 0 \"dahl\"")?;
    for (worker, info) in trace.scene.workers.iter().enumerate() {
        writeln!(out, "4 0.0 w{worker} W p {}", quoted(&format!("worker {worker} ({info})")))?;
    }
    writeln!(out, "4 0.0 w{} W p \"program\"", trace.scene.workers.len())
}

/// Paje has no way to write a quote inside of a text, and what `pj_dump` prints is separated by commas.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'").replace(',', "").replace(|c: char| c.is_control(), " "))
}

fn add_slices<'a>(
    worker: usize,
    slices: impl Iterator<Item = Slice<'a>>,
    moments: &mut Vec<(u64, Moment<'a>)>,
) {
    let mut end = None;
    for slice in slices {
        if let Some(end) = end.filter(|&end| end < slice.start()) {
            moments.push((end, Moment::Rest(worker)));
        }
        moments.push((slice.start(), Moment::Slice(worker, slice)));
        end = Some(slice.end());
    }
    if let Some(end) = end {
        moments.push((end, Moment::Rest(worker)));
    }
}

/// From the end of what was waited for to the start of what waited, where different workers executed them.
fn add_links(trace: &Trace, idle: &[Vec<Idle>], moments: &mut Vec<(u64, Moment<'_>)>) {
    let mut executed: HashMap<(TaskId, u32), (usize, u64)> = HashMap::new();
    for (worker, events) in trace.workers.iter().enumerate() {
        executed.extend(events.iter().map(|event| ((event.task, event.step), (worker, event.end))));
    }
    let mut key = 0;
    for (worker, gaps) in idle.iter().enumerate() {
        for gap in gaps {
            let Some(&(other, end)) = gap.awaited.and_then(|awaited| executed.get(&awaited)) else {
                continue;
            };
            moments.push((end, Moment::Leaves(other, key)));
            moments.push((gap.end.max(end), Moment::Arrives(worker, key)));
            key += 1;
        }
    }
}

fn state(trace: &Trace, out: &mut impl Write, time: f64, worker: usize, slice: Slice<'_>) -> io::Result<()> {
    match slice {
        Slice::Task(event) => {
            let info = &trace.scene.tasks[event.task as usize];
            let (step, tile, tiles) = (u64::from(event.step) + 1, info.tile.0 + 1, info.tile.1);
            let (name, bytes) = (quoted(&info.codelet), info.bytes);
            let scopes = scopes(&trace.scene, info);
            let layer = if scopes.is_empty() { "-".to_string() } else { quoted(&scopes) };
            writeln!(out, "6 {time:.9} S w{worker} {name} {step} \"{tile} of {tiles}\" {bytes} {layer}")
        }
        Slice::Idle(gap) => {
            let bytes = gap.transfer.map_or(0, |transfer| trace.scene.blocks[transfer.block as usize].bytes);
            let (reason, step) = (gap.reason as usize, u64::from(gap.before.1) + 1);
            writeln!(out, "6 {time:.9} S w{worker} r{reason} {step} - {bytes} -")
        }
    }
}
