//! Who may execute what: the tile of a task is in some code, and units of some kinds run that code.

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Lowered, TaskId};
use crate::machine::Machine;

/// Classes of tasks and workers: a worker executes the tasks of its own class, and no others.
#[derive(Clone, Debug)]
pub struct Classes {
    of_tasks: Vec<u32>,
    of_workers: Vec<u32>,
    n_classes: usize,
}

impl Classes {
    /// Everybody may execute everything.
    pub fn one(n_tasks: usize, n_workers: usize) -> Self {
        Classes { of_tasks: vec![0; n_tasks], of_workers: vec![0; n_workers], n_classes: 1 }
    }

    /// A class for each code that units of a machine run. Refuses tasks that no unit runs.
    pub fn new(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        let mut codes: Vec<&str> = Vec::new();
        let mut of_workers = Vec::with_capacity(machine.units.len());
        for unit in 0..machine.units.len() {
            let code = &machine.kind_of(unit).code[..];
            let class = codes.iter().position(|known| *known == code).unwrap_or(codes.len());
            if class == codes.len() {
                codes.push(code);
            }
            of_workers.push(class as u32);
        }
        let class = |code: &str| {
            let class = codes.iter().position(|known| *known == code);
            class.map(|class| class as u32).ok_or_else(|| {
                let message = format!(
                    "a task is written in the code {code}, and no unit of this machine runs that: make a new plan"
                );
                Error::new(ErrorKind::Plan, message)
            })
        };
        let of_tasks = lowered.tasks().iter().map(|task| class(task.code)).collect::<Result<_>>()?;
        Ok(Classes { of_tasks, of_workers, n_classes: codes.len() })
    }

    /// How many there are.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// The class of a task.
    pub fn of_task(&self, task: TaskId) -> usize {
        self.of_tasks[task as usize] as usize
    }

    /// The class of a worker.
    pub fn of_worker(&self, worker: usize) -> usize {
        self.of_workers[worker] as usize
    }

    /// Whether a worker may execute a task.
    pub fn may_run(&self, worker: usize, task: TaskId) -> bool {
        self.of_workers[worker] == self.of_tasks[task as usize]
    }
}
