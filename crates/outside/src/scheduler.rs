//! A scheduler that follows what has just become ready, as deep as it goes.

use dahl::runtime::graph::TaskId;
use dahl::runtime::schedule::{Allowed, Policy, Scheduler, Setting, Whereabouts};
use std::sync::{Arc, Mutex, PoisonError};

/// For [`Trainer::scheduler`](dahl::Trainer::scheduler): of the oldest step, the task that became ready last
/// goes first, since its inputs are the likeliest to lie in a cache.
pub fn newest_first() -> Policy {
    Policy::new("newest_first", |setting| Box::new(NewestFirst::new(setting)))
}

/// Ready tasks, a stack for each turn.
struct NewestFirst {
    stacks: Mutex<Vec<Vec<TaskId>>>,
    allowed: Arc<Allowed>,
}

impl NewestFirst {
    fn new(setting: &Setting<'_>) -> Self {
        let stacks = Mutex::new(vec![Vec::new(); setting.n_turns]);
        NewestFirst { stacks, allowed: Arc::clone(&setting.allowed) }
    }
}

impl Scheduler for NewestFirst {
    fn ready(&self, task: TaskId, turn: usize, _by: Option<usize>, _data: &dyn Whereabouts) {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)[turn].push(task);
    }

    fn take(&self, worker: usize, oldest: usize, _data: &dyn Whereabouts) -> Option<(TaskId, usize)> {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = (oldest..stacks.len()).chain(0..oldest);
        turns.into_iter().find_map(|turn| {
            let at = stacks[turn].iter().rposition(|&task| self.allowed.may(task, worker))?;
            Some((stacks[turn].remove(at), turn))
        })
    }

    fn listens(&self) -> bool {
        false
    }
}
