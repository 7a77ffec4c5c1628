//! Looking for the tasks of a rule in a graph, and whether it may be applied to them.
//!
//! A rule is applied where its first task comes first, then its second task, and so on. Tasks that hand an
//! array to one another are found among those that touch it, so a search costs little in a graph of any size.
//! What it looked at is noted: as long as nothing of that changes, a search that found nothing need not be
//! repeated.

use super::super::cut::{Prospect, may_sum_whole};
use super::super::{Graph, Role, Var};
use super::index::{Index, reads, writes};
use super::rule::{Fusion, TaskPattern};
use crate::codelet::Codelet;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::Dtype;
use std::cell::RefCell;

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
    /// The codes that the cut asks for, beside that of cores.
    codes: Vec<String>,
    /// The codelets of tasks that the cut may leave whole sums to.
    whole_sums: Vec<&'static str>,
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

    /// The codes, beside that of cores, that some tiles are to be computed in.
    pub fn codes(&self) -> &[String] {
        &self.codes
    }

    /// Whether the cut may let tiles of a task of this codelet sum over everything, instead of adding up
    /// partial results: then a fused task whose sums have parts would give other bits.
    pub fn may_sum_whole(&self, codelet: &Codelet) -> bool {
        self.whole_sums.contains(&codelet.name)
    }

    /// The tasks that are replaced, in the order of the rule.
    pub(super) fn replaced(&self) -> &[usize] {
        &self.tasks[self.n_given..]
    }

    /// Adds what a pattern says about a task, if it agrees with what is known.
    fn add(&mut self, search: &Search<'_>, pattern: &TaskPattern, task: usize) -> Result<bool> {
        let recorded = &search.graph.tasks[task];
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
            let before = search.index.place(task);
            let writer = if i < inputs.len() { search.writer(&var, before, &[]) } else { Some(task) };
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

/// What a search looked at: if tasks come or go that touch it, another one may find something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// All tasks that touch an array.
    Users(usize),
    /// The tasks that write an array.
    Writers(usize),
    /// The tasks of a codelet, whatever they touch.
    Everything,
}

/// A search for the tasks of a rule.
pub(super) struct Search<'a> {
    pub graph: &'a Graph,
    pub index: &'a Index,
    pub rule: &'a Fusion,
    prospect: &'a Prospect,
    looks: RefCell<Vec<Look>>,
}

impl<'a> Search<'a> {
    /// A search that has not begun.
    pub fn new(graph: &'a Graph, index: &'a Index, rule: &'a Fusion, prospect: &'a Prospect) -> Self {
        Search { graph, index, rule, prospect, looks: RefCell::default() }
    }

    /// The first tasks, in order, to which the rule can be applied, of which the first is `task`.
    pub fn from(&self, task: usize) -> Result<Option<Found>> {
        let patterns: Vec<&TaskPattern> = self.rule.given.iter().chain(self.rule.replaces).collect();
        let Some((first, rest)) = patterns.split_first() else { return Ok(None) };
        let mut found = Found { n_given: self.rule.given.len(), ..Found::default() };
        if found.add(self, first, task)? { self.go_on(rest, found) } else { Ok(None) }
    }

    /// What it looked at.
    pub fn into_looks(self) -> Vec<Look> {
        self.looks.into_inner()
    }

    fn look(&self, look: Look) {
        self.looks.borrow_mut().push(look);
    }

    fn go_on(&self, patterns: &[&TaskPattern], mut found: Found) -> Result<Option<Found>> {
        let Some((first, rest)) = patterns.split_first() else {
            self.look_ahead(&mut found);
            let is_wanted = self.is_implemented(&found) && (self.rule.when)(&found);
            return Ok((is_wanted && self.may_be_applied(&found)?).then_some(found));
        };
        // It touches what is known already; where most is known by few tasks, it is among these.
        let (inputs, outputs) = first.slots()?;
        let known = inputs.iter().chain(&outputs).filter_map(|slot| found.var(slot).ok());
        let candidates: Vec<usize> =
            match known.map(|var| var.array).min_by_key(|&array| self.index.n_users(array)) {
                Some(array) => {
                    self.look(Look::Users(array));
                    self.index.users(array).collect()
                }
                None => {
                    self.look(Look::Everything);
                    self.index.of_codelet(first.codelet.name).collect()
                }
            };
        for task in candidates {
            let mut longer = found.clone();
            if longer.add(self, first, task)?
                && let Some(found) = self.go_on(rest, longer)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Notes what the cut would make of the tasks.
    fn look_ahead(&self, found: &mut Found) {
        let tasks = found.tasks.iter().map(|&task| &self.graph.tasks[task]);
        let whole = tasks.filter(|task| may_sum_whole(task, self.prospect));
        found.whole_sums = whole.map(|task| task.codelet.name).collect();
        found.codes.clone_from(&self.prospect.codes);
    }

    /// Whether the new tasks have an implementation of each code that the cut asks for.
    fn is_implemented(&self, found: &Found) -> bool {
        let Some(dtype) = found.dtype else { return true };
        let mut codes = self.prospect.codes.iter();
        codes.all(|code| {
            self.rule.with.iter().all(|pattern| pattern.codelet.of_code(code, dtype).next().is_some())
        })
    }

    /// Whether nobody notices that the tasks are replaced.
    fn may_be_applied(&self, found: &Found) -> Result<bool> {
        let replaced = found.replaced();
        let at = replaced.iter().map(|&task| self.index.place(task)).max().unwrap_or(0);
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for pattern in self.rule.with {
            let (inputs, outputs) = pattern.slots()?;
            read.extend(inputs);
            written.extend(outputs);
        }
        // What is read must still be there, where the new tasks will stand. What one new task writes and the
        // next one reads is.
        for slot in read.iter().filter(|slot| !written.contains(slot)) {
            let value = found.value(slot)?;
            if self.writer(&value.var, at, replaced) != value.writer {
                return Ok(false);
            }
        }
        for pattern in self.rule.replaces {
            for slot in pattern.slots()?.1 {
                let Value { var, writer: Some(from) } = found.value(slot)? else { return Ok(false) };
                let is_unnoticed = if written.contains(&slot) {
                    // Written later than before: nobody else may be at work on it in between.
                    self.look(Look::Users(var.array));
                    self.index.users_between(var.array, self.index.place(from), at).all(|task| {
                        replaced.contains(&task)
                            || !self.graph.tasks[task].args.iter().any(|arg| arg.overlaps(&var))
                    })
                } else {
                    let array = &self.graph.arrays[var.array];
                    // Of an array with several versions, later steps may read what this one leaves.
                    array.role == Role::Temporary
                        && array.versions == 1
                        && self.is_private(&var, from, replaced)
                };
                if !is_unnoticed {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether what task `from` left in `var` is read by none but `group` until it is overwritten, in this
    /// step or the next.
    fn is_private(&self, var: &Var, from: usize, group: &[usize]) -> bool {
        self.look(Look::Users(var.array));
        let place = self.index.place(from);
        let later = self.index.users_between(var.array, place, u64::MAX);
        for task in later.chain(self.index.users_between(var.array, 0, place)) {
            let recorded = &self.graph.tasks[task];
            if reads(recorded).any(|arg| arg.overlaps(var)) && !group.contains(&task) {
                return false;
            }
            // Also where it is overwritten in place.
            if writes(recorded).any(|arg| arg == var) {
                return true;
            }
        }
        true
    }

    /// The last task before a place, but for those in `without`, that writes to a view.
    fn writer(&self, var: &Var, before: u64, without: &[usize]) -> Option<usize> {
        self.look(Look::Writers(var.array));
        let writes_it = |task: &usize| writes(&self.graph.tasks[*task]).any(|arg| arg.overlaps(var));
        let mut writers = self.index.writers_before(var.array, before).rev();
        writers.find(|task| !without.contains(task) && writes_it(task))
    }
}
