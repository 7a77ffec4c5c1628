//! Whoever is free takes the most urgent ready task that it may execute.

use super::ready::{Ranks, ReadySet};
use super::{Classes, Scheduler, turns};
use crate::graph::TaskId;

/// One set of ready tasks for all workers of a class.
#[derive(Debug)]
pub struct Eager {
    ranks: Ranks,
    classes: Classes,
    /// The ready tasks of each class and turn.
    ready: Vec<Vec<ReadySet>>,
}

impl Eager {
    /// For tasks with these priorities, higher first, of steps that have so many turns.
    pub fn new(priorities: &[f64], classes: Classes, n_turns: usize) -> Self {
        let of_class = |_| (0..n_turns).map(|_| ReadySet::new(priorities.len())).collect();
        let ready = (0..classes.n_classes()).map(of_class).collect();
        Eager { ranks: Ranks::new(priorities), classes, ready }
    }
}

impl Scheduler for Eager {
    fn push(&self, task: TaskId, turn: usize, _by: Option<usize>) {
        self.ready[self.classes.of_task(task)][turn].add(self.ranks.of[task as usize]);
    }

    fn pop(&self, worker: usize, oldest: usize) -> Option<(TaskId, usize)> {
        let ready = &self.ready[self.classes.of_worker(worker)];
        turns(oldest, ready.len())
            .find_map(|turn| ready[turn].take_first().map(|rank| (self.ranks.tasks[rank as usize], turn)))
    }

    fn has_ready(&self, worker: usize) -> bool {
        !self.ready[self.classes.of_worker(worker)].iter().all(ReadySet::is_empty)
    }

    fn may_run(&self, worker: usize, task: TaskId) -> bool {
        self.classes.may_run(worker, task)
    }
}
