//! Machine files: what a machine has and what was measured on it, as text.
//!
//! A file is lines of words. Texts are one word each (`%20` is a space, `%` alone the empty text), what is
//! unknown is `-`, and what follows a `#` is a comment. The first line is `dahl-machine 1`; the last one is
//! `end` with the number of lines before it and their hash (comments and spaces do not count), or `-` in a
//! file that was written by hand. In between:
//!
//! ```text
//! processor NAME                                            | -
//! packages N | -      cores N | -      threads N | -        one line each
//! instructions SET ...                                      slowest first
//! memory NUMBER BYTES | -  LIMIT | -                        that of the host is 0
//! unit KIND  MEMORY  CORE | -                               in worker order
//! cache LEVEL data | instruction | unified  BYTES  LINE | -  THREADS  COUNT
//! node NUMBER BYTES | -  THREAD ...
//! measured DATE CORES                                       UTC, and how many cores "all" are; without
//!                                                           this line there is none of:
//! flops f32 | f64  ONE ALL                                  per second, on one core and on all together
//! bandwidth PLACE CAPACITY | -  own | shared  SHARING  BYTES  RATE ...
//!                                                           ONE ALL of read, copy, triad; SHARING of the
//!                                                           cores share it, and each went through BYTES
//! task SECONDS                                              beside its kernel
//! ```

use super::rates::{Bandwidth, MeasuredRates, MemoryLevel, Rate, Stream};
use super::{CPU, Cache, CacheKind, Hardware, Kind, Machine, Node, Unit};
use crate::date;
use crate::error::{Error, ErrorKind, Result};
use crate::file::{Unreadable, read_text};
use crate::hash::Fingerprint;
use crate::shown;
use crate::words::{Words, escaped};
use std::path::Path;
use std::str::FromStr;

/// Rises when older programs could no longer read what is written.
pub const VERSION: u32 = 1;
const MAGIC: &str = "dahl-machine";
/// Far more than any machine has; a file that has more is no machine file.
const MAX_LINES: usize = 1 << 20;
const MAX_BYTES: u64 = 64 << 20;

/// What a machine has, and what was measured on it.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFile {
    /// Units and memories.
    pub machine: Machine,
    /// Processor, caches, NUMA nodes. Counters of energy are not in files: whether they can be read is a
    /// matter of the moment.
    pub hardware: Hardware,
    /// Names of instruction sets, slowest first.
    pub instructions: Vec<String>,
    /// What was measured.
    pub measured: Option<MeasuredRates>,
}

impl MachineFile {
    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut lines = vec![format!("{MAGIC} {VERSION}")];
        let Hardware { processor, packages, cores, threads, caches, nodes, .. } = &self.hardware;
        lines.push(format!("processor {}", processor.as_deref().map_or("-".to_string(), name)));
        for (what, n) in [("packages", packages), ("cores", cores), ("threads", threads)] {
            lines.push(format!("{what} {}", or_dash(*n)));
        }
        let sets: Vec<String> = self.instructions.iter().map(|set| name(set)).collect();
        lines.push(format!("instructions {}", sets.join(" ")).trim_end().to_string());
        for (id, memory) in self.machine.memories.iter().enumerate() {
            let bytes = if id == super::HOST { self.hardware.memory_bytes } else { None };
            let limit = memory.limit_bytes.map(|limit| limit as u64);
            let limit = limit.or(self.hardware.memory_limit_bytes.filter(|_| id == super::HOST));
            lines.push(format!("memory {id} {} {}", or_dash(bytes), or_dash(limit)));
        }
        for (i, unit) in self.machine.units.iter().enumerate() {
            let kind = name(&self.machine.kind_of(i).name);
            lines.push(format!("unit {kind} {} {}", unit.memory, or_dash(unit.core)));
        }
        for cache in caches {
            let kind = CACHE_KINDS.iter().find(|(_, kind)| *kind == cache.kind).map_or("", |(name, _)| name);
            let Cache { level, bytes, line_bytes, threads, count, .. } = cache;
            lines.push(format!("cache {level} {kind} {bytes} {} {threads} {count}", or_dash(*line_bytes)));
        }
        for Node { id, memory_bytes, threads } in nodes {
            let mut line = format!("node {id} {}", or_dash(*memory_bytes));
            threads.iter().for_each(|thread| line.push_str(&format!(" {thread}")));
            lines.push(line);
        }
        if let Some(measured) = &self.measured {
            lines.push(format!("measured {} {}", date::time(measured.date), measured.n_cores));
            for (dtype, rate) in [("f32", measured.flops_f32), ("f64", measured.flops_f64)] {
                lines.push(format!("flops {dtype} {} {}", rate.one, rate.all));
            }
            for Bandwidth { level, rates } in &measured.bandwidths {
                let owner = if level.is_own { "own" } else { "shared" };
                let (label, capacity, bytes) = (name(&level.name), or_dash(level.capacity), level.bytes);
                let mut line = format!("bandwidth {label} {capacity} {owner} {} {bytes}", level.n_sharing);
                rates.iter().for_each(|rate| line.push_str(&format!(" {} {}", rate.one, rate.all)));
                lines.push(line);
            }
            lines.extend(measured.task_seconds.map(|seconds| format!("task {seconds}")));
        }
        let end = format!("end {} {}\n", lines.len(), hash(&lines));
        lines.join("\n") + "\n" + &end
    }

    /// Reads the text of a file; what is wrong with it is a sentence.
    pub fn from_text(text: &str) -> std::result::Result<MachineFile, String> {
        let mut reader = Reader::default();
        let mut seen: Vec<String> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let in_line = |error: String| format!("line {}: {error}", number + 1);
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_ascii_whitespace().collect();
            let Some(what) = words.first() else { continue };
            let line = words.join(" ");
            if seen.is_empty() {
                version(&words)?;
            } else if reader.is_over {
                return Err(in_line("there is more after the end".to_string()));
            } else if *what == "end" {
                end(&mut Words::of(&line), &seen).map_err(in_line)?;
                reader.is_over = true;
            } else {
                reader.line(what, &mut Words::of(&line)).map_err(in_line)?;
            }
            seen.push(line);
            if seen.len() > MAX_LINES {
                return Err("it is longer than any machine file".to_string());
            }
        }
        if seen.is_empty() {
            return Err(not_ours());
        }
        if !reader.is_over {
            return Err("it ends early: the last line is missing".to_string());
        }
        reader.finish()
    }

    /// Writes the file: all of it or nothing.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let written = crate::file::write(path, |out| out.write_all(self.to_text().as_bytes()));
        written.map_err(|error| {
            let message = format!("cannot write {}: {}", shown::path(path), crate::file::unwritable(&error));
            Error::new(ErrorKind::Io, message).because_of(error)
        })
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<MachineFile> {
        let path = path.as_ref();
        let what = format!("cannot read the machine file {}", shown::path(path));
        let in_file = |error: String| Error::new(ErrorKind::Io, format!("{what}: {error}"));
        let text = read_text(path, MAX_BYTES).map_err(|error| match error {
            Unreadable::NoText => in_file(not_ours()),
            Unreadable::TooLong { .. } => in_file("it is longer than any machine file".to_string()),
            _ => error.into_error(&what),
        })?;
        MachineFile::from_text(&text).map_err(in_file)
    }
}

const CACHE_KINDS: [(&str, CacheKind); 3] =
    [("data", CacheKind::Data), ("instruction", CacheKind::Instruction), ("unified", CacheKind::Unified)];

fn not_ours() -> String {
    format!("it is no machine file, which begins with '{MAGIC} {VERSION}': make one by dahl machine -o FILE")
}

/// A text as a word that is no comment.
fn name(text: &str) -> String {
    escaped(text).replace('#', "%23")
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}

fn hash(lines: &[String]) -> Fingerprint {
    Fingerprint::of(lines.join("\n"))
}

fn version(words: &[&str]) -> std::result::Result<(), String> {
    match words {
        [MAGIC, version] => match version.parse::<u32>() {
            Ok(VERSION) => Ok(()),
            Ok(other) => Err(format!(
                "it is a machine file of version {other}, and this dahl reads version {VERSION}: measure again, or use the dahl that wrote it"
            )),
            Err(_) => Err(not_ours()),
        },
        _ => Err(not_ours()),
    }
}

fn end(words: &mut Words<'_>, seen: &[String]) -> std::result::Result<(), String> {
    words.text("end")?;
    let n: usize = words.number("a number of lines")?;
    if n != seen.len() {
        return Err(format!("there should be {n} lines before, not {}", seen.len()));
    }
    let expected = words.text("a hash")?;
    if expected != "-" && expected != hash(seen).to_string() {
        return Err("what is before is not what was written: write '-' instead of the hash if it was changed on purpose".to_string());
    }
    words.finished()
}

/// What was read so far.
#[derive(Default)]
struct Reader {
    hardware: Hardware,
    machine: Option<Machine>,
    instructions: Option<Vec<String>>,
    measured: Option<MeasuredRates>,
    /// Which of the lines that must be there, were.
    rates: [bool; 2],
    is_over: bool,
}

type Read<T> = std::result::Result<T, String>;

/// A number, or `-` for one that is not known.
fn optional<N: FromStr>(words: &mut Words<'_>, what: &str) -> Read<Option<N>> {
    let word = words.text(what)?;
    match word.as_str() {
        "-" => Ok(None),
        word => word.parse().map(Some).map_err(|_| format!("'{word}' is not {what}")),
    }
}

impl Reader {
    fn line(&mut self, what: &str, words: &mut Words<'_>) -> Read<()> {
        words.text(what)?;
        match what {
            "processor" => {
                let processor = words.text("a name")?;
                self.hardware.processor = (processor != "-").then_some(processor);
            }
            "packages" => self.hardware.packages = optional(words, "a number of packages")?,
            "cores" => self.hardware.cores = optional(words, "a number of cores")?,
            "threads" => self.hardware.threads = optional(words, "a number of threads")?,
            "instructions" => {
                let mut sets = Vec::new();
                while let Ok(set) = words.text("an instruction set") {
                    sets.push(set);
                }
                self.instructions = Some(sets);
                return Ok(());
            }
            "memory" => {
                let n_memories = self.machine.as_ref().map_or(0, |machine| machine.memories.len());
                let id: usize = words.number("a number of a memory")?;
                if id != n_memories {
                    return Err(format!("memory {id} should be memory {n_memories}"));
                }
                let (bytes, limit) = (optional(words, "bytes")?, optional::<u64>(words, "bytes")?);
                match &mut self.machine {
                    None => {
                        (self.hardware.memory_bytes, self.hardware.memory_limit_bytes) = (bytes, limit);
                        let empty =
                            Machine { kinds: Vec::new(), units: Vec::new(), ..Machine::with_workers(1) };
                        self.machine = Some(empty);
                    }
                    Some(machine) => {
                        let limit_bytes = limit.map(usize::try_from).transpose();
                        let limit_bytes =
                            limit_bytes.map_err(|_| "a limit is beyond this machine".to_string())?;
                        machine.add_memory(limit_bytes);
                    }
                }
            }
            "unit" => {
                // This version knows CPU cores only; those of a hybrid processor have a name behind `cpu-`.
                let kind = words.text("a kind of unit")?;
                if kind != CPU && kind != "test" && !kind.starts_with("cpu-") {
                    return Err(format!("there is no kind of unit '{kind}'"));
                }
                let kind = Kind::cpu().named(&kind);
                let memory: usize = words.number("a memory")?;
                let core = optional(words, "a core")?;
                match &mut self.machine {
                    Some(machine) if memory < machine.memories.len() => {
                        let kind = machine.add_kind(kind);
                        machine.units.push(Unit { kind, memory, core });
                    }
                    _ => return Err(format!("there is no memory {memory} before this line")),
                }
            }
            "cache" => {
                let level: usize = words.number("a level")?;
                let kind = words.text("a kind of cache")?;
                let known = CACHE_KINDS.iter().find(|(known, _)| *known == kind);
                let kind = known.ok_or_else(|| format!("there is no kind of cache '{kind}'"))?.1;
                let (bytes, line_bytes) = (words.number("bytes")?, optional(words, "bytes of a line")?);
                let (threads, count) = (words.number("a number of threads")?, words.number("a count")?);
                self.hardware.caches.push(Cache { level, kind, bytes, line_bytes, threads, count });
            }
            "node" => {
                let (id, memory_bytes) = (words.number("a number of a node")?, optional(words, "bytes")?);
                let mut threads = Vec::new();
                while let Ok(thread) = words.text("a thread") {
                    threads.push(thread.parse().map_err(|_| format!("'{thread}' is not a thread"))?);
                }
                self.hardware.nodes.push(Node { id, memory_bytes, threads });
                return Ok(());
            }
            "measured" => {
                let date = words.text("a date")?;
                let date = date::parse(&date)
                    .ok_or_else(|| format!("'{date}' is no date such as {}", date::time(0)))?;
                let n_cores = words.number("a number of cores")?;
                self.measured = Some(MeasuredRates { date, n_cores, ..MeasuredRates::default() });
            }
            "flops" | "bandwidth" | "task" => {
                let measured = self.measured.as_mut().ok_or("there is no line 'measured' before it")?;
                measurement(measured, &mut self.rates, what, words)?;
            }
            other => return Err(format!("there is nothing called '{other}' in version {VERSION}")),
        }
        words.finished()
    }

    fn finish(self) -> Read<MachineFile> {
        let machine = self.machine.filter(|machine| !machine.units.is_empty());
        let machine = machine.ok_or("it has no memory and no unit")?;
        let instructions = self.instructions.ok_or("it has no line 'instructions'")?;
        let is_whole = self.rates == [true; 2];
        if self.measured.as_ref().is_some_and(|measured| !is_whole || measured.bandwidths.is_empty()) {
            return Err("it has a line 'measured', but not all that is measured".to_string());
        }
        Ok(MachineFile { machine, hardware: self.hardware, instructions, measured: self.measured })
    }
}

fn measurement(
    measured: &mut MeasuredRates,
    seen: &mut [bool; 2],
    what: &str,
    words: &mut Words<'_>,
) -> Read<()> {
    // Nothing is done at no speed at all.
    let positive = |words: &mut Words<'_>, what: &str| {
        words.amount(what).and_then(|x| if x > 0.0 { Ok(x) } else { Err(format!("{x} is not {what}")) })
    };
    let rate = |words: &mut Words<'_>| -> Read<Rate> {
        Ok(Rate { one: positive(words, "a rate")?, all: positive(words, "a rate")? })
    };
    match what {
        "flops" => match words.text("an element type")?.as_str() {
            "f32" => (measured.flops_f32, seen[0]) = (rate(words)?, true),
            "f64" => (measured.flops_f64, seen[1]) = (rate(words)?, true),
            other => return Err(format!("'{other}' is neither f32 nor f64")),
        },
        "bandwidth" => {
            let name = words.text("a place")?;
            let capacity = optional(words, "bytes")?;
            let is_own = match words.text("own or shared")?.as_str() {
                "own" => true,
                "shared" => false,
                other => return Err(format!("a place is own or shared, not '{other}'")),
            };
            let n_sharing = words.number("a number of cores that share it")?;
            let bytes = words.number("bytes")?;
            let mut rates = [Rate::default(); Stream::ALL.len()];
            for found in &mut rates {
                *found = rate(words)?;
            }
            measured
                .bandwidths
                .push(Bandwidth { level: MemoryLevel { name, capacity, is_own, n_sharing, bytes }, rates });
        }
        _ => measured.task_seconds = Some(positive(words, "seconds")?),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
