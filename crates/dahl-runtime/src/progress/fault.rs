//! What a scheduler did that it must not do.

use crate::error::{Error, ErrorKind};
use crate::graph::TaskId;
use crate::sync::Arc;

/// A broken rule, and who broke it.
pub(crate) struct Fault {
    pub scheduler: Arc<str>,
    pub what: What,
}

/// The rule.
pub(crate) enum What {
    /// A task was returned that had been returned before.
    Twice { task: TaskId, step: u64 },
    /// A task was returned that still waits for others, or that its worker went on with.
    Unready { task: TaskId, step: u64 },
    /// There is no such task, or no such turn.
    Unknown { task: TaskId, turn: usize, n_tasks: usize, n_turns: usize },
    /// A task was given to a worker that may not execute it.
    Forbidden { task: TaskId, step: u64, worker: usize },
    /// Everybody was refused, though a task is ready and nothing is under way.
    Kept { task: TaskId, step: u64 },
    /// It panicked.
    Panicked(String),
}

impl Fault {
    /// The fault as an error, by a task's name.
    pub fn error(&self, name: impl Fn(TaskId) -> String) -> Error {
        let of = |task: TaskId, step: u64| format!("{} of step {}", name(task), step + 1);
        let what = match &self.what {
            What::Twice { task, step } => {
                format!("returned {} twice: return what is ready once", of(*task, *step))
            }
            What::Unready { task, step } => {
                format!("returned {}, which is not ready: return what it was told is", of(*task, *step))
            }
            What::Unknown { task, turn, n_tasks, n_turns } => format!(
                "returned task {task} of turn {turn}, and there are {n_tasks} tasks and {n_turns} turns: return what \
                 it was told is ready"
            ),
            What::Forbidden { task, step, worker } => format!(
                "gave {} to worker {worker}, which may not execute it: see Setting::allowed",
                of(*task, *step)
            ),
            What::Kept { task, step } => format!(
                "keeps {}, which is ready, while nothing is running and every worker has asked: return it to one of \
                 them",
                of(*task, *step)
            ),
            What::Panicked(message) => format!("panicked: {message}"),
        };
        Error::new(ErrorKind::Usage, format!("the scheduler {} {what}", self.scheduler))
    }
}
