//! dahl's own format: one JSON array per line, each beginning with what it is.
//!
//! The first line is `["dahl-trace",3]`, the last one `["end",n]` with the number of lines before it, so that
//! neither another version nor a file that was cut off is taken for a whole trace. In between, in this order:
//!
//! ```text
//! ["clock",ticks per second]
//! ["schedule","planned" | "open" | "submitted"]
//! ["memory",name]
//! ["worker",kind,memory,core or null]
//! ["scope",name]
//! ["task",codelet,implementation,version,dtype,footprint,"cold" | "warm",tile,tiles,bytes,flops,
//!  worker or null,line,scope …]
//! ["edge",from,to,distance,"data" | "memory"]
//! ["block",name,bytes]
//! ["dropped",list,n]
//! ["release",steps,ticks]
//! ["event",worker,task,step,start,end]
//! ["transfer",list,block,from,to,step,start,end]
//! ```
//!
//! Where a kernel chooses its algorithm by itself, that follows the implementation's name and a slash.
//! Memories, workers, scopes, tasks and blocks are numbered in the order of their lines. A task ends with the
//! numbers of all of its scopes, if it has any. List `w` is that of worker `w`; the one after the last
//! worker's is the program's.
//!
//! Version 2 is the same without scopes, and is still read.

use super::json::quoted;
use dahl_runtime::graph::{Edge, EdgeKind, ScopeId};
use dahl_runtime::trace::{
    BlockInfo, Dispatch, Event, Release, Scene, TaskInfo, Trace, Transfer, WorkerInfo,
};
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

/// Rises when older programs could no longer read what is written.
const VERSION: u64 = 3;
/// The oldest version that is read.
const OLDEST: u64 = 2;
const MAGIC: &str = "dahl-trace";
/// The largest trace that is read: some hundred million executions.
pub(super) const MAX_BYTES: u64 = 8 << 30;
/// The longest line, which is mostly names.
const MAX_LINE_BYTES: u64 = 1 << 20;
const COLD: &str = "cold";
const WARM: &str = "warm";

const DISPATCHES: [(&str, Dispatch); 3] =
    [("planned", Dispatch::Planned), ("open", Dispatch::Open), ("submitted", Dispatch::Submitted)];

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let mut n_lines = 0;
    let mut line = |text: std::fmt::Arguments<'_>| {
        n_lines += 1;
        writeln!(out, "[{text}]")
    };
    let scene = &*trace.scene;
    line(format_args!("\"{MAGIC}\",{VERSION}"))?;
    line(format_args!("\"clock\",{}", trace.ticks_per_second))?;
    let schedule =
        DISPATCHES.iter().find(|(_, schedule)| *schedule == scene.dispatch).map_or("", |(name, _)| name);
    line(format_args!("\"schedule\",\"{schedule}\""))?;
    for name in &scene.memories {
        line(format_args!("\"memory\",{}", quoted(name)))?;
    }
    for WorkerInfo { kind, memory, core } in &scene.workers {
        line(format_args!("\"worker\",{},{memory},{}", quoted(kind), or_null(*core)))?;
    }
    for name in &scene.scopes {
        line(format_args!("\"scope\",{}", quoted(name)))?;
    }
    for task in &scene.tasks {
        let (codelet, implementation) = (quoted(&task.codelet), quoted(&task.code()));
        let (dtype, footprint) = (quoted(&task.dtype), quoted(&task.footprint));
        let TaskInfo { version, tile: (tile, tiles), bytes, flops, .. } = task;
        let warmth = if task.is_cold { COLD } else { WARM };
        let (worker, source) = (or_null(task.worker), quoted(&task.line));
        let scopes: String = task.scopes.iter().map(|scope| format!(",{}", scope.0)).collect();
        line(format_args!(
            "\"task\",{codelet},{implementation},{version},{dtype},{footprint},\"{warmth}\",{tile},{tiles},{bytes},{flops},{worker},{source}{scopes}"
        ))?;
    }
    for Edge { from, to, distance, kind } in &scene.edges {
        let kind = if *kind == EdgeKind::Data { "data" } else { "memory" };
        line(format_args!("\"edge\",{from},{to},{distance},\"{kind}\""))?;
    }
    for BlockInfo { name, bytes } in &scene.blocks {
        line(format_args!("\"block\",{},{bytes}", quoted(name)))?;
    }
    for (list, n) in trace.n_dropped.iter().enumerate().filter(|(_, n)| **n > 0) {
        line(format_args!("\"dropped\",{list},{n}"))?;
    }
    for Release { steps, ticks } in &trace.releases {
        line(format_args!("\"release\",{steps},{ticks}"))?;
    }
    for (worker, events) in trace.workers.iter().enumerate() {
        for Event { task, step, start, end } in events {
            line(format_args!("\"event\",{worker},{task},{step},{start},{end}"))?;
        }
    }
    for (list, transfers) in trace.transfers.iter().enumerate() {
        for Transfer { block, from, to, step, start, end } in transfers {
            line(format_args!("\"transfer\",{list},{block},{from},{to},{step},{start},{end}"))?;
        }
    }
    writeln!(out, "[\"end\",{n_lines}]")
}

fn or_null(number: Option<usize>) -> String {
    number.map_or_else(|| "null".to_string(), |number| number.to_string())
}

/// Reads a trace; what is wrong with it is a sentence.
pub(super) fn read(input: impl BufRead) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut scene = Scene::default();
    let mut n_lines = 0_u64;
    for (i, line) in lines(input).enumerate() {
        let line = line?;
        let in_line = |error: String| format!("line {}: {error}", i + 1);
        let mut fields = if i == 0 {
            Fields::parse(&line).map_err(|_| not_ours())?
        } else {
            Fields::parse(&line).map_err(in_line)?
        };
        let what = fields.text().map_err(|error| if i == 0 { not_ours() } else { in_line(error) })?;
        if i == 0 {
            if what != MAGIC {
                return Err(not_ours());
            }
            let version: u64 = fields.number().map_err(|_| not_ours())?;
            if !(OLDEST..=VERSION).contains(&version) {
                return Err(format!(
                    "it is a trace of version {version}, and this dahl reads versions {OLDEST} to {VERSION}: use the dahl that wrote it"
                ));
            }
        } else if what == "end" {
            let expected: u64 = fields.number().map_err(in_line)?;
            if expected != n_lines {
                return Err(in_line(format!("there should be {expected} lines before, not {n_lines}")));
            }
            if trace.ticks_per_second == 0.0 {
                return Err(
                    "it has no line 'clock', without which nothing can be said about times".to_string()
                );
            }
            trace.scene = Arc::new(scene);
            return Ok(trace);
        } else {
            read_line(&what, &mut fields, &mut trace, &mut scene).map_err(in_line)?;
        }
        n_lines += 1;
    }
    Err(if n_lines == 0 { not_ours() } else { "it ends early: the last line is missing".to_string() })
}

/// The lines of a text, without their ends; one that is too long, or no text, is the last.
fn lines(mut input: impl BufRead) -> impl Iterator<Item = Result<String, String>> {
    let no_text = || "it is not a trace of dahl (JSON lines): it is no text".to_string();
    let mut next = move || -> Result<Option<String>, String> {
        let mut line = Vec::new();
        let limit = MAX_LINE_BYTES + 1;
        let n = input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if n as u64 == limit {
            return Err(format!("it is not a trace of dahl: a line has more than {MAX_LINE_BYTES} bytes"));
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        if n == 0 { Ok(None) } else { String::from_utf8(line).map(Some).map_err(|_| no_text()) }
    };
    std::iter::from_fn(move || next().transpose())
}

fn not_ours() -> String {
    format!(
        "it is not a trace of dahl, which begins with [\"{MAGIC}\",{VERSION}]: save one with the ending .json"
    )
}

fn read_line(what: &str, f: &mut Fields, trace: &mut Trace, scene: &mut Scene) -> Result<(), String> {
    let n_workers = scene.workers.len();
    match what {
        "clock" => trace.ticks_per_second = f.amount("a number of ticks per second", |ticks| ticks > 0.0)?,
        "schedule" => {
            let name = f.text()?;
            let known = DISPATCHES.iter().find(|(known, _)| *known == name);
            scene.dispatch = known.ok_or_else(|| format!("there is no schedule '{name}'"))?.1;
        }
        "memory" => scene.memories.push(f.text()?),
        "worker" => {
            let kind = f.text()?;
            let memory = f.index(scene.memories.len(), "memory")?;
            scene.workers.push(WorkerInfo { kind, memory, core: f.optional()? });
            let n = scene.workers.len();
            trace.workers.resize_with(n, Vec::new);
            trace.transfers.resize_with(n + 1, Vec::new);
            trace.n_dropped.resize(n + 1, 0);
        }
        "scope" => scene.scopes.push(f.text()?),
        "task" => {
            let (codelet, implementation, version) = (f.text()?, f.text()?, f.number()?);
            let (implementation, algorithm) = match implementation.split_once('/') {
                Some((implementation, algorithm)) => (implementation.to_string(), algorithm.to_string()),
                None => (implementation, String::new()),
            };
            let (dtype, footprint) = (f.text()?, f.text()?);
            let is_cold = match f.text()?.as_str() {
                COLD => true,
                WARM => false,
                other => return Err(format!("a task is {COLD} or {WARM}, not '{other}'")),
            };
            let (tile, bytes) = ((f.number()?, f.number()?), f.number()?);
            let flops = f.amount("a number of operations", |flops| flops >= 0.0)?;
            let (worker, line) = (f.optional()?, f.text()?);
            let mut scopes = Vec::new();
            while f.has_more() {
                scopes.push(ScopeId(f.index(scene.scopes.len(), "scope")?));
            }
            scene.tasks.push(TaskInfo {
                codelet,
                implementation,
                algorithm,
                version,
                dtype,
                footprint,
                is_cold,
                tile,
                bytes,
                flops,
                worker,
                line,
                scopes,
            });
        }
        "edge" => {
            let n = scene.tasks.len();
            let (from, to) = (f.index(n, "task")? as u32, f.index(n, "task")? as u32);
            let distance = f.number()?;
            let kind = match f.text()?.as_str() {
                "data" => EdgeKind::Data,
                "memory" => EdgeKind::Memory,
                other => return Err(format!("there is no kind of edge '{other}'")),
            };
            scene.edges.push(Edge { from, to, distance, kind });
        }
        "block" => scene.blocks.push(BlockInfo { name: f.text()?, bytes: f.number()? }),
        "dropped" => {
            let list = f.index(trace.n_dropped.len(), "list")?;
            trace.n_dropped[list] = f.number()?;
        }
        "release" => trace.releases.push(Release { steps: f.number()?, ticks: f.number()? }),
        "event" => {
            let worker = f.index(n_workers, "worker")?;
            let task = f.index(scene.tasks.len(), "task")? as u32;
            let (step, (start, end)) = (f.number()?, f.interval()?);
            trace.workers[worker].push(Event { task, step, start, end });
        }
        "transfer" => {
            let list = f.index(trace.transfers.len(), "list")?;
            let block = f.index(scene.blocks.len(), "block")? as u32;
            let n = scene.memories.len();
            let (from, to) = (f.index(n, "memory")?, f.index(n, "memory")?);
            let (step, (start, end)) = (f.number()?, f.interval()?);
            trace.transfers[list].push(Transfer { block, from, to, step, start, end });
        }
        other => return Err(format!("there is nothing called '{other}' in version {VERSION}")),
    }
    f.finished()
}

/// The values of a line.
struct Fields(std::vec::IntoIter<Value>);

enum Value {
    Text(String),
    /// A number, as it is written, or `null`.
    Bare(String),
}

impl Fields {
    /// An array of strings, numbers and nulls.
    fn parse(line: &str) -> Result<Fields, String> {
        let inside = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        let mut rest = inside.ok_or("it should be an array in brackets")?;
        let mut values = Vec::new();
        loop {
            let value;
            (value, rest) = match rest.strip_prefix('"') {
                Some(text) => unquote(text)?,
                None => {
                    let (bare, rest) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                    (Value::Bare(bare.trim().to_string()), rest)
                }
            };
            values.push(value);
            match rest.strip_prefix(',') {
                Some(more) => rest = more.trim_start(),
                None if rest.is_empty() => return Ok(Fields(values.into_iter())),
                None => return Err(format!("there should be a comma before '{rest}'")),
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(text),
            Some(Value::Bare(bare)) => Err(format!("there should be a text instead of {bare}")),
            None => Err("a text is missing".to_string()),
        }
    }

    fn number<N: std::str::FromStr>(&mut self) -> Result<N, String> {
        match self.0.next() {
            Some(Value::Bare(bare)) => bare.parse().map_err(|_| format!("'{bare}' is no number that fits")),
            Some(Value::Text(text)) => Err(format!("there should be a number instead of \"{text}\"")),
            None => Err("a number is missing".to_string()),
        }
    }

    /// A finite number that can be what it stands for.
    fn amount(&mut self, what: &str, is_sane: impl Fn(f64) -> bool) -> Result<f64, String> {
        let number: f64 = self.number()?;
        if number.is_finite() && is_sane(number) {
            Ok(number)
        } else {
            Err(format!("{number} is not {what}"))
        }
    }

    fn optional(&mut self) -> Result<Option<usize>, String> {
        match self.0.as_slice().first() {
            Some(Value::Bare(bare)) if bare == "null" => {
                self.0.next();
                Ok(None)
            }
            _ => self.number().map(Some),
        }
    }

    /// A number below `n`.
    fn index(&mut self, n: usize, what: &str) -> Result<usize, String> {
        let index: usize = self.number()?;
        if index < n { Ok(index) } else { Err(format!("there is no {what} {index}: there are {n}")) }
    }

    fn interval(&mut self) -> Result<(u64, u64), String> {
        let (start, end) = (self.number()?, self.number()?);
        if start <= end {
            Ok((start, end))
        } else {
            Err(format!("it ends at {end}, before its start at {start}"))
        }
    }

    fn has_more(&self) -> bool {
        !self.0.as_slice().is_empty()
    }

    fn finished(&mut self) -> Result<(), String> {
        if self.has_more() { Err("there is more in it than there should be".to_string()) } else { Ok(()) }
    }
}

/// A string, from after its opening quote, and what follows it.
fn unquote(text: &str) -> Result<(Value, &str), String> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    let unknown = || "a string has an escape that is not known".to_string();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Value::Text(value), &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\' | '/'))) => value.push(c),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((at, 'u')) => {
                    let code = text.get(at + 1..at + 5).and_then(|code| u32::from_str_radix(code, 16).ok());
                    value.push(code.and_then(char::from_u32).ok_or_else(unknown)?);
                    chars.nth(3);
                }
                _ => return Err(unknown()),
            },
            c => value.push(c),
        }
    }
    Err("a string does not end".to_string())
}
