//! Whoever is free takes the most urgent ready task.

use super::Scheduler;
use super::ready::{Ranks, ReadySet};
use crate::graph::TaskId;

/// One set of ready tasks for all workers.
#[derive(Debug)]
pub struct Eager {
    ranks: Ranks,
    ready: [ReadySet; 2],
}

impl Eager {
    /// For tasks with these priorities, higher first.
    pub fn new(priorities: &[f64]) -> Self {
        let n_tasks = priorities.len();
        Eager { ranks: Ranks::new(priorities), ready: [ReadySet::new(n_tasks), ReadySet::new(n_tasks)] }
    }
}

impl Scheduler for Eager {
    fn push(&self, task: TaskId, turn: usize, _by: Option<usize>) {
        self.ready[turn].add(self.ranks.of[task as usize]);
    }

    fn pop(&self, _worker: usize, older: usize) -> Option<(TaskId, usize)> {
        [older, 1 - older].into_iter().find_map(|turn| {
            self.ready[turn].take_first().map(|rank| (self.ranks.tasks[rank as usize], turn))
        })
    }

    fn has_ready(&self, _worker: usize) -> bool {
        !self.ready.iter().all(ReadySet::is_empty)
    }
}
