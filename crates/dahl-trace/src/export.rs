//! Writing traces for others to look at.
//!
//! To add a format: its file beside this one with a function `write`, its variant in [`Format`] with name and
//! extensions, and its arm in [`write()`].

use super::html::Page;
use super::{dot, file, paje, perfetto};
use dahl_runtime::error::{Error, ErrorKind, Result};
use dahl_runtime::file::{Input, unwritable};
use dahl_runtime::shown;
use dahl_runtime::trace::{Event, Idle, Scene, TaskInfo, Trace};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For <https://ui.perfetto.dev>: a track per worker, a slice per task, arrows from what was waited for.
    Perfetto,
    /// For ViTE, `pj_dump` and others that read Paje.
    Paje,
    /// The task graph, for Graphviz.
    Dot,
    /// A page for any browser, which needs nothing else: see [`Page`].
    Html,
    /// dahl's own, which [`load`] reads: one JSON array per line.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] = [Format::Perfetto, Format::Paje, Format::Dot, Format::Html, Format::Json];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Format::Perfetto => "perfetto",
            Format::Paje => "paje",
            Format::Dot => "dot",
            Format::Html => "html",
            Format::Json => "json",
        }
    }

    /// How names of such files end.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Perfetto => &["perfetto", "pftrace"],
            Format::Paje => &["paje", "trace"],
            Format::Dot => &["dot"],
            Format::Html => &["html"],
            Format::Json => &["json"],
        }
    }

    /// The format that the name of a file asks for.
    pub fn of_path(path: &Path) -> Result<Format> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        Format::ALL.into_iter().find(|format| format.extensions().contains(&extension)).ok_or_else(|| {
            let known = Format::ALL.map(|format| {
                let endings: Vec<String> = format.extensions().iter().map(|e| format!(".{e}")).collect();
                format!("{} ({})", endings.join(" or "), format.name())
            });
            let message = format!(
                "the format of a trace goes by the ending of its file, and {} has none that is known: use {}",
                shown::path(path),
                known.join(", ")
            );
            Error::new(ErrorKind::Io, message)
        })
    }
}

/// Writes a trace.
pub fn write(trace: &Trace, format: Format, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    match format {
        Format::Perfetto => perfetto::write(trace, &mut out)?,
        Format::Paje => paje::write(trace, &mut out)?,
        Format::Dot => dot::write(&trace.scene, &mut out)?,
        Format::Html => Page::default().write(trace, &mut out)?,
        Format::Json => file::write(trace, &mut out)?,
    }
    out.flush()
}

/// Writes a trace into a file, whole or not at all, in the format that its name asks for.
pub fn save(trace: &Trace, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let format = Format::of_path(path)?;
    dahl_runtime::file::write(path, |out| write(trace, format, out)).map_err(|error| {
        let message = format!("{}: the trace {}", shown::path(path), unwritable(&error));
        Error::new(ErrorKind::Io, message).because_of(error)
    })
}

/// Reads a trace that was written as [`Format::Json`].
pub fn load(path: impl AsRef<Path>) -> Result<Trace> {
    let path = path.as_ref();
    let what = format!("cannot read {}", shown::path(path));
    let input = Input::open(path, file::MAX_BYTES).map_err(|error| error.into_error(&what))?;
    file::read(io::BufReader::new(input)).map_err(|why| Error::new(ErrorKind::Io, format!("{what}: {why}")))
}

/// Nanoseconds from `origin` to `ticks`.
pub(crate) fn nanos(trace: &Trace, origin: u64, ticks: u64) -> u64 {
    (ticks.saturating_sub(origin) as f64 * 1e9 / trace.ticks_per_second.max(1e-9)).round() as u64
}

/// What a task is for, as `conv1+relu1`; empty if nobody said.
pub(crate) fn scopes(scene: &Scene, task: &TaskInfo) -> String {
    scene.scopes_of(task).collect::<Vec<_>>().join("+")
}

/// What was dropped of a worker's events, as a sentence, if anything was.
pub(crate) fn dropped_note(trace: &Trace, worker: usize) -> Option<String> {
    let n = trace.n_dropped.get(worker).copied().filter(|&n| n > 0)?;
    Some(format!("{n} older events were dropped"))
}

/// A stretch of a worker's time.
#[derive(Clone, Copy)]
pub(super) enum Slice<'a> {
    Task(&'a Event),
    Idle(&'a Idle),
}

impl Slice<'_> {
    pub fn start(&self) -> u64 {
        match self {
            Slice::Task(event) => event.start,
            Slice::Idle(idle) => idle.start,
        }
    }

    pub fn end(&self) -> u64 {
        match self {
            Slice::Task(event) => event.end,
            Slice::Idle(idle) => idle.end,
        }
    }
}

/// A worker's time, in order.
pub(super) fn timeline<'a>(events: &'a [Event], gaps: &'a [Idle]) -> impl Iterator<Item = Slice<'a>> {
    let (mut events, mut gaps) = (events.iter().peekable(), gaps.iter().peekable());
    std::iter::from_fn(move || {
        let event = events.peek().map(|event| event.start);
        let gap = gaps.next_if(|gap| event.is_none_or(|start| gap.start < start));
        gap.map(Slice::Idle).or_else(|| events.next().map(Slice::Task))
    })
}

/// Colours that can be told apart, by number: hue around the circle, in two strengths.
pub(super) fn colour(number: usize) -> [f64; 3] {
    let hue = (number as f64 * 0.381_966_011) % 1.0 * 6.0;
    let (low, high) = if number.is_multiple_of(2) { (0.45, 0.92) } else { (0.62, 0.98) };
    let channel = |shift: f64| {
        let distance = ((hue + shift) % 6.0 - 3.0).abs();
        low + (high - low) * (distance - 1.0).clamp(0.0, 1.0)
    };
    [channel(0.0), channel(4.0), channel(2.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_and_an_unknown_one_is_refused_with_the_list() {
        assert_eq!(Format::of_path(Path::new("a/b.pftrace")).unwrap(), Format::Perfetto);
        assert_eq!(Format::of_path(Path::new("x.trace")).unwrap(), Format::Paje);
        for path in ["x.txt", "x", ""] {
            let error = Format::of_path(Path::new(path)).unwrap_err().to_string();
            assert!(
                error.contains(".perfetto or .pftrace (perfetto)") && error.contains(".json (json)"),
                "{error}"
            );
        }
    }
}
