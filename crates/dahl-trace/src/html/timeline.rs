//! What each worker did when, as columns of small numbers.
//!
//! A row is the time of a worker in slices: executions, copies, and gaps with their reasons. Of each slice it
//! has `k` (the task, or −1 − the number of the reason), `g` (nanoseconds since the end of the slice before;
//! the first counts from the beginning of the trace), `d` (nanoseconds that it took) and `x`: of an execution
//! how many steps it is after the one before, of a copy which one (from 1), of another gap the task that was
//! waited for (from 1; 0 if there is none). Overhead is not written down: it is what lies between two slices.
//! Where the program made copies itself, they are the last row.

use super::json::{list, number, object, quoted};
use crate::export::{Slice, nanos, timeline};
use dahl_runtime::graph::{ScopeId, TaskId};
use dahl_runtime::trace::{Reason, TaskInfo, Trace, Transfer};
use std::collections::HashMap;
use std::hash::Hash;

/// The newest `max_events` of a trace.
pub(super) fn to_json(trace: &Trace, max_events: usize) -> String {
    let scene = &*trace.scene;
    let since = newest_since(trace, max_events);
    let mut data = Data {
        trace,
        since,
        origin: trace.origin().max(since),
        tasks: Numbers::default(),
        transfers: Vec::new(),
        n_kept: 0,
    };
    let idle = trace.idle();
    let mut rows: Vec<String> =
        (0..trace.workers.len()).map(|worker| data.worker(worker, &idle[worker])).collect();
    rows.extend(data.program());
    let Data { tasks, transfers, n_kept, .. } = data;

    let n_events =
        trace.workers.iter().map(Vec::len).chain(trace.transfers.iter().map(Vec::len)).sum::<usize>();
    let usage = trace.usage();
    object(&[
        ("rows", list(rows)),
        ("tasks", tasks_to_json(trace, &tasks.values)),
        ("transfers", transfers_to_json(trace, &transfers)),
        ("memories", list(scene.memories.iter().map(|name| quoted(name)))),
        ("reasons", list(Reason::ALL.map(|reason| quoted(reason.name())))),
        ("kept", n_kept.to_string()),
        ("events", n_events.to_string()),
        ("dropped", trace.total_dropped().to_string()),
        ("steps", usage.n_steps.to_string()),
        ("median_step", number(1e9 * usage.median_step_seconds)),
        ("median_overhead", number(usage.median_overhead)),
    ])
}

/// The tick since when there are `max_events` events, executions and copies together.
fn newest_since(trace: &Trace, max_events: usize) -> u64 {
    let events = trace.workers.iter().flatten().map(|event| event.start);
    let mut starts: Vec<u64> =
        events.chain(trace.transfers.iter().flatten().map(|copy| copy.start)).collect();
    match starts.len().checked_sub(max_events) {
        Some(n_older) if n_older > 0 && max_events > 0 => *starts.select_nth_unstable(n_older).1,
        _ => 0,
    }
}

/// Numbers in the order in which things are first met.
struct Numbers<T> {
    values: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { values: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> Numbers<T> {
    fn of(&mut self, value: T) -> usize {
        *self.known.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() - 1
        })
    }
}

struct Data<'a> {
    trace: &'a Trace,
    /// Nothing that began earlier is kept.
    since: u64,
    origin: u64,
    tasks: Numbers<TaskId>,
    transfers: Vec<Transfer>,
    n_kept: usize,
}

impl<'a> Data<'a> {
    fn worker(&mut self, worker: usize, gaps: &[dahl_runtime::trace::Idle]) -> String {
        let (trace, since) = (self.trace, self.since);
        let mut row = Columns::new(trace, self.origin);
        let events = &trace.workers[worker];
        let mut step = None;
        for slice in timeline(events, gaps).filter(|slice| slice.start() >= since) {
            match slice {
                Slice::Task(event) => {
                    let delta = i64::from(event.step) - step.map_or(0, i64::from);
                    step = Some(event.step);
                    row.push(self.tasks.of(event.task) as i64, event.start, event.end, delta);
                    self.n_kept += 1;
                }
                Slice::Idle(gap) => match gap.transfer {
                    Some(transfer) => self.copy(&mut row, transfer),
                    None if gap.reason == Reason::Overhead => {}
                    None => {
                        let awaited = gap.awaited.map_or(0, |(task, _)| self.tasks.of(task) as i64 + 1);
                        row.push(-1 - gap.reason as i64, gap.start, gap.end, awaited);
                    }
                },
            }
        }
        // Copies after the last execution are not part of any gap.
        let end = events.last().map_or(since, |event| event.start.max(since));
        for transfer in trace.transfers.get(worker).into_iter().flatten().filter(|copy| copy.start >= end) {
            self.copy(&mut row, *transfer);
        }
        let info = trace.scene.workers.get(worker);
        let detail = info.map_or(String::new(), |info| info.to_string());
        let dropped = trace.n_dropped.get(worker).copied().unwrap_or(0);
        row.to_json(&format!("worker {worker}"), &detail, dropped)
    }

    /// The copies that the program made itself, if there are any.
    fn program(&mut self) -> Option<String> {
        let (trace, since) = (self.trace, self.since);
        let transfers = trace.transfers.get(trace.workers.len()).filter(|transfers| !transfers.is_empty())?;
        let mut row = Columns::new(trace, self.origin);
        for transfer in transfers.iter().filter(|copy| copy.start >= since) {
            self.copy(&mut row, *transfer);
        }
        let dropped = trace.n_dropped.get(trace.workers.len()).copied().unwrap_or(0);
        Some(row.to_json("program", "copies", dropped))
    }

    fn copy(&mut self, row: &mut Columns<'a>, transfer: Transfer) {
        self.transfers.push(transfer);
        self.n_kept += 1;
        let reason = -1 - Reason::Transfer as i64;
        row.push(reason, transfer.start, transfer.end, self.transfers.len() as i64);
    }
}

struct Columns<'a> {
    trace: &'a Trace,
    origin: u64,
    /// The end of the last slice in nanoseconds. Rounded times are subtracted, so that roundings do not add
    /// up.
    end: u64,
    kinds: Vec<i64>,
    gaps: Vec<i64>,
    durations: Vec<u64>,
    extras: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn new(trace: &'a Trace, origin: u64) -> Self {
        let (kinds, gaps, durations, extras) = Default::default();
        Columns { trace, origin, end: 0, kinds, gaps, durations, extras }
    }

    fn push(&mut self, kind: i64, start: u64, end: u64, extra: i64) {
        let time = |ticks| nanos(self.trace, self.origin, ticks);
        let (start, end) = (time(start), time(end));
        self.kinds.push(kind);
        self.gaps.push(start.wrapping_sub(self.end) as i64);
        self.durations.push(end.saturating_sub(start));
        self.extras.push(extra);
        self.end = end;
    }

    fn to_json(&self, name: &str, detail: &str, dropped: u64) -> String {
        object(&[
            ("name", quoted(name)),
            ("detail", quoted(detail)),
            ("dropped", dropped.to_string()),
            ("k", list(&self.kinds)),
            ("g", list(&self.gaps)),
            ("d", list(&self.durations)),
            ("x", list(&self.extras)),
        ])
    }
}

/// The tasks that were met, in columns; texts are written once. A layer is a list of scopes: those of a task.
fn tasks_to_json(trace: &Trace, ids: &[TaskId]) -> String {
    let tasks: Vec<&TaskInfo> = ids.iter().filter_map(|&id| trace.scene.tasks.get(id as usize)).collect();
    let texts = |name: &'static str, numbers: &'static str, text: fn(&TaskInfo) -> &str| {
        let mut known = Numbers::default();
        let column = list(tasks.iter().map(|task| known.of(text(task))));
        [(name, list(known.values.iter().map(|text| quoted(text)))), (numbers, column)]
    };
    let column = |value: fn(&TaskInfo) -> f64| list(tasks.iter().map(|task| number(value(task))));
    let mut fields = Vec::new();
    fields.extend(texts("codelets", "codelet", |task| &task.codelet));
    fields.extend(texts("implementations", "implementation", |task| &task.implementation));
    fields.extend(texts("lines", "line", |task| &task.line));
    fields.extend(texts("dtypes", "dtype", |task| &task.dtype));
    fields.extend(texts("footprints", "footprint", |task| &task.footprint));
    let mut scopes = Numbers::default();
    fields.push(("layer", list(tasks.iter().map(|task| scopes.of(task.scopes.as_slice())))));
    let numbers = |scopes: &&[ScopeId]| list(scopes.iter().map(|scope| scope.0));
    fields.push(("layers", list(scopes.values.iter().map(numbers))));
    fields.push(("scopes", list(trace.scene.scopes.iter().map(|name| quoted(name)))));
    fields.extend([
        ("tile", column(|task| task.tile.0 as f64)),
        ("tiles", column(|task| task.tile.1 as f64)),
        ("flops", column(|task| task.flops)),
        ("bytes", column(|task| task.bytes as f64)),
        ("cold", column(|task| f64::from(u8::from(task.is_cold)))),
    ]);
    object(&fields)
}

/// The copies that were met, in columns.
fn transfers_to_json(trace: &Trace, transfers: &[Transfer]) -> String {
    let mut blocks = Numbers::default();
    let block = list(transfers.iter().map(|copy| blocks.of(copy.block)));
    let info = |id: &u32| trace.scene.blocks.get(*id as usize);
    let name = |id: &u32| quoted(info(id).map_or("", |block| &block.name));
    object(&[
        ("block", block),
        ("from", list(transfers.iter().map(|copy| copy.from))),
        ("to", list(transfers.iter().map(|copy| copy.to))),
        ("step", list(transfers.iter().map(|copy| copy.step))),
        ("names", list(blocks.values.iter().map(name))),
        ("bytes", list(blocks.values.iter().map(|id| info(id).map_or(0, |block| block.bytes)))),
    ])
}
