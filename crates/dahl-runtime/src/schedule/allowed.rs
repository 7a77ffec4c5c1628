//! Which units may execute which tasks.

use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Lowered, TaskId};
use crate::machine::{KindId, Machine};

/// Kinds of units that a table can tell apart.
const MAX_KINDS: usize = u64::BITS as usize;

/// For each task, the kinds of units that may execute it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// A bit for each kind; nothing at all where every unit may execute every task.
    kinds: Vec<u64>,
    /// The kind of each unit.
    kind_of: Vec<KindId>,
}

impl Allowed {
    /// Every unit may execute every task.
    pub fn all() -> Self {
        Allowed::default()
    }

    /// As `may` says for each task and each kind of the machine. Refuses more than 64 kinds, and a task that
    /// no unit may execute.
    pub fn new(machine: &Machine, n_tasks: usize, may: impl Fn(TaskId, KindId) -> bool) -> Result<Self> {
        let n_kinds = machine.kinds.len();
        if n_kinds > MAX_KINDS {
            let message =
                format!("a machine has at most {MAX_KINDS} kinds of units, not {n_kinds}: name fewer");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let there = machine.units.iter().fold(0, |there, unit| there | 1 << unit.kind);
        let kinds_of = |task: TaskId| {
            let kinds =
                (0..n_kinds).filter(|&kind| may(task, kind)).fold(0_u64, |kinds, kind| kinds | 1 << kind);
            kinds & there
        };
        let kinds: Vec<u64> = (0..n_tasks as TaskId).map(kinds_of).collect();
        if let Some(task) = kinds.iter().position(|&kinds| kinds == 0) {
            let message =
                format!("no unit of the machine may execute task {task}: add one that runs its code");
            return Err(Error::new(ErrorKind::Plan, message));
        }
        if kinds.iter().all(|&kinds| kinds == there) {
            return Ok(Allowed::all());
        }
        Ok(Allowed { kinds, kind_of: machine.units.iter().map(|unit| unit.kind).collect() })
    }

    /// Units execute the tasks that are written in the code of their kind. Refuses a task that no unit runs.
    pub fn of_codes(lowered: &Lowered, machine: &Machine) -> Result<Self> {
        let tasks = lowered.tasks();
        let runs = |code: &str| machine.units.iter().any(|unit| machine.kinds[unit.kind].code == code);
        if let Some(task) = tasks.iter().find(|task| !runs(task.code)) {
            return Err(task.has_no_unit());
        }
        Allowed::new(machine, tasks.len(), |task, kind| tasks[task as usize].code == machine.kinds[kind].code)
    }

    /// Whether every unit may execute every task.
    pub fn is_all(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Whether a unit may execute a task.
    #[inline]
    pub fn may(&self, task: TaskId, unit: usize) -> bool {
        self.is_all() || self.kinds[task as usize] >> self.kind_of[unit] & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Kind;

    #[test]
    fn units_execute_what_their_kind_may() {
        let machine = Machine::with_workers(3).with_kind(2, Kind::cpu().named("other"));
        let allowed =
            Allowed::new(&machine, 4, |task, kind| task % 2 == kind as TaskId || task == 3).unwrap();
        let units = |task| (0..3).filter(|&unit| allowed.may(task, unit)).collect::<Vec<_>>();
        assert_eq!([0, 1, 2, 3].map(units), [vec![0, 1], vec![2], vec![0, 1], vec![0, 1, 2]]);
        assert!(Allowed::new(&machine, 4, |_, _| true).unwrap().is_all());
        let error = Allowed::new(&machine, 2, |task, _| task == 0).unwrap_err();
        assert!(error.to_string().contains("task 1"), "{error}");
        // A kind that no unit is of helps nobody.
        let mut unused = machine.clone();
        let kind = unused.add_kind(Kind::cpu().named("unused"));
        assert!(Allowed::new(&unused, 1, |_, of| of == kind).is_err());
        assert!(Allowed::new(&unused, 1, |_, of| of != kind).unwrap().is_all());
    }
}
