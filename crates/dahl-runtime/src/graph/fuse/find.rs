//! Looking for the tasks of a rule in a graph, and whether it may be applied to them.

use super::super::{Graph, Recorded, Role, Var};
use super::rule::{Fusion, TaskPattern};
use crate::array::Dtype;
use crate::codelet::relation::Mode;
use crate::error::{Error, ErrorKind, Result};

/// What some task left in a view of an array, or what was there before the step, if there is no writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    var: Var,
    writer: Option<usize>,
}

/// The tasks that a rule was looking for, and what its names stand for.
#[derive(Clone, Debug, Default)]
pub struct Found {
    dtype: Option<Dtype>,
    /// Numbers of the tasks: those that stay, then those that are replaced.
    tasks: Vec<usize>,
    n_given: usize,
    values: Vec<(&'static str, Value)>,
    ints: Vec<(&'static str, i64)>,
}

impl Found {
    /// The element type that is computed in.
    pub fn dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// The view that a name stands for.
    pub fn var(&self, name: &str) -> Result<Var> {
        self.value(name).map(|value| value.var)
    }

    fn value(&self, name: &str) -> Result<Value> {
        let found = self.values.iter().find(|(slot, _)| *slot == name).map(|(_, value)| *value);
        found.ok_or_else(|| Error::new(ErrorKind::Usage, format!("no argument is called {name}")))
    }

    /// The parameter that a name stands for, or the number that it is.
    pub fn int(&self, name: &str) -> Result<i64> {
        let found = self.ints.iter().find(|(slot, _)| *slot == name).map(|(_, value)| *value);
        found
            .or_else(|| name.parse().ok())
            .ok_or_else(|| Error::new(ErrorKind::Usage, format!("no parameter is called {name}")))
    }

    /// The tasks that are replaced, in the order of the rule.
    pub(super) fn replaced(&self) -> &[usize] {
        &self.tasks[self.n_given..]
    }

    /// Adds what a pattern says about a task, if it agrees with what is known.
    fn add(&mut self, graph: &Graph, pattern: &TaskPattern, task: usize) -> Result<bool> {
        let recorded = &graph.tasks[task];
        let is_same = recorded.codelet.name == pattern.codelet.name
            && *self.dtype.get_or_insert(recorded.dtype) == recorded.dtype
            && recorded.scalars.is_empty()
            && !self.tasks.contains(&task);
        if !is_same {
            return Ok(false);
        }
        self.tasks.push(task);
        for (name, &int) in pattern.ints().zip(&recorded.ints) {
            match self.ints.iter().find(|(known, _)| *known == name) {
                Some((_, known)) if *known != int => return Ok(false),
                None if name.parse().is_ok_and(|number: i64| number != int) => return Ok(false),
                Some(_) => {}
                None => self.ints.push((name, int)),
            }
        }
        let (inputs, outputs) = pattern.slots()?;
        for (i, slot) in inputs.iter().chain(&outputs).enumerate() {
            let var = recorded.args[i];
            let writer = if i < inputs.len() { writer(graph, &var, task, &[]) } else { Some(task) };
            let value = Value { var, writer };
            match self.values.iter().find(|(known, _)| known == slot) {
                Some((_, known)) if *known != value => return Ok(false),
                Some(_) => {}
                None => self.values.push((slot, value)),
            }
        }
        Ok(true)
    }
}

/// The first tasks, in the order of recording, to which a rule can be applied.
pub(super) fn find(graph: &Graph, rule: &Fusion) -> Result<Option<Found>> {
    let patterns: Vec<&TaskPattern> = rule.given.iter().chain(rule.replaces).collect();
    let found = Found { n_given: rule.given.len(), ..Found::default() };
    search(graph, rule, &patterns, found)
}

fn search(graph: &Graph, rule: &Fusion, patterns: &[&TaskPattern], found: Found) -> Result<Option<Found>> {
    let Some((first, rest)) = patterns.split_first() else {
        return Ok((may_be_applied(graph, rule, &found)? && (rule.when)(&found)).then_some(found));
    };
    for task in 0..graph.tasks.len() {
        let mut longer = found.clone();
        if longer.add(graph, first, task)?
            && let Some(found) = search(graph, rule, rest, longer)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether nobody notices that the tasks are replaced.
fn may_be_applied(graph: &Graph, rule: &Fusion, found: &Found) -> Result<bool> {
    let replaced = found.replaced();
    let at = replaced.iter().copied().max().unwrap_or(0);
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for pattern in rule.with {
        let (inputs, outputs) = pattern.slots()?;
        read.extend(inputs);
        written.extend(outputs);
    }
    // What is read must still be there, where the new tasks will stand. What one new task writes and the next one
    // reads is.
    for slot in read.iter().filter(|slot| !written.contains(slot)) {
        let value = found.value(slot)?;
        if writer(graph, &value.var, at, replaced) != value.writer {
            return Ok(false);
        }
    }
    for pattern in rule.replaces {
        for slot in pattern.slots()?.1 {
            let Value { var, writer: Some(from) } = found.value(slot)? else { return Ok(false) };
            let is_unnoticed = if written.contains(&slot) {
                // Written later than before: nobody else may be at work on it in between.
                (from + 1..at).all(|task| {
                    replaced.contains(&task) || !graph.tasks[task].args.iter().any(|arg| arg.overlaps(&var))
                })
            } else {
                graph.arrays[var.array].role == Role::Temporary && is_private(graph, &var, from, replaced)
            };
            if !is_unnoticed {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether what task `from` left in `var` is read by none but `group` until it is overwritten, in this step or the next.
fn is_private(graph: &Graph, var: &Var, from: usize, group: &[usize]) -> bool {
    let n_tasks = graph.tasks.len();
    for task in (from + 1..n_tasks).chain(0..from) {
        let recorded = &graph.tasks[task];
        let reads = reads(recorded).any(|arg| arg.overlaps(var));
        if reads && !group.contains(&task) {
            return false;
        }
        if !reads && writes(recorded).any(|arg| arg == var) {
            return true;
        }
    }
    true
}

/// The last task before `before`, but for those in `without`, that writes to a view.
fn writer(graph: &Graph, var: &Var, before: usize, without: &[usize]) -> Option<usize> {
    let writes_it = |task: &usize| writes(&graph.tasks[*task]).any(|arg| arg.overlaps(var));
    (0..before).rev().filter(|task| !without.contains(task)).find(writes_it)
}

fn reads(recorded: &Recorded) -> impl Iterator<Item = &Var> {
    let declared = recorded.codelet.relation().args();
    recorded.args.iter().zip(declared).filter(|(_, arg)| arg.mode != Mode::Write).map(|(var, _)| var)
}

fn writes(recorded: &Recorded) -> impl Iterator<Item = &Var> {
    let declared = recorded.codelet.relation().args();
    recorded.args.iter().zip(declared).filter(|(_, arg)| arg.mode != Mode::Read).map(|(var, _)| var)
}
