//! From tasks on whole arrays to tasks on tile buffers.
//!
//! Every recorded task is cut into tiles as its [`TaskCut`] says. An array is cut the way its first writer is
//! cut, so an output tile is (a contiguous part of) one buffer, or is written beside it and put there. An
//! input region that lies within one buffer is used where it is; one that spans several, or that a kernel
//! needs in another form, is assembled into a buffer of its own (this is how halos arise). Where a reduced
//! axis is cut, the tiles are put into groups; the tiles of a group accumulate one after the other into the
//! group's partial result, and the partial results are reduced in order just before somebody needs the sum.
//! Neither depends on who executes what.

mod arguments;
mod arrays;
mod assemble;
mod carry;
mod partials;
mod stage;
mod task;

use super::cut::Cut;
use super::edges::data_edges;
use super::lowered::{Buffer, Lowered, Place, Task};
use super::tiles::Tiles;
use super::{Graph, Role, ScopeId, StateId, Var};
use crate::bytes::ALIGN;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Layout, Region};
use partials::Partials;
use std::collections::HashMap;
use std::panic::Location;

/// Cuts the recorded tasks as `cut` says and orders the resulting tasks by their accesses.
pub fn lower(graph: &Graph, cut: &Cut) -> Result<Lowered> {
    if cut.tasks.len() != graph.tasks().len() || cut.layouts.len() != graph.arrays().len() {
        return Err(Error::new(ErrorKind::Plan, "the cut was made for another graph: make a new plan"));
    }
    check_states(graph)?;
    check_ages(graph)?;
    if graph.depth() > MAX_DEPTH {
        let message = format!(
            "the graph has a depth of {}, and at most {MAX_DEPTH} steps can be under way: use a smaller one",
            graph.depth()
        );
        return Err(Error::new(ErrorKind::Plan, message));
    }
    let mut lowering = Lowering::new(graph, cut)?;
    for index in 0..graph.tasks().len() {
        lowering.task(index)?;
    }
    for buffer in 0..lowering.out.buffers.len() {
        lowering.finish_partials(buffer, &(0..usize::MAX))?;
    }
    let mut lowered = lowering.out;
    check_bytes(&lowered)?;
    lowered.edges = data_edges(&lowered.buffers, &lowered.tasks);
    Ok(lowered)
}

/// Tasks that a graph may have. Their numbers fit 32 bits by far; a slip of the pen must not make billions.
pub(crate) const MAX_TASKS: usize = 1 << 22;

/// Steps that may be under way at a time: their number can be added to that of any step.
const MAX_DEPTH: usize = u32::MAX as usize;

/// Refuses two arrays that stand for the same state: no edge would order the tasks of the one and of the
/// other.
fn check_states(graph: &Graph) -> Result<()> {
    let mut seen: HashMap<StateId, &str> = HashMap::new();
    for array in graph.arrays() {
        if let Role::State(id) = array.role
            && let Some(other) = seen.insert(id, &array.name)
        {
            let message = format!(
                "{other} and {} are both recorded for state {}: record it once, and use views of that array",
                array.name, id.0
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
    }
    Ok(())
}

/// Refuses to read what earlier steps left in an array that no step writes. Ports are written by the program,
/// and state by other graphs.
fn check_ages(graph: &Graph) -> Result<()> {
    let writers = arrays::first_writers(graph);
    for task in graph.tasks() {
        let by_tasks = |var: &&Var| {
            matches!(graph.arrays()[var.array].role, Role::Temporary | Role::Output)
                && writers[var.array].is_none()
        };
        if let Some(var) = task.args.iter().filter(|var| var.age > 0).find(by_tasks) {
            let (name, age) = (&graph.arrays()[var.array].name, var.age);
            let message = format!(
                "{name} is read as it was {age} steps ago, and no task writes it: record one that does, or use a port"
            );
            return Err(Error::new(ErrorKind::Usage, message)
                .of_codelet(task.codelet.name)
                .at(task.location));
        }
    }
    Ok(())
}

/// Refuses a graph whose buffers have more bytes than any memory.
fn check_bytes(lowered: &Lowered) -> Result<()> {
    let add = |sum: usize, (i, buffer): (usize, &Buffer)| {
        let versions = buffer.bytes.checked_next_multiple_of(ALIGN)?.checked_mul(lowered.versions(i))?;
        sum.checked_add(versions).filter(|&sum| sum <= isize::MAX as usize)
    };
    match lowered.buffers.iter().enumerate().try_fold(0, add) {
        Some(_) => Ok(()),
        None => {
            let depth = lowered.depth;
            let message = format!(
                "a step of this graph, {depth} versions of each port and output included, takes more bytes than any memory \
                 has: use smaller arrays, a smaller depth or fewer versions"
            );
            Err(Error::new(ErrorKind::Memory, message))
        }
    }
}

/// A line of the program.
type Line = Option<&'static Location<'static>>;

/// A graph while it is lowered.
struct Lowering<'a> {
    graph: &'a Graph,
    cut: &'a Cut,
    tiles: Vec<Tiles>,
    /// For each array, whether its version of this step still lacks what the step before left.
    is_behind: Vec<bool>,
    partials: HashMap<usize, Partials<'a>>,
    /// Regions of each array assembled so far, until it is written again.
    assembled: HashMap<usize, HashMap<(Var, Region, Layout), Place>>,
    /// Which tile of the task is being lowered; what is assembled for it belongs to it.
    tile: (usize, usize),
    /// How urgent that task is; what is inserted for it is as urgent.
    priority: i32,
    /// The line that recorded that task.
    line: Line,
    /// What that task is for.
    scopes: &'a [ScopeId],
    out: Lowered,
}

impl<'a> Lowering<'a> {
    fn new(graph: &'a Graph, cut: &'a Cut) -> Result<Self> {
        let (depth, scopes) = (graph.depth(), graph.scopes().to_vec());
        let out = Lowered { depth, scopes, ..Lowered::default() };
        let mut lowering = Lowering {
            graph,
            cut,
            tiles: Vec::new(),
            is_behind: carry::behind(graph),
            partials: HashMap::new(),
            assembled: HashMap::new(),
            tile: (0, 1),
            priority: 0,
            line: None,
            scopes: &[],
            out,
        };
        lowering.cut_arrays()?;
        Ok(lowering)
    }

    /// Appends a task.
    fn push(&mut self, task: Task) -> Result<()> {
        self.reserve(1)?;
        self.out.tasks.push(task);
        Ok(())
    }

    /// Makes room for so many tasks.
    fn reserve(&mut self, n_tasks: usize) -> Result<()> {
        let tasks = &mut self.out.tasks;
        if n_tasks > MAX_TASKS - tasks.len() || tasks.try_reserve(n_tasks).is_err() {
            let n = n_tasks.saturating_add(tasks.len());
            let message = format!(
                "the graph is cut into {n} tasks or more, and there is room for {MAX_TASKS} at most: use larger tiles"
            );
            return Err(Error::new(ErrorKind::Plan, message));
        }
        Ok(())
    }
}
