//! Recording: a step is written down once, as tasks on whole arrays.
//!
//! A [`Graph`] holds arrays and tasks. Recording a task binds its codelet's index relation to the shapes of
//! its arguments, so a shape mistake is an error here, before anything runs. Nothing in a recorded graph
//! speaks of tiles, threads or memory: [`lower`] turns it into a [`Lowered`] graph over tile buffers for a
//! given cut.
//!
//! What changes from run to run goes through *ports* (filled by the program before each step) and *outputs*
//! (read by it after the step). Both are rings of [`Graph::depth`] versions, so that several steps can be
//! under way. *State* arrays live in a [`Store`](crate::engine::Store) outside the graph and are shared by
//! several graphs: parameters, optimiser state, data sets. Everything else is temporary.
//!
//! Any array may have several *versions* ([`Graph::set_versions`]), which successive steps use in turn: a
//! step need not wait with writing until the step before has read. As long as a version is not overwritten,
//! tasks of later steps may read it *at an age* ([`Var::aged`]): as it was when some earlier step ended.
//! Before the first step of a run, ports, outputs and temporaries were zero; state was what it is, since the
//! program last wrote it. An array of state that a step does not write keeps its value, as it does where it
//! has one version.
//!
//! Between recording and lowering, [`fuse`] may put one task in the place of several.

pub mod deps;
mod blocks;
mod cut;
mod edges;
mod fuse;
mod lower;
mod lowered;
mod per_tile;
mod scopes;
mod tiles;

pub use blocks::{Block, Blocks, Use};
pub use cut::{Cut, CutOptions, Part, Prospect, Share, TaskCut, Tiling};
pub use fuse::{Found, Fused, Fusion, TaskPattern, fuse};
pub(crate) use lower::MAX_TASKS;
pub use lower::lower;
pub use lowered::{Access, Buffer, BufferKind, Edge, EdgeKind, Gathered, Lowered, Place, Task, TaskId};
pub use per_tile::PerTile;
pub use scopes::ScopeId;

use crate::codelet::Codelet;
use crate::codelet::relation::Bound;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::{Dtype, Shape};
use scopes::Scopes;
use std::panic::Location;

/// Index of a state array in a [`Store`](crate::engine::Store).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId(pub usize);

/// What an array of a graph is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written and read within a step.
    Temporary,
    /// Filled by the program before each step.
    Port,
    /// Read by the program after each step.
    Output,
    /// Lives outside the graph.
    State(StateId),
}

/// An array of a graph.
#[derive(Clone, Debug)]
pub struct ArrayInfo {
    /// The name, for messages, plans and traces.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The extents.
    pub shape: Shape,
    /// What it is for.
    pub role: Role,
    /// How many steps' values tasks can read: its own step's and those of the steps before.
    pub versions: usize,
}

/// A view of an array of a graph: all of it, a reshaped form of it, or a contiguous part of a flat array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Var {
    pub(crate) array: usize,
    /// First element in the array, in row-major order.
    pub(crate) offset: usize,
    pub(crate) shape: Shape,
    pub(crate) dtype: Dtype,
    /// How many steps ago.
    pub(crate) age: usize,
}

impl Var {
    /// The number of the array in its graph.
    pub fn array(&self) -> usize {
        self.array
    }

    /// The extents of the view.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How many steps ago the elements had the values that are read through the view.
    pub fn age(&self) -> usize {
        self.age
    }

    /// The same elements as they were `age` steps earlier, to be read: what the step before left (1), the one
    /// before that (2), and so on. The array must have more than `age` versions ([`Graph::set_versions`]).
    pub fn aged(self, age: usize) -> Var {
        Var { age: self.age.saturating_add(age), ..self }
    }

    /// Whether some element belongs to both views, as it is in the same step.
    pub fn overlaps(&self, other: &Var) -> bool {
        let end = |var: &Var| var.offset.saturating_add(var.shape.len());
        let (end, other_end) = (end(self), end(other));
        (self.array, self.age) == (other.array, other.age) && self.offset < other_end && other.offset < end
    }

    /// The same elements in another shape.
    pub fn reshape(self, shape: impl Into<Shape>) -> Result<Var> {
        let shape = shape.into();
        if shape.len() != self.shape.len() {
            let message = format!("a view of shape {} cannot take the shape {shape}", self.shape);
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Var { shape, ..self })
    }

    /// `shape.len()` elements from `offset` on, in row-major order, as an array of their own.
    pub fn part(self, offset: usize, shape: impl Into<Shape>) -> Result<Var> {
        let shape = shape.into();
        if offset.checked_add(shape.len()).is_none_or(|end| end > self.shape.len()) {
            let message =
                format!("{} elements from {offset} on do not lie within {}", shape.len(), self.shape);
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(Var { offset: self.offset + offset, shape, ..self })
    }
}

/// A recorded task.
#[derive(Debug)]
pub struct Recorded {
    /// The operation.
    pub codelet: &'static Codelet,
    /// The element type it computes in, by which its implementations are looked up.
    pub dtype: Dtype,
    /// The arguments in call order.
    pub args: Vec<Var>,
    /// Integer parameters.
    pub ints: Vec<i64>,
    /// Floating-point parameters.
    pub scalars: Vec<f64>,
    /// The relation bound to these arguments.
    pub bound: Bound,
    /// How urgent it is; higher goes first.
    pub priority: i32,
    /// The line of the program that recorded it.
    pub location: &'static Location<'static>,
    /// The codelets of the tasks that it stands for, if it was put in by [`fuse`].
    pub fused: Vec<&'static str>,
    /// What it was recorded for, in the order of [`Graph::scopes`]: at most one, unless it was put in by
    /// [`fuse`].
    pub scopes: Vec<ScopeId>,
}

impl Recorded {
    /// The codelets of the tasks that it stands for: its own, unless it was put in by [`fuse`].
    pub fn stands_for(&self) -> Vec<&'static str> {
        if self.fused.is_empty() { vec![self.codelet.name] } else { self.fused.clone() }
    }

    /// Floating-point operations of the whole task.
    pub fn flops(&self) -> f64 {
        self.codelet.flops_per_point * self.bound.points() as f64
    }
}

/// A step, written down once.
#[derive(Debug)]
pub struct Graph {
    depth: usize,
    arrays: Vec<ArrayInfo>,
    tasks: Vec<Recorded>,
    priority: i32,
    /// Where tasks are said to be recorded, if not where [`Graph::task`] is called.
    location: Option<&'static Location<'static>>,
    scopes: Scopes,
    /// What tasks are recorded for.
    scope: Option<ScopeId>,
    /// The codes that tasks were fused for, beside that of cores.
    codes: Vec<String>,
}

impl Graph {
    /// An empty graph whose ports and outputs have `depth` versions: the program may be that many steps
    /// ahead.
    pub fn new(depth: usize) -> Self {
        Graph {
            depth: depth.max(1),
            arrays: Vec::new(),
            tasks: Vec::new(),
            priority: 0,
            location: None,
            scopes: Scopes::default(),
            scope: None,
            codes: Vec::new(),
        }
    }

    /// Versions of each port and output.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Changes the versions of each port and output: how far to be ahead may depend on what was recorded.
    pub fn set_depth(&mut self, depth: usize) {
        self.depth = depth.max(1);
    }

    /// The arrays.
    pub fn arrays(&self) -> &[ArrayInfo] {
        &self.arrays
    }

    /// The tasks, in the order of recording.
    pub fn tasks(&self) -> &[Recorded] {
        &self.tasks
    }

    /// The codes, beside that of cores, for which tasks were [fused](fuse): fused tasks have implementations
    /// of all of them.
    pub fn codes(&self) -> &[String] {
        &self.codes
    }

    /// Adds an array.
    pub fn array(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>, role: Role) -> Var {
        let shape = shape.into();
        self.arrays.push(ArrayInfo { name: name.to_string(), dtype, shape, role, versions: 1 });
        Var { array: self.arrays.len() - 1, offset: 0, shape, dtype, age: 0 }
    }

    /// A view of all of an array, by its number in [`Graph::arrays`].
    pub fn var(&self, array: usize) -> Var {
        let info = &self.arrays[array];
        Var { array, offset: 0, shape: info.shape, dtype: info.dtype, age: 0 }
    }

    /// Gives the array of a view so many versions, 1 unless told: what steps write lies in one after the
    /// other. With several, a step can write while those before it still read, and tasks can read what
    /// earlier steps left ([`Var::aged`]). Each takes memory. Ports and outputs have [`Graph::depth`]
    /// versions for the program, and one less than told here in addition.
    ///
    /// State has as many versions as its store keeps, of which [`Store::record`] tells the graph.
    ///
    /// [`Store::record`]: crate::engine::Store::record
    pub fn set_versions(&mut self, var: &Var, versions: usize) -> Result<()> {
        let misused = |message: String| Err(Error::new(ErrorKind::Usage, message));
        let Some(info) = self.arrays.get_mut(var.array) else {
            return misused(format!("the view {} belongs to another graph", var.shape));
        };
        let name = &info.name;
        if !(1..=MAX_VERSIONS).contains(&versions) {
            return misused(format!("{name} cannot have {versions} versions: use 1 to {MAX_VERSIONS}"));
        }
        let oldest = self.tasks.iter().flat_map(|task| &task.args).filter(|arg| arg.array == var.array);
        let oldest = oldest.map(|arg| arg.age).max().unwrap_or(0);
        if oldest >= versions {
            return misused(too_old(name, oldest, versions));
        }
        info.versions = versions;
        Ok(())
    }

    /// Notes how many versions the store keeps of an array of state that was just added.
    pub(crate) fn keep_versions(&mut self, var: &Var, versions: usize) {
        self.arrays[var.array].versions = versions;
    }

    /// Adds a temporary array.
    pub fn temporary(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>) -> Var {
        self.array(name, dtype, shape, Role::Temporary)
    }

    /// Adds an array that the program fills before each step.
    pub fn port(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>) -> Var {
        self.array(name, dtype, shape, Role::Port)
    }

    /// Adds an array that the program reads after each step.
    pub fn output(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>) -> Var {
        self.array(name, dtype, shape, Role::Output)
    }

    /// How urgent the tasks are that are recorded from now on: higher goes first, 0 unless told. Where tasks
    /// are equally urgent, [schedulers](crate::schedule::priorities) go by the work that comes after them.
    pub fn set_priority(&mut self, priority: i32) {
        self.priority = priority;
    }

    /// From now on, errors and traces name this line of the program for recorded tasks, and not the line that
    /// calls [`Graph::task`]; for libraries, which record tasks on behalf of a line of their caller.
    pub fn record_at(&mut self, location: Option<&'static Location<'static>>) {
        self.location = location;
    }

    /// The number of the scope of this name; one that is new comes after all that are known. Naming scopes
    /// before anything is recorded for them puts them in order.
    pub fn scope(&mut self, name: &str) -> ScopeId {
        self.scopes.number(name)
    }

    /// What the tasks are for that are recorded from now on, for whoever looks at traces of them: a layer,
    /// say. Nothing else depends on it.
    pub fn set_scope(&mut self, scope: Option<ScopeId>) {
        self.scope = scope;
    }

    /// The names of all scopes, in the order of their numbers.
    pub fn scopes(&self) -> &[String] {
        self.scopes.names()
    }

    /// Records a task that computes in elements of type `dtype`: inputs that are only read, then outputs (and
    /// arguments that are read and written), in the order of the codelet's line.
    #[track_caller]
    pub fn task(
        &mut self,
        codelet: &'static Codelet,
        dtype: Dtype,
        inputs: &[Var],
        outputs: &[Var],
        ints: &[i64],
        scalars: &[f64],
    ) -> Result<()> {
        let args = [inputs, outputs].concat();
        let caller = Location::caller();
        let location = self.location.unwrap_or(caller);
        let relation = codelet.relation();
        let fail = |error: Error| {
            let named = relation.args().iter().zip([inputs, outputs].concat());
            let arguments: Vec<String> =
                named.map(|(arg, var)| format!("{}{}", arg.name, var.shape)).collect();
            error.of_codelet(codelet.name).with_arguments(arguments.join(", ")).at(location)
        };
        let expected = (relation.n_inputs(), relation.args().len() - relation.n_inputs());
        if expected != (inputs.len(), outputs.len()) {
            let (n_in, n_out) = expected;
            let message = format!(
                "{} takes {n_in} inputs and {n_out} outputs, not {} and {}",
                codelet.name,
                inputs.len(),
                outputs.len()
            );
            return Err(fail(Error::new(ErrorKind::Shape, message)));
        }
        let shapes: Vec<Shape> = args.iter().map(|var| var.shape).collect();
        let bound = relation.bind(&shapes, ints).map_err(fail)?;
        let misused = |message: String| Err(fail(Error::new(ErrorKind::Usage, message)));
        for var in &args {
            let fits = |info: &ArrayInfo| {
                let end = var.offset.checked_add(var.shape.len());
                info.dtype == var.dtype && end.is_some_and(|end| end <= info.shape.len())
            };
            if !self.arrays.get(var.array).is_some_and(fits) {
                return misused(format!("the view {} belongs to another graph", var.shape));
            }
            if var.shape.len() > isize::MAX as usize / 64 {
                return misused(format!("no memory holds an array of {}", var.shape));
            }
            let ArrayInfo { name, versions, .. } = &self.arrays[var.array];
            if var.age >= *versions {
                return misused(too_old(name, var.age, *versions));
            }
        }
        for (i, output) in outputs.iter().enumerate() {
            let inputs = inputs.iter().map(|var| (var, codelet.in_place));
            for (other, may_be_same) in inputs.chain(outputs[..i].iter().map(|var| (var, false))) {
                if output.overlaps(other) && !(may_be_same && output == other) {
                    let name = &self.arrays[output.array].name;
                    return misused(format!(
                        "{} cannot write {name} where it also uses it otherwise",
                        codelet.name
                    ));
                }
            }
            if output.age > 0 {
                let name = &self.arrays[output.array].name;
                return misused(format!("what {name} was in an earlier step can be read and not written"));
            }
            if matches!(self.arrays[output.array].role, Role::Port) {
                return misused(format!(
                    "the port {} cannot be written by a task",
                    self.arrays[output.array].name
                ));
            }
        }
        let (ints, scalars) = (ints.to_vec(), scalars.to_vec());
        let priority = self.priority;
        self.tasks.push(Recorded {
            codelet,
            dtype,
            args,
            ints,
            scalars,
            bound,
            priority,
            location,
            fused: Vec::new(),
            scopes: self.scope.into_iter().collect(),
        });
        Ok(())
    }
}

/// Versions that an array may have. Finding edges looks at one step more than that; a slip of the pen must
/// not make it thousands.
pub(crate) const MAX_VERSIONS: usize = 256;

fn too_old(name: &str, age: usize, versions: usize) -> String {
    format!(
        "{name} cannot be read as it was {age} steps ago, because it has {versions} versions: give it {} or more",
        age.saturating_add(1)
    )
}
