//! Fusion: recorded tasks that hand arrays to each other become one task that does the work of all.
//!
//! A [`Fusion`] is a rule, declared beside the codelet that it brings in: the tasks it takes away, the tasks it puts in
//! their place, and when it applies. [`fuse`] rewrites a recorded graph by a list of such rules, before it is cut. It knows
//! nothing of what the codelets compute, and needs to know only which arrays go where:
//!
//! - What the removed tasks hand to each other and no new task writes must be temporary, and nobody else may look at it.
//!   Arrays that nobody touches any more leave the graph.
//! - The new tasks stand where the last of the removed ones stood. Whoever else works on their arrays in between makes the
//!   rule not apply.
//!
//! Invariant: after fusion every array that is left holds the same values after each task that writes it, as far as the
//! fused codelets keep their promise. Nothing depends on the number of workers.

mod find;
mod rule;

pub use find::Found;
pub use rule::{Fusion, TaskPattern};

use super::{Graph, Recorded, Role, Var};
use crate::error::Result;
use find::find;

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
pub fn fuse(mut graph: Graph, rules: &[&'static Fusion]) -> Result<Fused> {
    for rule in rules {
        rule.check()?;
        // Every application leaves fewer tasks, so this ends.
        while let Some(found) = find(&graph, rule)? {
            apply(&mut graph, rule, &found)?;
        }
    }
    let arrays = drop_untouched(&mut graph);
    Ok(Fused { graph, arrays })
}

/// Puts the new tasks of a rule where the last of the removed ones stood.
fn apply(graph: &mut Graph, rule: &Fusion, found: &Found) -> Result<()> {
    let tasks = &graph.tasks;
    let removed: Vec<usize> = found.replaced().to_vec();
    let heaviest = |a: &&usize, b: &&usize| tasks[**a].flops().total_cmp(&tasks[**b].flops());
    let origin = &tasks[*removed.iter().max_by(heaviest).unwrap_or(&0)];
    let (dtype, location) = (origin.dtype, origin.location);
    let priority = removed.iter().map(|&task| tasks[task].priority).max().unwrap_or(0);
    let fused: Vec<&'static str> = removed.iter().flat_map(|&task| tasks[task].stands_for()).collect();
    let mut calls = Vec::with_capacity(rule.with.len());
    for pattern in rule.with {
        let (inputs, outputs) = pattern.slots()?;
        let vars = |slots: &[&str]| slots.iter().map(|slot| found.var(slot)).collect::<Result<Vec<Var>>>();
        let ints = pattern.ints().map(|int| found.int(int)).collect::<Result<Vec<i64>>>()?;
        calls.push((pattern.codelet, vars(&inputs)?, vars(&outputs)?, ints));
    }
    let at = removed.iter().max().copied().unwrap_or(0);
    let after = graph.tasks.split_off(at + 1);
    let mut number = 0;
    graph.tasks.retain(|_| {
        number += 1;
        !removed.contains(&(number - 1))
    });
    let before = (graph.priority, graph.location);
    (graph.priority, graph.location) = (priority, Some(location));
    let mut recorded = Ok(());
    for (codelet, inputs, outputs, ints) in calls {
        recorded = recorded.and_then(|()| graph.task(codelet, dtype, &inputs, &outputs, &ints, &[]));
        // What was there before under the same name is no work of fusion.
        if let Some(task) = graph.tasks.last_mut().filter(|_| !fused.contains(&codelet.name)) {
            task.fused = fused.clone();
        }
    }
    (graph.priority, graph.location) = before;
    graph.tasks.extend(after);
    recorded
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
