//! Fusion: recorded tasks that hand arrays to each other become one task that does the work of all.
//!
//! A [`Fusion`] is a rule, declared beside the codelet that it brings in: the tasks it takes away, the tasks
//! it puts in their place, and when it applies. [`fuse`] rewrites a recorded graph by a list of such rules,
//! before it is cut. It knows nothing of what the codelets compute, and needs to know only which arrays go
//! where:
//!
//! - What the removed tasks hand to each other and no new task writes must be temporary, and nobody else may
//!   look at it. Arrays that nobody touches any more leave the graph.
//! - The new tasks stand where the last of the removed ones stood. Whoever else works on their arrays in
//!   between makes the rule not apply.
//!
//! Invariant: after fusion every array that is left holds the same values after each task that writes it, as
//! far as the fused codelets keep their promise. Nothing depends on the number of workers.
//!
//! Rules match *values* (a view and the task that wrote it last) rather than arrays, so that work in place
//! does not confuse them. What may be fused, and when it pays, stands beside the codelet; here is only the
//! mechanism. A rule applies only where the new tasks have implementations of every code that the cut will
//! ask for, and it may ask what the cut would make of the tasks that it finds ([`Found::may_sum_whole`]).
//! Fused codelets of `dahl` keep the order of all sums, so fused and separate tasks give the same bits,
//! except that zeros which are added or left out may turn the sign of a zero.
//!
//! A new task belongs to the scopes of all removed ones, in the order of the graph's scopes.
//!
//! A plan file notes what was fused ([`PlanFile::fuses`](crate::plan::PlanFile::fuses)) and for which codes,
//! so whoever loads it, or resumes a run, records the step in the same way.

mod find;
mod index;
mod rule;
#[cfg(test)]
mod tests;

pub use find::Found;
pub use rule::{Fusion, TaskPattern};

use super::cut::Prospect;
use super::scopes::union;
use super::{Graph, Recorded, Role, Var};
use crate::error::Result;
use crate::shape::Dtype;
use find::{Look, Search};
use index::{Index, writes};
use std::collections::{BTreeSet, HashMap};

/// A graph after fusion, and what became of the one before.
#[derive(Debug)]
pub struct Fused {
    /// The new graph.
    pub graph: Graph,
    /// The number that each array of the old graph has in the new one; none if it is gone.
    arrays: Vec<Option<usize>>,
}

impl Fused {
    /// The view of the new graph that was `var` in the old one; none if its array is gone.
    pub fn var(&self, var: Var) -> Option<Var> {
        let array = (*self.arrays.get(var.array)?)?;
        Some(Var { array, ..var })
    }
}

/// Applies the rules to a recorded graph, each as often as it finds something, the first rule first.
/// `prospect` is what is known of the cut that comes after it.
pub fn fuse(mut graph: Graph, rules: &[&'static Fusion], prospect: &Prospect) -> Result<Fused> {
    for rule in rules {
        rule.check()?;
        // Every application leaves fewer tasks, so this ends.
        while !rewrite(&mut graph, rule, prospect)? {}
    }
    graph.codes.clone_from(&prospect.codes);
    let arrays = drop_untouched(&mut graph);
    Ok(Fused { graph, arrays })
}

/// Applies a rule wherever it can be, always to the first tasks to which it can. Returns whether that is
/// everywhere: in rare cases the index has no room for new tasks between two others, and a new one is needed.
fn rewrite(graph: &mut Graph, rule: &'static Fusion, prospect: &Prospect) -> Result<bool> {
    let mut index = Index::new(graph);
    let Some(first) = rule.given.iter().chain(rule.replaces).next() else { return Ok(true) };
    // The tasks with which the rule may begin, as far as it is not known to find nothing there.
    let mut open: BTreeSet<(u64, usize)> =
        index.of_codelet(first.codelet.name).map(|task| (index.place(task), task)).collect();
    let mut watched = Watched::default();
    let mut is_done = true;
    while let Some((_, task)) = open.pop_first() {
        if !index.has(task) {
            continue;
        }
        let search = Search::new(graph, &index, rule, prospect);
        let Some(found) = search.from(task)? else {
            watched.add(task, search.into_looks());
            continue;
        };
        let n_tasks = graph.tasks.len();
        if !apply(graph, &mut index, rule, &found)? {
            is_done = false;
            break;
        }
        let new = n_tasks..graph.tasks.len();
        for &changed in found.replaced().iter().chain(&new.clone().collect::<Vec<_>>()) {
            open.extend(watched.take(&graph.tasks[changed]).map(|task| (index.place(task), task)));
        }
        let begins = new.filter(|&task| graph.tasks[task].codelet.name == first.codelet.name);
        open.extend(begins.chain([task]).map(|task| (index.place(task), task)));
    }
    let mut tasks: Vec<Option<Recorded>> = std::mem::take(&mut graph.tasks).into_iter().map(Some).collect();
    graph.tasks = index.into_order().filter_map(|task| tasks[task].take()).collect();
    Ok(is_done)
}

/// The tasks from which a search found nothing, by what it looked at.
#[derive(Default)]
struct Watched {
    users: HashMap<usize, Vec<usize>>,
    writers: HashMap<usize, Vec<usize>>,
    everything: Vec<usize>,
}

impl Watched {
    fn add(&mut self, task: usize, looks: Vec<Look>) {
        for look in looks {
            let list = match look {
                Look::Users(array) => self.users.entry(array).or_default(),
                Look::Writers(array) => self.writers.entry(array).or_default(),
                Look::Everything => &mut self.everything,
            };
            if list.last() != Some(&task) {
                list.push(task);
            }
        }
    }

    /// Takes out those for which it matters that a task came or went.
    fn take(&mut self, changed: &Recorded) -> impl Iterator<Item = usize> {
        let mut tasks = std::mem::take(&mut self.everything);
        for var in &changed.args {
            tasks.extend(self.users.remove(&var.array).unwrap_or_default());
        }
        for var in writes(changed) {
            tasks.extend(self.writers.remove(&var.array).unwrap_or_default());
        }
        tasks.into_iter()
    }
}

/// Puts the new tasks of a rule where the last of the removed ones stood, if there is room.
fn apply(graph: &mut Graph, index: &mut Index, rule: &Fusion, found: &Found) -> Result<bool> {
    let tasks = &graph.tasks;
    let removed = found.replaced();
    let at = removed.iter().map(|&task| index.place(task)).max().unwrap_or(0);
    let Some(places) = index.free_places(rule.with.len(), at) else { return Ok(false) };
    let heaviest = |a: &&usize, b: &&usize| tasks[**a].flops().total_cmp(&tasks[**b].flops());
    let origin = &tasks[*removed.iter().max_by(heaviest).unwrap_or(&0)];
    let (dtype, location) = (origin.dtype, origin.location);
    let priority = removed.iter().map(|&task| tasks[task].priority).max().unwrap_or(0);
    // What is put in again under the same name is no work of fusion.
    let stays = |name: &str| rule.with.iter().any(|pattern| pattern.codelet.name == name);
    let mut fused: Vec<&'static str> = removed.iter().flat_map(|&task| tasks[task].stands_for()).collect();
    let scopes = union(removed.iter().map(|&task| &tasks[task].scopes[..]));
    let again: Vec<&'static str> = fused.iter().copied().filter(|name| stays(name)).collect();
    fused.retain(|name| !stays(name));
    for &task in removed {
        index.remove(task, &tasks[task]);
    }
    let before = (graph.priority, graph.location);
    (graph.priority, graph.location) = (priority, Some(location));
    let mut recorded = Ok(());
    for (pattern, place) in rule.with.iter().zip(places) {
        recorded = recorded.and_then(|()| record(graph, pattern, dtype, found));
        if recorded.is_err() {
            break;
        }
        let number = graph.tasks.len() - 1;
        let task = &mut graph.tasks[number];
        task.scopes = scopes.clone();
        if !again.contains(&pattern.codelet.name) {
            task.fused = fused.clone();
        }
        index.insert(number, task, place);
    }
    (graph.priority, graph.location) = before;
    recorded.map(|()| true)
}

/// Records a new task of a rule.
fn record(graph: &mut Graph, pattern: &TaskPattern, dtype: Dtype, found: &Found) -> Result<()> {
    let (inputs, outputs) = pattern.slots()?;
    let vars = |slots: &[&str]| slots.iter().map(|slot| found.var(slot)).collect::<Result<Vec<Var>>>();
    let ints = pattern.ints().map(|int| found.int(int)).collect::<Result<Vec<i64>>>()?;
    graph.task(pattern.codelet, dtype, &vars(&inputs)?, &vars(&outputs)?, &ints, &[])
}

/// Removes temporary arrays that no task touches. Returns the new number of each array.
fn drop_untouched(graph: &mut Graph) -> Vec<Option<usize>> {
    let mut touched: Vec<bool> = graph.arrays.iter().map(|array| array.role != Role::Temporary).collect();
    graph.tasks.iter().flat_map(|task| &task.args).for_each(|var| touched[var.array] = true);
    let mut n_left = 0;
    let number = |&is_touched: &bool| {
        n_left += usize::from(is_touched);
        is_touched.then(|| n_left - 1)
    };
    let numbers: Vec<Option<usize>> = touched.iter().map(number).collect();
    let mut array = 0;
    graph.arrays.retain(|_| {
        array += 1;
        touched[array - 1]
    });
    for var in graph.tasks.iter_mut().flat_map(|task: &mut Recorded| &mut task.args) {
        if let Some(number) = numbers[var.array] {
            var.array = number;
        }
    }
    numbers
}
