//! Whoever is free takes the most urgent ready task.

use super::ready::{ALL_RANKS, Ranked, Ranks, ReadySet};
use super::{Allowed, Scheduler, Whereabouts, turns};
use crate::graph::TaskId;
use crate::machine::Machine;

/// One set of ready tasks for all workers.
#[derive(Debug)]
pub struct Eager {
    ranks: Ranks,
    /// The ready tasks of each turn.
    ready: Vec<ReadySet>,
    /// For each worker, what it may execute; nothing where everybody may execute everything.
    among: Vec<Ranked>,
}

impl Eager {
    /// For tasks with these priorities, higher first, of steps that have so many turns.
    pub fn new(priorities: &[f64], n_turns: usize) -> Self {
        let ready = (0..n_turns).map(|_| ReadySet::new(priorities.len())).collect();
        Eager { ranks: Ranks::new(priorities), ready, among: Vec::new() }
    }

    /// The same where units execute only what they may.
    pub fn among(self, allowed: &Allowed, machine: &Machine) -> Self {
        Eager { among: Ranked::of_units(&self.ranks, allowed, machine), ..self }
    }

    fn of(&self, worker: usize) -> &Ranked {
        self.among.get(worker).unwrap_or(&ALL_RANKS)
    }
}

impl Scheduler for Eager {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
        self.ready[turn].add(self.ranks.of[task as usize]);
    }

    fn take(&self, worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let among = self.of(worker);
        turns(oldest, self.ready.len()).find_map(|turn| {
            self.ready[turn].take_first_of(among).map(|rank| (self.ranks.tasks[rank as usize], turn))
        })
    }

    fn has_ready(&self, worker: usize) -> bool {
        self.ready.iter().any(|ready| ready.has_any(self.of(worker)))
    }

    fn listens(&self) -> bool {
        false
    }

    fn lets_go_on(&self) -> bool {
        true
    }
}
