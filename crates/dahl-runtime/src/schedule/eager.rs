//! Whoever is free takes the most urgent ready task.

use super::ready::{Ranks, ReadySet};
use super::{Scheduler, turns};
use crate::graph::TaskId;

/// One set of ready tasks for all workers.
#[derive(Debug)]
pub struct Eager {
    ranks: Ranks,
    /// The ready tasks of each turn.
    ready: Vec<ReadySet>,
}

impl Eager {
    /// For tasks with these priorities, higher first, of steps that have so many turns.
    pub fn new(priorities: &[f64], n_turns: usize) -> Self {
        let ready = (0..n_turns).map(|_| ReadySet::new(priorities.len())).collect();
        Eager { ranks: Ranks::new(priorities), ready }
    }
}

impl Scheduler for Eager {
    fn push(&self, task: TaskId, turn: usize, _by: Option<usize>) {
        self.ready[turn].add(self.ranks.of[task as usize]);
    }

    fn pop(&self, _worker: usize, oldest: usize) -> Option<(TaskId, usize)> {
        turns(oldest, self.ready.len()).find_map(|turn| {
            self.ready[turn].take_first().map(|rank| (self.ranks.tasks[rank as usize], turn))
        })
    }

    fn has_ready(&self, _worker: usize) -> bool {
        !self.ready.iter().all(ReadySet::is_empty)
    }
}
