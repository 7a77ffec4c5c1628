//! Every worker takes its own tasks, the most urgent first, and those of others when it has none.
//!
//! What a worker makes ready is its own, because it has the data in its cache; the first tasks of a step are
//! shared out by a given home. A thief takes the least urgent task of its victim: the owner would come to it
//! last, and its data is least likely to be in the owner's cache still.

use super::ready::{ALL_RANKS, Ranked, Ranks, ReadySet};
use super::{Allowed, Scheduler, Whereabouts, turns};
use crate::graph::TaskId;
use crate::machine::Machine;
use crate::sync::Padded;

/// A set of ready tasks per worker and turn.
pub struct Steal {
    ranks: Ranks,
    /// The worker that gets a task which nobody's work made ready.
    homes: Vec<usize>,
    workers: Vec<Padded<Vec<ReadySet>>>,
    n_turns: usize,
    /// For each worker, what it may execute; nothing where everybody may execute everything.
    among: Vec<Ranked>,
}

impl Steal {
    /// For tasks with these priorities and homes, of steps that have so many turns.
    pub fn new(priorities: &[f64], homes: Vec<usize>, n_workers: usize, n_turns: usize) -> Self {
        let sets = || (0..n_turns).map(|_| ReadySet::new(priorities.len())).collect();
        let workers = (0..n_workers).map(|_| Padded(sets())).collect();
        Steal { ranks: Ranks::new(priorities), homes, workers, n_turns, among: Vec::new() }
    }

    /// The same where units execute only what they may. What a worker has made ready and may not execute
    /// waits with it for a thief.
    pub fn among(self, allowed: &Allowed, machine: &Machine) -> Self {
        Steal { among: Ranked::of_units(&self.ranks, allowed, machine), ..self }
    }

    fn of(&self, worker: usize) -> &Ranked {
        self.among.get(worker).unwrap_or(&ALL_RANKS)
    }
}

impl Scheduler for Steal {
    fn ready(&self, task: TaskId, turn: usize, by: Option<usize>, _data: &dyn Whereabouts) {
        let worker = by.unwrap_or(self.homes[task as usize]);
        self.workers[worker].0[turn].add(self.ranks.of[task as usize]);
    }

    fn take(&self, worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let (turns, among) = (|| turns(oldest, self.n_turns), self.of(worker));
        let n_workers = self.workers.len();
        let own = turns().find_map(|turn| Some((self.workers[worker].0[turn].take_first_of(among)?, turn)));
        let stolen = || {
            let victims = (1..n_workers).map(|next| &self.workers[(worker + next) % n_workers].0);
            let mut of_turn = victims.flat_map(|sets| turns().map(move |turn| (sets, turn)));
            of_turn.find_map(|(sets, turn)| Some((sets[turn].take_last_of(among)?, turn)))
        };
        own.or_else(stolen).map(|(rank, turn)| (self.ranks.tasks[rank as usize], turn))
    }

    fn has_ready(&self, worker: usize) -> bool {
        self.workers.iter().flat_map(|sets| &sets.0).any(|ready| ready.has_any(self.of(worker)))
    }

    fn listens(&self) -> bool {
        false
    }

    fn lets_go_on(&self) -> bool {
        true
    }
}
