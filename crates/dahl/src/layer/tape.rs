//! The graph that layers record into: it knows which layer is at work, names arrays after it, and says what
//! may be overwritten.
//!
//! Invariant: an array that someone still needs is [kept](Tape::keep), and whoever works in place asks
//! [`Tape::in_place`] where to write. So a layer need not know what comes before or after it.
//!
//! A chain keeps outputs that a backward pass looks at; a residual block keeps its input for both branches,
//! and the gradient of its output until the last branch has it. Nothing is ever copied for this: where an
//! array is kept, the next layer writes into a new one. In [`Mode::Evaluate`] no output is kept for a
//! backward pass, dropout records nothing, and normalisation uses its running statistics.

use super::Mode;
use crate::error::Result;
use crate::op;
use dahl_runtime::array::{Dtype, Shape};
use dahl_runtime::codelet::Codelet;
use dahl_runtime::graph::{Graph, Role, Var};
use std::collections::HashMap;
use std::panic::Location;

/// A graph that is being recorded, in one element type.
pub struct Tape<'a> {
    graph: &'a mut Graph,
    dtype: Dtype,
    mode: Mode,
    /// The layers that are at work, each inside the one before: path and line of the program.
    layers: Vec<(String, &'static Location<'static>)>,
    /// What must not be overwritten, by the number of its array.
    kept: HashMap<usize, Vec<Var>>,
    /// A copy of everything that tasks wrote, if that is asked for: what it is called, and the output.
    exposed: Option<Vec<(String, Var)>>,
    counter: Option<Var>,
    step_number: Option<Var>,
    /// The layers that draw random numbers, each with its number among them.
    random: HashMap<String, u64>,
}

impl<'a> Tape<'a> {
    /// Records into `graph`.
    pub fn new(graph: &'a mut Graph, dtype: Dtype, mode: Mode) -> Self {
        let (layers, kept, random) = (Vec::new(), HashMap::new(), HashMap::new());
        Tape { graph, dtype, mode, layers, kept, exposed: None, counter: None, step_number: None, random }
    }

    /// From now on, whatever a task writes is copied into an output, so that the program can look at it after
    /// each step. The tasks themselves stay as they are.
    pub(crate) fn expose(&mut self) {
        self.exposed = Some(Vec::new());
    }

    /// The copies that were made since [`Tape::expose`], in order, and what was copied.
    pub(crate) fn take_exposed(&mut self) -> Vec<(String, Var)> {
        self.exposed.take().unwrap_or_default()
    }

    /// Copies what a task has just written.
    fn copy_out(&mut self, written: &[Var]) -> Result<()> {
        let Some(mut exposed) = self.exposed.take() else { return Ok(()) };
        for &var in written {
            let array = &self.graph.arrays()[var.array()];
            if array.role != Role::Temporary || array.dtype != self.dtype {
                continue;
            }
            let name = match self.layer() {
                "" => array.name.clone(),
                layer if array.name.starts_with(layer) => array.name.clone(),
                layer => format!("{} by {layer}", array.name),
            };
            let copy =
                self.graph.output(&format!("copy {} of {name}", exposed.len()), var.dtype(), var.shape());
            self.graph.task(&op::copy::CODELET, self.dtype, &[var], &[copy], &[], &[])?;
            exposed.push((name, copy));
        }
        self.exposed = Some(exposed);
        Ok(())
    }

    /// The element type that is computed in.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Whether this is training or evaluation.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The graph.
    pub fn graph(&mut self) -> &mut Graph {
        self.graph
    }

    /// From now on the layer called `name`, inside of the one at work, records; the program appended it at
    /// `line`.
    pub(super) fn enter(&mut self, name: &str, line: &'static Location<'static>) {
        self.layers.push((self.path(name), line));
        self.mark();
    }

    /// The layer called `name`, inside of the one at work, comes before those that nobody spoke of yet,
    /// though it may record later than they do: reports name layers in this order.
    pub(super) fn announce(&mut self, name: &str) {
        let path = self.path(name);
        self.graph.scope(&path);
    }

    /// What is called `name` inside of the layer at work.
    fn path(&self, name: &str) -> String {
        match self.layers.last() {
            Some((outer, _)) => format!("{outer}.{name}"),
            None => name.to_string(),
        }
    }

    /// The layer at work is done; the one around it goes on.
    pub(super) fn leave(&mut self) {
        self.layers.pop();
        self.mark();
    }

    /// Records a part of the layer at work, which has a name of its own.
    pub(super) fn inside<T>(&mut self, name: &str, record: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(&(_, line)) = self.layers.last() {
            self.enter(name, line);
            let result = record(self);
            self.leave();
            return result;
        }
        record(self)
    }

    fn mark(&mut self) {
        self.graph.record_at(self.layers.last().map(|(_, line)| *line));
        let scope = self.layers.last().map(|(path, _)| self.graph.scope(path));
        self.graph.set_scope(scope);
    }

    /// Records what belongs to no layer, under a name of its own by which reports know it, as `loss`.
    pub(crate) fn beside_layers<T>(&mut self, name: &str, record: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.graph.scope(name);
        self.graph.set_scope(Some(scope));
        let result = record(self);
        self.mark();
        result
    }

    /// The path of the layer at work, as in `block1.conv1`; empty if there is none.
    pub fn layer(&self) -> &str {
        self.layers.last().map_or("", |(path, _)| path)
    }

    /// The path of the layer that recorded the task with this number, or a name such as `loss`; empty if it
    /// was none of them.
    pub fn layer_of(&self, task: usize) -> &str {
        let scopes = self.graph.tasks().get(task).map_or(&[][..], |task| &task.scopes);
        scopes.first().map_or("", |scope| &self.graph.scopes()[scope.0])
    }

    /// A temporary array of elements that are computed with, named after the layer at work: `y` of `conv1` is
    /// `conv1.y`.
    pub fn array(&mut self, name: &str, shape: impl Into<Shape>) -> Var {
        self.array_of(name, self.dtype, shape)
    }

    /// A temporary array of any element type.
    pub fn array_of(&mut self, name: &str, dtype: Dtype, shape: impl Into<Shape>) -> Var {
        let name = self.path(name);
        self.graph.temporary(&name, dtype, shape)
    }

    /// Nobody may overwrite this array until it is [released](Tape::release): it is needed later.
    pub fn keep(&mut self, var: Var) {
        self.kept.entry(var.array()).or_default().push(var);
    }

    /// Undoes one [`Tape::keep`].
    pub fn release(&mut self, var: Var) {
        let Some(kept) = self.kept.get_mut(&var.array()) else { return };
        if let Some(at) = kept.iter().rposition(|kept| *kept == var) {
            kept.remove(at);
        }
    }

    /// Where a layer that can work in place writes what becomes of `var`: there, or into a new array if `var`
    /// is kept.
    pub fn in_place(&mut self, var: Var, name: &str) -> Var {
        let kept = self.kept.get(&var.array()).map_or(&[][..], |kept| kept);
        if kept.iter().any(|kept| kept.overlaps(&var)) {
            self.array_of(name, var.dtype(), var.shape())
        } else {
            var
        }
    }

    /// A number that differs from step to step, for random choices: a scalar port, made when it is first
    /// asked for.
    pub fn counter(&mut self) -> Var {
        *self.counter.get_or_insert_with(|| self.graph.port("counter", Dtype::U32, []))
    }

    /// The port that has to be filled with a number per step, if any layer asked for one.
    pub fn counter_port(&self) -> Option<Var> {
        self.counter
    }

    /// The number of steps before this one: a scalar port of `u32`, made when it is first asked for.
    pub fn step_number(&mut self) -> Var {
        *self.step_number.get_or_insert_with(|| self.graph.port("step", Dtype::U32, []))
    }

    /// The port that has to be filled with the number of steps before, if anybody asked for it.
    pub fn step_number_port(&self) -> Option<Var> {
        self.step_number
    }

    /// The number of the layer at work among those that make random choices: 0 for the first that asks, and
    /// so on; the same whenever it asks.
    pub fn random_stream(&mut self) -> u64 {
        let (layer, next) = (self.layer().to_string(), self.random.len() as u64);
        *self.random.entry(layer).or_insert(next)
    }

    /// Records a task without floating-point parameters.
    #[track_caller]
    pub fn task(
        &mut self,
        codelet: &'static Codelet,
        inputs: &[Var],
        outputs: &[Var],
        ints: &[i64],
    ) -> Result<()> {
        self.graph.task(codelet, self.dtype, inputs, outputs, ints, &[])?;
        self.copy_out(outputs)
    }

    /// Records a task with floating-point parameters.
    #[track_caller]
    pub fn task_with(
        &mut self,
        codelet: &'static Codelet,
        inputs: &[Var],
        outputs: &[Var],
        scalars: &[f64],
    ) -> Result<()> {
        self.graph.task(codelet, self.dtype, inputs, outputs, &[], scalars)?;
        self.copy_out(outputs)
    }
}
