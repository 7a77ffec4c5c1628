//! Reads the lines of a plan file. Every mistake is a sentence with the line it is in; whether the plan fits
//! a graph and a machine is another question (`check`).

use super::record::{
    ArrayRecord, BufferRecord, CopyRecord, FusedRecord, Lengths, MemoryRecord, OrderRecord, PastRecord,
    RunRecord, StepRecord, TaskRecord,
};
use super::{PlanFile, VERSIONS, refuse};
use crate::error::Result;
use crate::hash::Fingerprint;
use crate::machine::MemoryId;
use crate::shape::Layout;
use std::str::{FromStr, SplitWhitespace};

/// Reads a file; `source` is what it is called in messages.
pub(super) fn parse(source: &str, text: &str) -> Result<PlanFile> {
    let mut file = PlanFile { source: source.to_string(), ..PlanFile::default() };
    let mut step: Option<Draft> = None;
    let mut version = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = Words { source, line: i + 1, words: line.split_whitespace() };
        let Some(keyword) = words.words.next() else { continue };
        let Some(version) = version else {
            version = Some(read_version(keyword, &mut words)?);
            continue;
        };
        match (keyword, &mut step) {
            ("step", _) => {
                file.steps.extend(step.take().map(|draft| draft.finish(source)).transpose()?);
                let name = words.word("the name of a step")?.to_string();
                if file.steps.iter().any(|step| step.name == name) {
                    return words.refuse(format!("the step {name} is there twice: remove one of them"));
                }
                step = Some(Draft { name, line: words.line, version, ..Draft::default() });
            }
            ("from", None) => {
                file.origin = words.words.by_ref().collect::<Vec<_>>().join(" ");
            }
            ("hash", None) => file.stored = Some(words.parsed("a hash of 32 hexadecimal digits")?),
            (_, Some(step)) => step.line(keyword, &mut words)?,
            (_, None) => {
                let message =
                    format!("expected from, hash or step, found '{keyword}': every plan begins with a step");
                return words.refuse(message);
            }
        }
        words.end()?;
    }
    if version.is_none() {
        return Err(refuse(source, 1, "the file is empty: a plan file begins with 'dahl plan 1'"));
    }
    file.steps.extend(step.map(|draft| draft.finish(source)).transpose()?);
    Ok(file)
}

fn read_version(keyword: &str, words: &mut Words<'_>) -> Result<u64> {
    if keyword != "dahl" || words.words.next() != Some("plan") {
        return words.refuse("this is no plan file: one begins with 'dahl plan 1'");
    }
    let version: u64 = words.parsed("the version of the format")?;
    if !VERSIONS.contains(&version) {
        let (first, last) = (VERSIONS.start(), VERSIONS.end());
        return words.refuse(format!(
            "the file has version {version} of the format, and this program reads versions {first} and {last}: make a \
             new plan, or use the program that wrote it"
        ));
    }
    words.end()?;
    Ok(version)
}

/// A step that is being read.
#[derive(Default)]
struct Draft {
    name: String,
    line: usize,
    /// The version of the format.
    version: u64,
    graph: Option<Fingerprint>,
    machine: Option<(Vec<usize>, usize)>,
    memories: Vec<MemoryRecord>,
    arrays: Vec<ArrayRecord>,
    tasks: Vec<TaskRecord>,
    fused: Vec<FusedRecord>,
    codes: Option<Vec<String>>,
    past: Vec<PastRecord>,
    /// The line and the name of the scheduler, if the order is not fixed.
    order: Option<Option<(usize, String)>>,
    runs: Vec<RunRecord>,
    copies: Vec<CopyRecord>,
    buffers: Vec<BufferRecord>,
}

impl Draft {
    fn line(&mut self, keyword: &str, words: &mut Words<'_>) -> Result<()> {
        let line = words.line;
        match keyword {
            "graph" => {
                let graph = words.parsed("the hash of a graph, 32 hexadecimal digits")?;
                words.once(&mut self.graph, graph, "graph")
            }
            "machine" => {
                let count: usize = words.parsed("a number of units")?;
                ["units", "in", "memories"].iter().try_for_each(|word| words.literal(word))?;
                let mut memories = Vec::new();
                while let Some(memory) = words.words.next() {
                    memories.push(words.number(memory, "the memory of a unit")?);
                }
                if count != memories.len() {
                    let there = memories.len();
                    return words.refuse(format!(
                        "there are {count} units and the memories of {there}: give one for each"
                    ));
                }
                words.once(&mut self.machine, (memories, line), "machine")
            }
            "memory" => {
                let bytes = words.parsed("a number of bytes")?;
                words.literal("bytes")?;
                let memory = self.memory(words)?;
                if self.memories.iter().any(|record| record.memory == memory || record.memory.is_none()) {
                    return words.refuse("there is a second line 'memory': remove one of them");
                }
                self.memories.push(MemoryRecord { line, memory, bytes });
                Ok(())
            }
            "array" => {
                words.counted(self.arrays.len(), "array")?;
                let identity = words.joined(["a name", "an element type with a shape", "a role"])?;
                let layouts = words.layouts()?;
                if layouts.len() > 1 {
                    self.needs_version_2("array … with several layouts", words)?;
                }
                self.arrays.push(ArrayRecord { line, identity, layouts });
                Ok(())
            }
            "task" => {
                words.counted(self.tasks.len(), "task")?;
                let task = words.task()?;
                if task.implementations.len() > 1 {
                    self.needs_version_2("task … with several implementations", words)?;
                }
                self.tasks.push(task);
                Ok(())
            }
            "fused" => {
                let task = words.parsed("the number of a task")?;
                let identity = words.words.by_ref().collect::<Vec<_>>().join(" ");
                if identity.is_empty() {
                    return words.refuse("expected the codelets that it stands for, found the end of the line");
                }
                self.fused.push(FusedRecord { line, task, identity });
                Ok(())
            }
            "codes" => {
                self.needs_version_2(keyword, words)?;
                let codes: Vec<String> = words.words.by_ref().map(String::from).collect();
                words.once(&mut self.codes, codes, "codes")
            }
            "versions" | "age" => {
                self.needs_version_2(keyword, words)?;
                let what: &[&str] = match keyword {
                    "versions" => &["the number of an array", "a number of versions"],
                    _ => &["the number of a task", "the number of an argument", "a number of steps"],
                };
                let mut identity = keyword.to_string();
                for what in what {
                    identity.push_str(&format!(" {}", words.parsed::<usize>(what)?));
                }
                self.past.push(PastRecord { line, identity });
                Ok(())
            }
            "order" => {
                let policy = match words.word("fixed, or the name of a scheduler")? {
                    "fixed" => None,
                    name => Some((line, name.to_string())),
                };
                words.once(&mut self.order, policy, "order")
            }
            "run" => {
                let task = words.parsed("the number of a task")?;
                let identity = words.joined(["a codelet", "a tile"])?;
                words.literal("on")?;
                let unit = words.parsed("the number of a unit")?;
                let floats = match words.words.next() {
                    None => false,
                    Some("floating") => true,
                    Some(word) => {
                        let message = format!("expected 'floating' or the end of the line, found '{word}'");
                        return words.refuse(message);
                    }
                };
                self.runs.push(RunRecord { line, task, identity, unit, floats });
                Ok(())
            }
            "buffer" => {
                let buffer = words.parsed("the number of a buffer")?;
                let name = words.word("a name")?.to_string();
                let bytes = words.parsed("a number of bytes")?;
                ["bytes", "at"].iter().try_for_each(|word| words.literal(word))?;
                let offset = words.parsed("an offset")?;
                let memory = self.memory(words)?;
                self.buffers.push(BufferRecord { line, memory, buffer, name, bytes, offset });
                Ok(())
            }
            "copy" => {
                self.needs_version_2(keyword, words)?;
                let identity = words.words.by_ref().collect::<Vec<_>>().join(" ");
                self.copies.push(CopyRecord { line, identity });
                Ok(())
            }
            other => words.refuse(format!(
                "expected graph, machine, memory, array, task, fused, codes, versions, age, order, run, copy, buffer or step, \
                 found '{other}'"
            )),
        }
    }

    fn needs_version_2(&self, keyword: &str, words: &Words<'_>) -> Result<()> {
        match self.version {
            1 => words.refuse(format!(
                "version 1 of the format has no line '{keyword}': write 'dahl plan 2' in the first line"
            )),
            _ => Ok(()),
        }
    }

    /// The memory that a line is about, if it names one.
    fn memory(&self, words: &mut Words<'_>) -> Result<Option<MemoryId>> {
        match words.words.next() {
            None => Ok(None),
            Some("in") => {
                self.needs_version_2("… in MEMORY", words)?;
                Ok(Some(words.parsed("the number of a memory")?))
            }
            Some(word) => words.refuse(format!("expected 'in' or the end of the line, found '{word}'")),
        }
    }

    fn finish(self, source: &str) -> Result<StepRecord> {
        let Draft { name, line, memories, arrays, tasks, fused, past, runs, copies, buffers, .. } = self;
        let missing = |what: &str| {
            let message = format!("the step {name} has no line '{what}': the file is not complete");
            refuse(source, line, message)
        };
        let graph = self.graph.ok_or_else(|| missing("graph"))?;
        let machine = self.machine.ok_or_else(|| missing("machine"))?;
        if memories.is_empty() {
            return Err(missing("memory"));
        }
        let policy = self.order.ok_or_else(|| missing("order"))?;
        if let (Some(_), Some(run)) = (&policy, runs.first()) {
            let message =
                "the order is open, so no task can have a unit: write 'order fixed' or remove the run lines";
            return Err(refuse(source, run.line, message));
        }
        let order = policy.map_or(OrderRecord::Fixed(runs), |(line, name)| OrderRecord::Open(line, name));
        let codes = self.codes.unwrap_or_default();
        Ok(StepRecord {
            name,
            line,
            graph,
            machine,
            memories,
            arrays,
            tasks,
            fused,
            codes,
            past,
            order,
            copies,
            buffers,
        })
    }
}

/// What is left of a line.
struct Words<'a> {
    source: &'a str,
    line: usize,
    words: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    fn refuse<T>(&self, message: impl std::fmt::Display) -> Result<T> {
        Err(refuse(self.source, self.line, message))
    }

    fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.words.next() {
            Some(word) => Ok(word),
            None => self.refuse(format!("expected {what}, found the end of the line")),
        }
    }

    fn number<T: FromStr>(&self, word: &str, what: &str) -> Result<T> {
        word.parse().or_else(|_| self.refuse(format!("expected {what}, found '{word}'")))
    }

    fn parsed<T: FromStr>(&mut self, what: &str) -> Result<T> {
        let word = self.word(what)?;
        self.number(word, what)
    }

    fn literal(&mut self, expected: &str) -> Result<()> {
        let word = self.word(&format!("'{expected}'"))?;
        if word == expected { Ok(()) } else { self.refuse(format!("expected '{expected}', found '{word}'")) }
    }

    fn end(&mut self) -> Result<()> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => self.refuse(format!("expected the end of the line, found '{word}'")),
        }
    }

    fn joined<const N: usize>(&mut self, what: [&str; N]) -> Result<String> {
        let words = what.map(|what| self.word(what));
        let mut text = String::new();
        for word in words {
            let space = if text.is_empty() { "" } else { " " };
            text.extend([space, word?]);
        }
        Ok(text)
    }

    /// Lines that are numbered must be there once, in order.
    fn counted(&mut self, expected: usize, what: &str) -> Result<()> {
        let number: usize = self.parsed(&format!("the number of {what} {expected}"))?;
        if number != expected {
            return self.refuse(format!(
                "expected {what} {expected}, found {what} {number}: each has one line, in order"
            ));
        }
        Ok(())
    }

    fn once<T>(&self, place: &mut Option<T>, value: T, what: &str) -> Result<()> {
        match place.replace(value) {
            None => Ok(()),
            Some(_) => self.refuse(format!("'{what}' is there twice in this step: remove one of the lines")),
        }
    }

    /// The layout of all tiles, or how many have which.
    fn layouts(&mut self) -> Result<Vec<(usize, Layout)>> {
        let word = self.word("row-major or lanes:16")?;
        let runs = self.runs(word)?;
        runs.into_iter().map(|(count, layout)| Ok((count, self.layout(layout)?))).collect()
    }

    /// A word that holds for all tiles, or `2xTHIS+1xTHAT`: how many tiles have which.
    fn runs(&self, word: &'a str) -> Result<Vec<(usize, &'a str)>> {
        if !word.contains('+') {
            return Ok(vec![(1, word)]);
        }
        let run = |run: &'a str| match run.split_once('x').and_then(|(n, word)| Some((n.parse().ok()?, word)))
        {
            Some((count, word)) if count > 0 => Ok((count, word)),
            _ => self.refuse(format!(
                "expected a number of tiles and what they have, such as 2xlanes, found '{run}'"
            )),
        };
        word.split('+').map(run).collect()
    }

    fn layout(&self, word: &str) -> Result<Layout> {
        match (word, word.strip_prefix("lanes:")) {
            ("row-major", _) => Ok(Layout::RowMajor),
            (_, Some(lanes)) => Ok(Layout::Lanes(self.number(lanes, "a number of lanes")?)),
            _ => self.refuse(format!("expected row-major or lanes:16, found '{word}'")),
        }
    }

    fn task(&mut self) -> Result<TaskRecord> {
        let line = self.line;
        let identity = self.joined(["a codelet", "an element type"])?;
        let word = self.word("an implementation")?;
        let names = self.runs(word)?;
        let word = self.word("a version such as v1")?;
        let mut versions = Vec::new();
        for word in word.split('+') {
            let Some(version) = word.strip_prefix('v') else {
                return self.refuse(format!("expected a version such as v1, found '{word}'"));
            };
            versions.push(self.number(version, "a version such as v1")?);
        }
        if names.len() != versions.len() {
            let (n, there) = (names.len(), versions.len());
            return self
                .refuse(format!("there are {n} implementations and {there} versions: give one for each"));
        }
        let named = names.into_iter().zip(versions);
        let implementations = named.map(|((n, name), version)| (n, name.to_string(), version)).collect();
        self.literal("groups")?;
        let groups = self.parsed("a number of groups")?;
        let mut tiles = Vec::new();
        while let Some(word) = self.words.next() {
            let Some((axis, cut)) = word.split_once('=') else {
                return self.refuse(format!("expected an axis and its tiles such as n=4x16, found '{word}'"));
            };
            let mut lengths = Lengths::default();
            for run in cut.split('+') {
                let (count, length) = run.split_once('x').unwrap_or(("1", run));
                let what = "tile lengths such as 4x16 or 3x16+12";
                lengths.push(self.number(count, what)?, self.number(length, what)?);
            }
            tiles.push((axis.to_string(), lengths));
        }
        Ok(TaskRecord { line, identity, implementations, groups, tiles })
    }
}
