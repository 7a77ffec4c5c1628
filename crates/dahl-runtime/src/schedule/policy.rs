//! Policies: how a plan says which scheduler decides where it leaves units and order open.
//!
//! A policy is a name and a function that makes a scheduler for a graph. Two are built in
//! ([`SchedulerKind`]); any other crate can make more. A plan carries its policy, and a plan file its name.

use super::{Allowed, CostModel, Eager, RoughCosts, Scheduler, Steal, n_turns, priorities, steps_under_way};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{Edge, Lowered};
use crate::machine::Machine;
use crate::sync::Arc;
use std::fmt;

/// What a scheduler is made for.
#[non_exhaustive]
pub struct Setting<'a> {
    /// The graph.
    pub lowered: &'a Lowered,
    /// The machine; its units are the workers that ask for tasks.
    pub machine: &'a Machine,
    /// Everything that tasks wait for: data, and memory that others used before.
    pub edges: &'a [Edge],
    /// The turns of steps under way; see [`n_turns`].
    pub n_turns: usize,
    /// Who may execute what. A task that is given to another unit ends the run.
    pub allowed: Arc<Allowed>,
    /// What tasks and copies cost.
    pub costs: Arc<dyn CostModel>,
}

type Make = dyn Fn(&Setting<'_>) -> Box<dyn Scheduler> + Send + Sync;
type MakeCosts = dyn Fn(&Lowered, &Machine) -> Arc<dyn CostModel> + Send + Sync;

/// A scheduler by name, and how it is made.
#[derive(Clone)]
pub struct Policy {
    name: Arc<str>,
    is_built_in: bool,
    make: Arc<Make>,
    costs: Arc<MakeCosts>,
}

impl Policy {
    /// A scheduler of this name, made by `make` for each graph that is bound to an engine or simulated.
    pub fn new(
        name: &str,
        make: impl Fn(&Setting<'_>) -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        let costs = |lowered: &Lowered, machine: &Machine| -> Arc<dyn CostModel> {
            Arc::new(RoughCosts::new(lowered, machine))
        };
        Policy { name: name.into(), is_built_in: false, make: Arc::new(make), costs: Arc::new(costs) }
    }

    /// The same with other costs than [`RoughCosts`] for whoever asks.
    pub fn with_costs(
        self,
        costs: impl Fn(&Lowered, &Machine) -> Arc<dyn CostModel> + Send + Sync + 'static,
    ) -> Self {
        Policy { costs: Arc::new(costs), ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a name that cannot stand in a plan file, or that means something else there.
    pub(crate) fn check(&self) -> Result<()> {
        let name = self.name();
        let is_word =
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#');
        let is_taken = name == "fixed" || SchedulerKind::ALL.iter().any(|kind| kind.to_string() == name);
        if !is_word || is_taken && !self.is_built_in {
            let message = format!(
                "a scheduler is called '{}': its name must be one word, without #, and not fixed, eager or steal",
                name.escape_debug()
            );
            return Err(Error::new(ErrorKind::Usage, message));
        }
        Ok(())
    }

    /// The scheduler of a graph with these edges on a machine.
    pub(crate) fn appoint(
        &self,
        lowered: &Lowered,
        machine: &Machine,
        edges: &[Edge],
        allowed: Allowed,
    ) -> Appointed {
        let allowed = Arc::new(allowed);
        let setting = Setting {
            lowered,
            machine,
            edges,
            n_turns: n_turns(steps_under_way(edges)),
            allowed: Arc::clone(&allowed),
            costs: (self.costs)(lowered, machine),
        };
        let (name, scheduler) = (Arc::clone(&self.name), (self.make)(&setting));
        Appointed { name, scheduler, allowed, may_rest: self.is_built_in }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Policy").field(&self.name).finish()
    }
}

/// The scheduler of one graph, what it is called, and who may execute what.
pub(crate) struct Appointed {
    pub name: Arc<str>,
    pub scheduler: Box<dyn Scheduler>,
    pub allowed: Arc<Allowed>,
    /// Whether workers may rest, because it gives to any worker what it has.
    pub may_rest: bool,
}

/// The schedulers that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// One set of ready tasks for all workers, the most urgent first.
    #[default]
    Eager,
    /// Every worker has its own, and takes from others when it has nothing.
    Steal,
}

impl SchedulerKind {
    /// All of them.
    pub const ALL: [SchedulerKind; 2] = [SchedulerKind::Eager, SchedulerKind::Steal];

    fn make(self, setting: &Setting<'_>) -> Box<dyn Scheduler> {
        let Setting { lowered, machine, n_turns, .. } = *setting;
        let priorities = priorities(lowered, machine);
        match self {
            SchedulerKind::Eager => {
                Box::new(Eager::new(&priorities, n_turns).among(&setting.allowed, machine))
            }
            SchedulerKind::Steal => {
                // Whoever planned the graph has seen that somebody runs each task.
                let homes = lowered.homes(machine).unwrap_or_else(|_| vec![0; lowered.tasks.len()]);
                let steal = Steal::new(&priorities, homes, machine.units.len(), n_turns);
                Box::new(steal.among(&setting.allowed, machine))
            }
        }
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchedulerKind::Eager => "eager",
            SchedulerKind::Steal => "steal",
        })
    }
}

impl From<SchedulerKind> for Policy {
    fn from(kind: SchedulerKind) -> Policy {
        let policy = Policy::new(&kind.to_string(), move |setting| kind.make(setting));
        Policy { is_built_in: true, ..policy }
    }
}

impl From<&Policy> for Policy {
    fn from(policy: &Policy) -> Policy {
        policy.clone()
    }
}
