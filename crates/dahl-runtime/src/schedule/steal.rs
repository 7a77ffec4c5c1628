//! Every worker takes its own tasks, the most urgent first, and those of others when it has none.
//!
//! What a worker makes ready is its own, because it has the data in its cache; the first tasks of a step are
//! shared out by a given home, and so is what another worker must execute. A thief takes the least urgent
//! task of its victim: the owner would come to it last, and its data is least likely to be in the owner's
//! cache still. Victims are of the thief's class.

use super::ready::{Ranks, ReadySet};
use super::{Classes, Scheduler, turns};
use crate::graph::TaskId;
use crate::sync::Padded;

/// A set of ready tasks per worker and turn.
pub struct Steal {
    ranks: Ranks,
    classes: Classes,
    /// The worker that gets a task which nobody's work made ready.
    homes: Vec<usize>,
    workers: Vec<Padded<Vec<ReadySet>>>,
    n_turns: usize,
}

impl Steal {
    /// For tasks with these priorities and homes, of steps that have so many turns. Homes are of the class of
    /// their task.
    pub fn new(
        priorities: &[f64],
        classes: Classes,
        homes: Vec<usize>,
        n_workers: usize,
        n_turns: usize,
    ) -> Self {
        let sets = || (0..n_turns).map(|_| ReadySet::new(priorities.len())).collect();
        let workers = (0..n_workers).map(|_| Padded(sets())).collect();
        Steal { ranks: Ranks::new(priorities), classes, homes, workers, n_turns }
    }
}

impl Steal {
    /// Whether two workers may execute the same tasks.
    fn is_peer(&self, worker: usize, other: usize) -> bool {
        self.classes.of_worker(worker) == self.classes.of_worker(other)
    }
}

impl Scheduler for Steal {
    fn push(&self, task: TaskId, turn: usize, by: Option<usize>) {
        let by = by.filter(|&by| self.classes.may_run(by, task));
        let worker = by.unwrap_or(self.homes[task as usize]);
        self.workers[worker].0[turn].add(self.ranks.of[task as usize]);
    }

    fn pop(&self, worker: usize, oldest: usize) -> Option<(TaskId, usize)> {
        let turns = || turns(oldest, self.n_turns);
        let n_workers = self.workers.len();
        let own = turns().find_map(|turn| Some((self.workers[worker].0[turn].take_first()?, turn)));
        let stolen = || {
            let others = (1..n_workers).map(|next| (worker + next) % n_workers);
            let victims =
                others.filter(|&other| self.is_peer(worker, other)).map(|other| &self.workers[other].0);
            let mut of_turn = victims.flat_map(|sets| turns().map(move |turn| (sets, turn)));
            of_turn.find_map(|(sets, turn)| Some((sets[turn].take_last()?, turn)))
        };
        own.or_else(stolen).map(|(rank, turn)| (self.ranks.tasks[rank as usize], turn))
    }

    fn has_ready(&self, worker: usize) -> bool {
        let all = self.workers.iter().enumerate().filter(|(other, _)| self.is_peer(worker, *other));
        !all.flat_map(|(_, sets)| &sets.0).all(ReadySet::is_empty)
    }

    fn may_run(&self, worker: usize, task: TaskId) -> bool {
        self.classes.may_run(worker, task)
    }
}
