//! What engines execute: tasks on tile buffers, and the edges that order them.
//!
//! Each access of a task is a byte range of a buffer. Ranges that are written are exact; ranges that are read
//! may be larger than what is read. Engines need nothing else: they never split, fuse or reduce.

use super::{Role, ScopeId, StateId, Var};
use crate::codelet::{ArgSpec, CPU, CallSpec, Kernel, builtin};
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{Machine, Shares, Speed};
use crate::shape::Dtype;
use std::fmt;
use std::ops::Range;
use std::panic::Location;

/// Index of a task in a [`Lowered`] graph.
pub type TaskId = u32;

/// What a buffer is for, and so how long it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// Lives within a step, and may share its place with others, unless it has several versions.
    Temporary,
    /// A ring of versions that the program fills (ports) or reads (outputs), one per step under way.
    Ring,
    /// Lives in the store.
    State(StateId),
}

/// A contiguous piece of memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The array and tile, for messages.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// Size of one version.
    pub bytes: usize,
    /// What it is for.
    pub kind: BufferKind,
    /// How many of them there are, for steps that follow one another to use in turn.
    pub versions: usize,
}

impl Buffer {
    /// Whether what is in it is worth nothing before its first and after its last task of a step, so that
    /// others may lie in its place meanwhile.
    pub fn may_share(&self) -> bool {
        self.kind == BufferKind::Temporary && self.versions == 1
    }
}

/// A byte range of a buffer that a task touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The argument through which it is touched.
    pub arg: usize,
    /// The buffer.
    pub buffer: usize,
    /// The version: that of the step so many steps before. What is written has age 0.
    pub age: usize,
    /// The bytes.
    pub range: Range<usize>,
    /// Whether what is there is read.
    pub reads: bool,
    /// Whether it is written: every element of it, but not the padding of lanes, which nobody reads.
    pub writes: bool,
}

/// Where an argument of a call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: usize,
    /// The version: that of the step so many steps before.
    pub age: usize,
    /// First byte of the tile in it.
    pub offset: usize,
}

/// An argument that data index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The argument.
    pub arg: usize,
    /// Whether data index each of its dimensions.
    pub dims: Vec<bool>,
    /// The most bytes of it that are read.
    pub bytes: usize,
}

/// A task on tile buffers.
#[derive(Clone)]
pub struct Task {
    /// The codelet's name.
    pub codelet: &'static str,
    /// The implementation's name.
    pub implementation: &'static str,
    /// The implementation's version.
    pub version: u32,
    /// The code it is written in: units whose kind runs this code execute the task, and no others.
    pub code: &'static str,
    /// The algorithms that its kernel takes, where it chooses by itself; see
    /// [`Codelet::algorithms`](method@crate::codelet::Codelet::algorithms).
    pub algorithm: String,
    /// The element type it computes in.
    pub dtype: Dtype,
    /// The recorded task that this is a tile of; none for copies and reductions that lowering inserted.
    pub origin: Option<usize>,
    /// Which tile of how many.
    pub tile: (usize, usize),
    /// Where the tile lies, out of how much: as a rule its number out of their count, but in bytes where it
    /// computes some rows of an array that is itself a part of a larger one, so that whoever goes over the
    /// whole array later works where its parts were computed.
    pub position: (usize, usize),
    /// The kernel.
    pub kernel: Kernel,
    /// The unchanging part of its call.
    pub spec: CallSpec,
    /// Bytes that its kernel needs while it runs; see
    /// [`Codelet::scratch`](method@crate::codelet::Codelet::scratch).
    pub scratch_bytes: usize,
    /// Where the arguments lie.
    pub places: Vec<Place>,
    /// What it touches.
    pub accesses: Vec<Access>,
    /// The arguments of which only some elements are read: data say which, so that all of it counts as
    /// touched.
    pub gathered: Vec<Gathered>,
    /// Floating-point operations.
    pub flops: f64,
    /// How urgent it was recorded to be.
    pub priority: i32,
    /// The line of the program that recorded the task, or that for which lowering inserted it.
    pub location: Option<&'static Location<'static>>,
    /// What it is for, in the order of [`Lowered::scopes`]: the scopes of its recorded task, or of those that
    /// it serves if lowering inserted it.
    pub scopes: Vec<ScopeId>,
}

impl Task {
    /// A copy or a sum that lowering inserts, without its arguments. Cores compute it.
    pub(super) fn inserted(
        codelet: &'static str,
        kernel: Kernel,
        dtype: Dtype,
        tile: (usize, usize),
    ) -> Task {
        Task {
            codelet,
            implementation: "reference",
            version: builtin::VERSION,
            code: CPU,
            algorithm: String::new(),
            dtype,
            origin: None,
            tile,
            position: tile,
            kernel,
            spec: CallSpec::default(),
            scratch_bytes: 0,
            places: Vec::new(),
            accesses: Vec::new(),
            gathered: Vec::new(),
            flops: 0.0,
            priority: 0,
            location: None,
            scopes: Vec::new(),
        }
    }

    /// Appends an argument: its part of the call, where it lies, and what of it is touched.
    pub(super) fn argument(
        &mut self,
        spec: ArgSpec,
        place: Place,
        accesses: impl IntoIterator<Item = Access>,
    ) {
        let arg = self.spec.args.len();
        self.spec.args.push(spec);
        self.places.push(place);
        self.accesses.extend(accesses.into_iter().map(|access| Access { arg, ..access }));
    }

    /// Bytes that the task moves. Of what is gathered only the elements that are read count.
    pub fn bytes(&self) -> usize {
        let moved = |access: &Access| match self.gathered.iter().find(|gathered| gathered.arg == access.arg) {
            Some(gathered) => access.range.len().min(gathered.bytes),
            None => access.range.len(),
        };
        self.accesses.iter().map(moved).fold(0, usize::saturating_add)
    }

    /// What its time depends on beside who computes it and where: the shapes, layouts and element types of
    /// its arguments, the integer parameters, and whether it adds to what is there. Tasks that differ only in
    /// position have the same footprint.
    pub fn footprint(&self) -> String {
        let mut text = self.spec.footprint(self.dtype, |arg, dim| {
            self.gathered.iter().any(|gathered| gathered.arg == arg && gathered.dims[dim])
        });
        text.truncate(text.trim_end().len());
        text
    }

    /// Refuses a machine on which nobody executes it.
    pub(crate) fn has_no_unit(&self) -> Error {
        let Task { codelet, implementation, code, .. } = self;
        let message = format!(
            "{codelet} ({implementation}) is written in the code {code}, and no unit of this machine runs that: use a machine \
             with such a unit, or a cut without this code"
        );
        Error::new(ErrorKind::Plan, message)
    }

    /// A rough guess of its time on a unit of this speed, good enough to compare tasks of a graph.
    pub fn seconds(&self, speed: &Speed) -> f64 {
        speed.seconds(self.flops, self.bytes() as f64)
    }
}

#[cfg(test)]
impl Task {
    /// A task that touches nothing, for tests of what is made of tasks.
    pub(crate) fn untouching(tile: (usize, usize)) -> Self {
        Task {
            codelet: "task",
            implementation: "reference",
            version: 1,
            code: CPU,
            algorithm: String::new(),
            dtype: Dtype::F32,
            origin: None,
            tile,
            position: tile,
            kernel: |_| Ok(()),
            spec: CallSpec::default(),
            scratch_bytes: 0,
            places: Vec::new(),
            accesses: Vec::new(),
            gathered: Vec::new(),
            flops: 0.0,
            priority: 0,
            location: None,
            scopes: Vec::new(),
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) tile {} of {}", self.codelet, self.implementation, self.tile.0 + 1, self.tile.1)
    }
}

/// Why one task waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// It touches the same data, and one of the two writes it.
    Data,
    /// Its data lies where the other's data lay.
    Memory,
}

/// An order between two tasks: `to` in step `i + distance` starts after `from` in step `i` has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The earlier task.
    pub from: TaskId,
    /// The later task.
    pub to: TaskId,
    /// Steps between them.
    pub distance: u32,
    /// Why.
    pub kind: EdgeKind,
}

/// A graph over tile buffers, in an order in which one worker could execute it.
///
/// All versions of all buffers together, each rounded up to whole cache lines, have at most `isize::MAX`
/// bytes, so nobody who adds up sizes and offsets of them needs to fear an overflow.
///
/// Data edges, within a step and to later ones, follow from the accesses in this order; an engine that finds
/// dependencies by itself (StarPU) submits tasks in an order that agrees with all workers' and with this one
/// ([`Placement::sequence`](crate::plan::Placement)) and may ignore the edges. The reuse of ring versions is
/// in neither: a step may start when the step [`Lowered::depth`] before it has finished and its outputs were
/// collected.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// The buffers.
    pub(crate) buffers: Vec<Buffer>,
    /// The tasks; every edge of distance 0 goes from a lower to a higher index.
    pub(crate) tasks: Vec<Task>,
    /// The data edges, sorted.
    pub(crate) edges: Vec<Edge>,
    /// For each array of the recorded graph that is a port or an output, its buffer and which of the two it
    /// is.
    pub(crate) rings: Vec<Option<(usize, Role)>>,
    /// Steps that the program may be ahead.
    pub(crate) depth: usize,
    /// The names of the scopes.
    pub(crate) scopes: Vec<String>,
}

impl Lowered {
    /// The buffers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The tasks; every edge of distance 0 goes from a lower to a higher index.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The data edges, sorted.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The unit that each task goes to, if nothing else is known: the tiles of each code are shared out among
    /// the units that run it, by their speed. Refuses tasks that no unit of the machine runs.
    pub fn homes(&self, machine: &Machine) -> Result<Vec<usize>> {
        let mut codes: Vec<(&str, Shares)> = Vec::new();
        for task in &self.tasks {
            if !codes.iter().any(|(code, _)| *code == task.code) {
                let of_code = self.tasks.iter().filter(|other| other.code == task.code);
                let work = of_code.map(|task| (task.flops, task.bytes() as f64));
                let shares = Shares::of(machine, task.code, work).ok_or_else(|| task.has_no_unit())?;
                codes.push((task.code, shares));
            }
        }
        let home = |task: &Task| {
            let shares = codes.iter().find(|(code, _)| *code == task.code);
            shares.map_or(0, |(_, shares)| shares.unit(task.position))
        };
        Ok(self.tasks.iter().map(home).collect())
    }

    /// Steps that the program may be ahead, and so versions of ports and outputs of which it alone reads old
    /// ones.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The names of the scopes that the graph was recorded with.
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// The ring buffer of a port or an output, and which of the two it is.
    pub fn ring(&self, var: &Var) -> Result<(usize, Role)> {
        let found = self.rings.get(var.array).copied().flatten();
        found.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "the array is neither a port nor an output of this graph")
        })
    }
}
