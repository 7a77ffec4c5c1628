//! Plans as files: everything that bits, placement and memory depend on, in lines that can be read and
//! edited.
//!
//! ```text
//! dahl plan 1                                  the version of the format, see below
//! from heuristic                               where the plan comes from
//! hash 1b0c…                                   of the steps below, when the file was written
//! step train.64                                one plan per recorded step
//! graph 9f41…                                  the recorded graph it is for
//! machine 2 units in memories 0 0              the machine it is for
//! memory 131072 bytes                          what buffers need, not scratch; of several memories, `in 0`
//! array 4 x f32[64,1,8,8] temporary lanes:16   each array of the graph, and how its tiles lie in memory
//! task 2 conv2d f32 lanes v1 groups 4 n=4x16   each recorded task: implementation, partial results, tiles
//! fused 2 conv2d max_pool relu                 each of them that fusion put in, and what it stands for
//! codes cuda                                   other codes than that of cores for which tasks were fused
//! versions 4 3                                 each array that has several versions, and how many
//! age 7 0 2                                    each argument of a task that is read as it was steps ago
//! order fixed                                  or the name of a scheduler, such as eager, and no run lines
//! run 17 conv2d 2/4 on 0                       each task that lowering makes of them, and its unit
//! copy conv.0 0..8192 from 0 to 1 before 18    each copy between memories, made by the unit of task 18
//! buffer 12 conv.0 8192 bytes at 65536         each buffer that lowering makes, and its offset; `in 0`
//! ```
//!
//! Tiles are lengths in order: `n=3x16+12` cuts 60 samples into three tiles of 16 and one of 12. Of the `run`
//! lines, each unit executes its own from top to bottom, and a line stands below all lines it depends on, so
//! no order that can be written down waits for itself: edges to later steps always point forward in time. To
//! swap two tasks, swap their lines; to move one, change its unit. With the word `floating` at the end of its
//! line, a task may be taken over by a unit of the same memory and code that would otherwise wait (see
//! [`Placement`](super::Placement)); without it, it is executed by its unit and nobody else. A plan stays
//! valid when all of these words are removed, because that only adds order. Which tasks wait for which
//! because they share memory follows from offsets and order, by the same rule that planned them
//! (`memory::adopt`). So these edges are not in the file: whoever edits an order need not edit edges, and
//! forgetting one cannot corrupt memory. `#` begins a comment.
//!
//! Where tiles differ, a word says how many have what: `2xlanes+1xcuda:flat v5+v3` computes the first two
//! tiles by `lanes`, which cores run, and the third by `flat` of the code `cuda`; `2xlanes:16+1xrow-major` is
//! an array of these tiles. Units execute only tasks in the code that their kind runs.
//!
//! The lines `codes`, `versions`, `age` and `copy`, memories with numbers and tiles that differ are those of
//! version 2. A file without them is written as version 1, which has everything else.
//!
//! Invariant: [`PlanFile::plan`] returns only plans that are safe to execute for the graph and the machine it
//! is given; anything else is a sentence with file and line.
//!
//! The [hash](PlanFile::hash) is that of the steps in their canonical form, without comments and without
//! where they come from: two files with the same hash do the same. The one in the file says what it was when
//! the program wrote it. It is not needed to read the file, and tells whether it was
//! [edited](PlanFile::was_edited).

mod check;
mod parse;
mod record;

use super::Planned;

use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::graph::{Graph, Prospect};
use crate::hash::Fingerprint;
use crate::machine::Machine;
use crate::schedule::Policy;
use crate::shown;
use crate::words::escaped;
use record::StepRecord;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;

/// The versions of the format that are read.
const VERSIONS: RangeInclusive<u64> = 1..=2;

/// The largest plan that is read, in bytes: some millions of lines.
const MAX_BYTES: u64 = 256 << 20;

/// The plans of a program, one per recorded step.
#[derive(Clone, Debug, Default)]
pub struct PlanFile {
    /// What the file is called in messages.
    source: String,
    origin: String,
    /// The hash that the file says it has.
    stored: Option<Fingerprint>,
    steps: Vec<StepRecord>,
    /// Schedulers that plans may name beside the built-in ones.
    policies: Vec<Policy>,
}

impl PlanFile {
    /// A file without steps; `origin` says where its plans come from, in a few words.
    pub fn new(origin: &str) -> Self {
        let words = origin.split(|c: char| c.is_whitespace() || c == '#').filter(|word| !word.is_empty());
        let origin = words.collect::<Vec<_>>().join(" ");
        PlanFile { source: "the plan".into(), origin, ..PlanFile::default() }
    }

    /// Adds the plan of a recorded step.
    pub fn add(&mut self, step: &str, graph: &Graph, planned: &Planned, machine: &Machine) -> Result<()> {
        let record = StepRecord::new(step, graph, planned, machine)?;
        if self.steps.iter().any(|step| step.name == record.name) {
            let message = format!("{} has a step {step} already: give this one another name", self.source);
            return Err(Error::new(ErrorKind::Usage, message));
        }
        self.steps.push(record);
        Ok(())
    }

    /// Lets plans with an open order name this scheduler, beside those that are built in.
    pub fn provide(&mut self, policy: Policy) {
        self.policies.push(policy);
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let source = shown::path(path.as_ref()).to_string();
        let text = file::read_text(path.as_ref(), MAX_BYTES)
            .map_err(|error| error.into_error(format_args!("{source}: cannot read the plan")))?;
        PlanFile::parse(&source, &text)
    }

    /// Reads a text; `source` is what it is called in messages.
    pub fn parse(source: &str, text: &str) -> Result<Self> {
        parse::parse(source, text)
    }

    /// Writes the file, whole or not at all.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let written = file::write(path, |out| out.write_all(self.to_string().as_bytes()));
        written.map_err(|error| {
            let message = format!("{}: the plan {}", shown::path(path), file::unwritable(&error));
            Error::new(ErrorKind::Io, message).because_of(error)
        })
    }

    /// The plan of a step, checked to be one that can be executed for this graph on this machine.
    pub fn plan(&self, step: &str, graph: &Graph, machine: &Machine) -> Result<Planned> {
        let name = escaped(step);
        let Some(record) = self.steps.iter().find(|record| record.name == name) else {
            let there: Vec<&str> = self.steps().collect();
            let message = format!(
                "{}: there is no plan for the step {name}, only for {}: make a new plan, or run it with the settings \
                 it was made with",
                self.source,
                if there.is_empty() { "none".into() } else { there.join(", ") }
            );
            return Err(Error::new(ErrorKind::Plan, message));
        };
        check::check(&self.source, record, graph, machine, &self.policies)
    }

    /// Whether the plan of a step has fused tasks; none if there is no plan for it. A plan is for the graph
    /// as it was then, so whoever records the step again must fuse it or not, as this says.
    pub fn fuses(&self, step: &str) -> Option<bool> {
        let name = escaped(step);
        self.steps.iter().find(|record| record.name == name).map(|record| !record.fused.is_empty())
    }

    /// What fusion knew of the cut of a step; none if there is no plan for it. Whoever records the step again
    /// must fuse it for the same.
    pub fn prospect(&self, step: &str, max_groups: usize) -> Option<Prospect> {
        let name = escaped(step);
        let record = self.steps.iter().find(|record| record.name == name)?;
        let axes = record.tasks.iter().flat_map(|task| &task.tiles).map(|(axis, _)| axis.clone());
        let axes: BTreeSet<String> = axes.collect();
        Some(Prospect { codes: record.codes.clone(), axes: axes.into_iter().collect(), max_groups })
    }

    /// Whether any step has fused tasks.
    pub fn has_fused(&self) -> bool {
        self.steps.iter().any(|record| !record.fused.is_empty())
    }

    /// The names of the steps.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.name.as_str())
    }

    /// The hash of what bits depend on: the cut of every task of every step, and which steps' values it
    /// reads, whoever executes it.
    pub fn cut_hash(&self) -> Fingerprint {
        let text = self.to_string();
        let is_cut = |line: &&str| ["step ", "task ", "age "].iter().any(|word| line.starts_with(word));
        Fingerprint::of_bytes(text.lines().filter(is_cut).flat_map(|line| line.bytes().chain([b'\n'])))
    }

    /// Number of units that the plans are for; 0 without plans.
    pub fn n_units(&self) -> usize {
        self.steps.iter().map(|step| step.machine.0.len()).max().unwrap_or(0)
    }

    /// Where the plans come from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The hash of all steps in their canonical form.
    pub fn hash(&self) -> Fingerprint {
        Fingerprint::of(Steps(&self.steps))
    }

    /// Whether the steps of a file that was read are others than when it was written.
    pub fn was_edited(&self) -> bool {
        self.stored.is_some_and(|stored| stored != self.hash())
    }
}

impl fmt::Display for PlanFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The oldest version that has all lines, so that older programs read it.
        let version = if self.steps.iter().all(StepRecord::is_of_version_1) { 1 } else { 2 };
        writeln!(f, "dahl plan {version}")?;
        writeln!(f, "from {}", self.origin)?;
        writeln!(f, "hash {}", self.hash())?;
        write!(f, "{}", Steps(&self.steps))
    }
}

struct Steps<'a>(&'a [StepRecord]);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, "\n{step}"))
    }
}

/// An error in a line of a file, or in a plan that was never a file and has no lines.
fn refuse(source: &str, line: usize, message: impl fmt::Display) -> Error {
    let place = if line == 0 { source.to_string() } else { format!("{source}, line {line}") };
    Error::new(ErrorKind::Plan, format!("{place}: {message}"))
}
