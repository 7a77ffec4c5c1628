//! The ways in which tasks come to workers, for whoever makes a plan.

use super::Plan;
use crate::error::Result;
use crate::graph::Lowered;
use crate::machine::Machine;
use crate::schedule::SchedulerKind;

/// Who decides which worker executes what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// A plan made before the run, replayed for every step. A worker that waits may take over tasks that
    /// float.
    #[default]
    Replay,
    /// A plan made before the run, in which nothing floats.
    Fixed,
    /// Whoever is free takes the most urgent task that is ready.
    Eager,
    /// Every worker keeps what it made ready, and takes from others when it has nothing.
    Steal,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Schedule; 4] = [Schedule::Replay, Schedule::Fixed, Schedule::Eager, Schedule::Steal];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Replay => "replay",
            Schedule::Fixed => "fixed",
            Schedule::Eager => "eager",
            Schedule::Steal => "steal",
        }
    }

    /// What it does, in half a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Schedule::Replay => "A plan made before the run; a worker that waits may take over some tasks",
            Schedule::Fixed => "The same, every task exactly where and when the plan says",
            Schedule::Eager => "Whoever is free takes the most urgent task that is ready",
            Schedule::Steal => {
                "Every worker keeps what it made ready, and takes from others when it has nothing"
            }
        }
    }

    /// The plan of a graph for this machine.
    pub fn plan(self, lowered: &Lowered, machine: &Machine) -> Result<Plan> {
        match self {
            Schedule::Replay => Plan::heuristic(lowered, machine),
            Schedule::Fixed => Plan::fixed(lowered, machine),
            Schedule::Eager => Plan::open(lowered, machine, SchedulerKind::Eager),
            Schedule::Steal => Plan::open(lowered, machine, SchedulerKind::Steal),
        }
    }
}
